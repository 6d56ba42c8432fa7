// A group: the threads that work on one row or one rating together.
//
// Lane l has the factors l, l + LANES, l + 2 LANES, ... (lanes.cuh says how many lanes there are). FACTORS is fixed when
// the kernel is compiled, so that every loop over factors unrolls. For 40 factors:
//
//     lane       0   1   ...   7   8   ...  31
//     factors    0   1   ...   7   8   ...  31
//               32  33   ...  39   -   ...   -
#pragma once
#include "common/lanes.cuh"

#ifndef GROUP_LANES
#define GROUP_LANES ROW_LANES
#endif

constexpr int LANES = GROUP_LANES;
constexpr int FACTORS_PER_LANE = (FACTORS + LANES - 1) / LANES;

__device__ inline int group_lane() { return threadIdx.x % LANES; }

// Index of this group in the grid; it processes the rows or ratings g, g + group_count(), ...
__device__ inline long long group_index() {
    return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / LANES;
}

__device__ inline long long group_count() { return gridDim.x * (long long)blockDim.x / LANES; }

// Mask of the group's lanes in its warp. The groups of a warp have rows of different lengths, so a group may
// synchronize only with itself.
__device__ inline unsigned group_mask() {
    return 0xffffffffu >> (32 - LANES) << (threadIdx.x % 32 / LANES * LANES);
}

// The sum over the group, the same bits on every lane.
__device__ inline float group_sum(float x, unsigned mask = group_mask()) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(mask, x, offset, LANES);
    return x;
}

// This lane's factors of one row; zero beyond FACTORS.
__device__ inline void load_factors(float (&out)[FACTORS_PER_LANE], const float* matrix, int row) {
#pragma unroll
    for (int k = 0; k < FACTORS_PER_LANE; ++k) {
        const int factor = group_lane() + k * LANES;
        out[k] = factor < FACTORS ? matrix[row * (long long)FACTORS + factor] : 0.0f;
    }
}

// The same bypassing L1, for rows that other multiprocessors write in the same launch: L1 would return old values.
__device__ inline void load_current(float (&out)[FACTORS_PER_LANE], const float* matrix, int row) {
#pragma unroll
    for (int k = 0; k < FACTORS_PER_LANE; ++k) {
        const int factor = group_lane() + k * LANES;
        out[k] = factor < FACTORS ? __ldcg(&matrix[row * (long long)FACTORS + factor]) : 0.0f;
    }
}

__device__ inline void store_factors(float* matrix, int row, const float (&in)[FACTORS_PER_LANE]) {
#pragma unroll
    for (int k = 0; k < FACTORS_PER_LANE; ++k) {
        const int factor = group_lane() + k * LANES;
        if (factor < FACTORS) matrix[row * (long long)FACTORS + factor] = in[k];
    }
}

// The inner product of two rows.
__device__ inline float group_dot(const float (&a)[FACTORS_PER_LANE], const float (&b)[FACTORS_PER_LANE]) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < FACTORS_PER_LANE; ++k) sum += a[k] * b[k];
    return group_sum(sum);
}
