// solve_cg: A x = b by conjugate gradient from the solution before (Algorithm 1): an approximation, in O(f^2).
// Source: Tan et al. 2018, section 4.
//
// A is read again in each step, which is most of the time:
//   1. A_HALF = 0: in FP32.
//   2. A_HALF = 1: in FP16, half the bytes, scaled as hermitian.cu stores it; all arithmetic stays FP32.
//
// Where the source is silent or slips:
//   - Algorithm 1, line 5, updates the residual by alpha p; it is alpha a_p;
//   - Algorithm 1 tests the residual only after a step, and divides 0 by 0 where there is none; here it may end before
//     the first step, and ends where p^T a_p is no normal positive number;
//   - a row without ratings gets the zero vector.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, all systems:
//               seconds  % of roofline  gain
//     A_HALF=0  0.0171   16             2.02 x over CHOLESKY=1
//     A_HALF=1  0.0122   11             1.41 x over A_HALF=0
#include "als/cumf/geometry.cuh"

#ifndef A_HALF
#error "compile with -DA_HALF=0 or 1"
#endif

#if A_HALF
using element = half_bits;
#else
using element = float;
#endif

// The sum over the block, the same bits on every thread. scratch: CG_WARPS floats that no thread reads any more.
__device__ inline float block_sum(float x, float* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (CG_WARPS == 1) {
        __syncwarp();  // as the barrier below: the caller may overwrite what was read
        return x;
    }
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < CG_WARPS; ++w) total += scratch[w];
    return total;
}

// (A p)_i: row i of the tiles left of the diagonal and on it, column i of the tiles below it.
__device__ inline float times_row(const element* matrix, int i, const float* p) {
    const int tile_row = i / SIDE, inside = i % SIDE;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < TILE_ROWS; ++j) {
        if (j <= tile_row) {
            const element* const row = matrix + tile_number(tile_row, j) * SIDE * SIDE + inside * SIDE;
#pragma unroll
            for (int k = 0; k < SIDE; k += 4) {
                const int at = j * SIDE + k;
                if (at >= FACTORS) break;
                const float4 four = load4(row + k);
                sum += four.x * p[at];
                if (at + 1 < FACTORS) sum += four.y * p[at + 1];
                if (at + 2 < FACTORS) sum += four.z * p[at + 2];
                if (at + 3 < FACTORS) sum += four.w * p[at + 3];
            }
        } else {
            const element* const column = matrix + tile_number(j, tile_row) * SIDE * SIDE + inside;
#pragma unroll
            for (int k = 0; k < SIDE; ++k)
                if (j * SIDE + k < FACTORS) sum += value_of(column[k * SIDE]) * p[j * SIDE + k];
        }
    }
    return sum;
}

// Grid: a block a row. Block: a thread a factor, in whole warps. Starts from `solved`, ends after cg_steps or where the
// residual's length is below cg_tolerance. ridges: for each row lambda n, or lambda.
extern "C" __global__ void __launch_bounds__(32 * CG_WARPS)
    solve_cg(const element* __restrict__ matrices, const float* __restrict__ scales, const float* __restrict__ biases,
             const long long* __restrict__ indptr, const float* __restrict__ ridges,
             float* __restrict__ solved, int n_rows, int cg_steps, float cg_tolerance) {
    __shared__ float direction[TILE_ROWS * SIDE];
    __shared__ float scratch[2][CG_WARPS];
    const int row = blockIdx.x, i = threadIdx.x;
    const bool mine = i < FACTORS;
    float* const solution = solved + row * (long long)FACTORS;
    const int count = (int)(indptr[row + 1] - indptr[row]);
    if (count == 0) {
        if (mine) solution[i] = 0.0f;
        return;
    }
    const element* const matrix = matrices + row * (long long)MATRIX;
    const float scale = A_HALF ? scales[row] : 1.0f;
    const float ridge = ridges[row];
    auto times_a = [&](float p) {
        if (mine) direction[i] = p;
        __syncthreads();
        return mine ? scale * times_row(matrix, i, direction) + ridge * p : 0.0f;
    };

    float x = mine ? solution[i] : 0.0f;
    const float ax = times_a(x);
    float residual = mine ? biases[row * (long long)FACTORS + i] - ax : 0.0f;
    float p = residual, square = block_sum(residual * residual, scratch[0]);
    for (int step = 0; step < cg_steps && sqrtf(square) >= cg_tolerance; ++step) {
        const float ap = times_a(p), curvature = block_sum(p * ap, scratch[1]);
        if (!(curvature > 1e-37f)) break;
        const float step_length = square / curvature;
        x += step_length * p;
        residual -= step_length * ap;
        const float before = square;
        square = block_sum(residual * residual, scratch[0]);
        p = residual + square / before * p;
    }
    if (mine) solution[i] = x;
}
