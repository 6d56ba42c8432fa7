// Rows of factors in half precision or in eight bits, for the kernels that gather them: see half_rows.cuh on their range.
//
// Two passes over the factors, one for the largest and one to round them, and one over the ratings. No sum depends on an
// order: the same bits in every run.
#include "als/half_rows.cuh"
#include "common/async_mma.cuh"
#include "common/segments.cuh"

// The maximum over the block, on every thread.
__device__ inline float block_max(float x) {
    __shared__ float of_warps[32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) x = max(x, of_warps[w]);
    return x;
}

// Grid and block: a warp a segment. largest: for each row the magnitude of its largest rating; 0 before.
extern "C" __global__ void largest_ratings(const Segment* __restrict__ segments, int n_segments,
                                           const float* __restrict__ values, unsigned* __restrict__ largest) {
    const int warp = (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    if (warp >= n_segments) return;
    const Segment segment = segments[warp];
    float most = 0.0f;
    for (int t = threadIdx.x % 32; t < segment.length; t += 32) {
        most = max(most, fabsf(values[segment.begin + t]));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, offset));
    // The bits of non-negative floats are ordered as the floats are.
    if (threadIdx.x % 32 == 0) atomicMax(&largest[segment.row], __float_as_uint(most));
}

// largest: for each block the magnitude of its largest factor. Grid and block: any; a layer a system.
extern "C" __global__ void largest_factors(const float* __restrict__ factors, int n_rows, float* __restrict__ largest) {
    factors += blockIdx.y * (long long)n_rows * FACTORS;
    float most = 0.0f;
    const long long step = gridDim.x * (long long)blockDim.x;
#pragma unroll 4
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n_rows * (long long)FACTORS; k += step)
        most = max(most, fabsf(factors[k]));
    most = block_max(most);
    if (threadIdx.x == 0) largest[blockIdx.y * gridDim.x + blockIdx.x] = most;
}

// rounded = factors / unit in FP16, in rows padded with zeros. unit: the power of two that scales the largest factor,
// the maximum of the n in `largest`, to near the top of FP16, unless all are so small against lambda that their ratio
// exceeds FP32. regularization: the least that is added to a diagonal. Grid and block: any; a layer a system.
extern "C" __global__ void round_factors(const float* __restrict__ factors, half_bits* __restrict__ rounded, int n_rows,
                                         const float* __restrict__ largest, int n,
                                         const float* __restrict__ regularization, float* __restrict__ unit) {
    factors += blockIdx.y * (long long)n_rows * FACTORS;
    rounded += blockIdx.y * (long long)n_rows * PADDED;
    largest += blockIdx.y * n;
    unit += blockIdx.y * NUMBERS;
    float most = 0.0f;
    for (int k = threadIdx.x; k < n; k += blockDim.x) most = max(most, largest[k]);
    const int least = (exponent_of(regularization[blockIdx.y]) - 24) / 2;
    const int exponent = max(exponent_of(block_max(most)) - FACTOR_EXPONENT, least);
    const float scale = power_of_two(-exponent);
    const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    if (first == 0) unit[0] = power_of_two(exponent), unit[1] = scale;
#pragma unroll 4
    for (long long k = first; k < n_rows * (long long)PADDED; k += step) {
        const int column = (int)(k % PADDED);
        rounded[k] = column < FACTORS ? to_half(scale * factors[k / PADDED * FACTORS + column]) : 0;
    }
}

// rounded = factors / unit, to the nearest integer, a signed byte each, in rows of BYTES_OF_ROW. unit: of the largest
// factor it makes 127, as far as lambda allows; the same for all rows, so that sums of products are integers. The
// other arguments are those of round_factors, for one system. Grid and block: any.
extern "C" __global__ void round_to_bytes(const float* __restrict__ factors, unsigned* __restrict__ rounded, int n_rows,
                                          const float* __restrict__ largest, int n,
                                          const float* __restrict__ regularization, float* __restrict__ unit) {
    float most = 0.0f;
    for (int k = threadIdx.x; k < n; k += blockDim.x) most = max(most, largest[k]);
    const int least = (exponent_of(regularization[0]) - 24) / 2;
    const float one = max(block_max(most) / 127.0f, power_of_two(least));
    const float scale = 1.0f / one;
    const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    if (first == 0) unit[0] = one, unit[1] = scale;
    constexpr int WORDS = BYTES_OF_ROW / 4;
#pragma unroll 2
    for (long long k = first; k < n_rows * (long long)WORDS; k += step) {
        const int word = (int)(k % WORDS);
        unsigned bytes = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int column = word / 4 * 16 + e % 2 * 8 + word % 4 * 2 + e / 2;
            const float factor = column < FACTORS ? scale * factors[k / WORDS * FACTORS + column] : 0.0f;
            bytes |= ((unsigned)(int)rintf(factor) & 0xffu) << 8 * e;
        }
        rounded[k] = bytes;
    }
}
