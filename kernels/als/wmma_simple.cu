// wmma_simple: the thesis's user update with its products on the tensor cores; the step from thesis.cu to tensor_core.cu.
//
// For every row r, with S its n rated columns, solve (F_S^T F_S + lambda n I) x = F_S^T r as in thesis.cu. A block has a
// row:
//   - The rows of factors come to shared memory, 16 ratings at a time, rounded to FP16. Half precision limits digits,
//     not range: they are multiplied by a power of two that brings the row's largest factor near the top of it, and both
//     sides of the system are made of the same rounded numbers.
//   - A = F_S^T F_S is a product of matrices: 16 x 16 factors at a time, a tile, over 16 ratings by two instructions of
//     the tensor cores, with FP32 sums in registers. A warp has every fourth tile on and below the diagonal.
//   - A then lies in shared memory, where L D L^T = A is computed and solved, a thread a row of it.
//
// What it leaves to tensor_core.cu: nothing is copied while something else is multiplied; an operand is loaded again for
// every tile; a long row keeps one block busy while the others are done (segments); the exact solution takes f^3 / 6
// steps, with two barriers for each of f columns, where few steps of conjugate gradient do. The same bits in every run.
// An iteration on ratings of Netflix's shape, 100 factors, H100, in milliseconds (one run, median of 3, others of 10):
// wmma_simple 423, cumf_cholesky 99.6, cumf_cg_fp16 69.1, tensor_core 13.6. The products are no longer what takes the
// time, but the solutions.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, an iteration:
//                  seconds  % of roofline  gain
//     wmma_simple  0.429    0.72           –
#include "als/half_rows.cuh"
#include "common/async_mma.cuh"

static_assert(FACTORS <= 128, "A has to fit in static shared memory");

constexpr int WARPS = 4, THREADS = 32 * WARPS;
constexpr int STAGE = 16;                             // ratings at a time
constexpr int ALL = TILES * (TILES + 1) / 2;          // tiles on and below the diagonal
constexpr int OWN = (ALL + WARPS - 1) / WARPS;        // of a warp
constexpr int PACKED = FACTORS * (FACTORS + 1) / 2;   // numbers of A on and below the diagonal

// Entry (i, j) of A, i >= j, row by row.
__device__ inline int packed(int i, int j) { return i * (i + 1) / 2 + j; }

struct Shared {
    half_bits stage[STAGE][PADDED + 8];  // eight rows in different banks
    float matrix[PACKED], diagonal[FACTORS], solution[FACTORS];
    float largest[WARPS];
};

// The largest magnitude of a factor of the rated columns, on every thread.
__device__ inline float largest_factor(Shared& shared, const int* columns, int n, const float* fixed) {
    float most = 0.0f;
    for (int t = threadIdx.x / 32; t < n; t += WARPS)
        for (int k = threadIdx.x % 32; k < FACTORS; k += 32)
            most = max(most, fabsf(fixed[columns[t] * (long long)FACTORS + k]));
    for (int offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, offset));
    if (threadIdx.x % 32 == 0) shared.largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) most = max(most, shared.largest[w]);
    return most;
}

// shared.matrix = the lower triangle of scaled F_S^T F_S; returns the thread's entry of scaled F_S^T r.
__device__ inline float multiply(Shared& shared, const int* columns, const float* values, int n, const float* fixed,
                                 float scale) {
    const int i = threadIdx.x, lane = i % 32, warp = i / 32;
    float sums[OWN][2][4] = {}, right = 0.0f;
    for (int first = 0; first < n; first += STAGE) {
        for (int k = i; k < STAGE * PADDED; k += THREADS) {
            const int t = k / PADDED, column = k % PADDED;
            const bool valid = first + t < n && column < FACTORS;
            const float factor = valid ? fixed[columns[first + t] * (long long)FACTORS + column] : 0.0f;
            shared.stage[t][column] = to_half(scale * factor);
        }
        __syncthreads();
        if (i < FACTORS)
            for (int t = 0; t < STAGE && first + t < n; ++t) right += from_half(shared.stage[t][i]) * values[first + t];
        int tile = warp, row = 0;
#pragma unroll
        for (int own = 0; own < OWN; ++own, tile += WARPS) {
            if (tile >= ALL) break;
            while ((row + 1) * (row + 2) / 2 <= tile) ++row;
            const int column = tile - row * (row + 1) / 2;
            unsigned a[4], b[4];  // factors x ratings; ratings x factors
            load_transposed(a, &shared.stage[lane % 8 + lane / 16 * 8][row * 16 + lane / 8 % 2 * 8]);
            load_transposed(b, &shared.stage[lane % 16][column * 16 + lane / 16 * 8]);
            multiply_add(sums[own][0], a, b[0], b[1]);
            multiply_add(sums[own][1], a, b[2], b[3]);
        }
        __syncthreads();
    }
    int tile = warp, row = 0;
#pragma unroll
    for (int own = 0; own < OWN; ++own, tile += WARPS) {
        if (tile >= ALL) break;
        while ((row + 1) * (row + 2) / 2 <= tile) ++row;
        const int column = tile - row * (row + 1) / 2;
#pragma unroll
        for (int e = 0; e < 8; ++e) {  // of a lane: see multiply_add
            const int y = row * 16 + lane / 4 + e % 4 / 2 * 8, x = column * 16 + e / 4 * 8 + lane % 4 * 2 + e % 2;
            if (y < FACTORS && x <= y) shared.matrix[packed(y, x)] = sums[own][e / 4][e % 4];
        }
    }
    return right;
}

// The solution of (A + ridge I) x = right side by L D L^T; thread i has entry i of both. As in thesis.cu, a D_jj that
// FP32 leaves at 0, below, or within rounding of A_jj counts as infinite: its unknown is 0.
__device__ inline float solve(Shared& shared, float right, float ridge) {
    const int i = threadIdx.x;
    float* const row = &shared.matrix[packed(min(i, FACTORS - 1), 0)];
    if (i < FACTORS) shared.diagonal[i] = row[i] += ridge;
    for (int j = 0; j < FACTORS; ++j) {
        if (i == j) {
            if (!(row[j] > 0x1p-21f * shared.diagonal[j])) row[j] = 0.0f;
            shared.solution[j] = right;
        }
        __syncthreads();
        const float pivot = shared.matrix[packed(j, j)];
        if (i > j && i < FACTORS && pivot > 0.0f) {
            const float factor = row[j] / pivot;
            for (int k = j + 1; k <= i; ++k) row[k] -= factor * shared.matrix[packed(k, j)];
            right -= factor * shared.solution[j];
        }
        __syncthreads();
    }
    for (int j = FACTORS - 1; j >= 0; --j) {
        const float pivot = shared.matrix[packed(j, j)];
        if (i == j) shared.solution[j] = pivot > 0.0f ? right / pivot : 0.0f;
        __syncthreads();
        if (i < j) right -= shared.matrix[packed(j, i)] * shared.solution[j];
    }
    return i < FACTORS ? shared.solution[i] : 0.0f;
}

// Grid: a block a row. Block: THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
    wmma_simple(const long long* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ values,
                const float* __restrict__ fixed, float* __restrict__ solved, float regularization, int weighted) {
    __shared__ Shared shared;
    const long long begin = indptr[blockIdx.x];
    const int n = (int)(indptr[blockIdx.x + 1] - begin), i = threadIdx.x;
    float x = 0.0f;
    if (n > 0) {
        // Not so far down that lambda leaves the range of FP32.
        const int least = (exponent_of(regularization) - 24) / 2;
        const float largest = largest_factor(shared, indices + begin, n, fixed);
        const float scale = power_of_two(-max(exponent_of(largest) - FACTOR_EXPONENT, least));
        const float right = multiply(shared, indices + begin, values + begin, n, fixed, scale);
        const float ridge = weighted ? regularization * (float)n : regularization;
        __syncthreads();
        x = scale * solve(shared, right, ridge * scale * scale);
    }
    if (i < FACTORS) solved[blockIdx.x * (long long)FACTORS + i] = x;
}

// The geometry for the host. Grid: 1. Block: 1. Threads of a block.
extern "C" __global__ void shape(int* __restrict__ block) { *block = THREADS; }
