// solve_direct: A x = b solved directly, one system a block.
// Source: Tan et al. 2018, section 4 (the batched LU that conjugate gradient replaces).
//
//   1. CHOLESKY=0: A = L U, as a general batched LU that ignores symmetry. Without pivoting: A is symmetric positive
//      definite, for which elimination in any order of the diagonal is stable.
//   2. CHOLESKY=1: A = L L^T: half the work and half the memory of LU.
// Each in two places: with the system in shared memory (IN_GLOBAL=0), or, where a block cannot have that much, in global
// memory (IN_GLOBAL=1).
//
// A row without ratings gets the zero vector.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, all systems:
//                 seconds  % of roofline  gain
//     CHOLESKY=0  0.101    3.5            –
//     CHOLESKY=1  0.0345   10             2.92 x over CHOLESKY=0
#include "als/cumf/direct.cuh"

#ifndef IN_GLOBAL
#error "compile with -DIN_GLOBAL=0 or 1"
#endif

// Solves the systems of rows blockIdx.x, blockIdx.x + gridDim.x, ... in this block's own `lower` and `upper`.
__device__ inline void solve_rows(float* lower, float* upper, const float* matrices, const float* biases,
                                  const long long* indptr, const float* ridges, float* solved, int n_rows) {
    __shared__ float x[TILE_ROWS * SIDE];
    for (int row = blockIdx.x; row < n_rows; row += gridDim.x) {
        float* const solution = solved + row * (long long)FACTORS;
        const int count = (int)(indptr[row + 1] - indptr[row]);
        if (count == 0) {
            for (int k = threadIdx.x; k < FACTORS; k += DIRECT_THREADS) solution[k] = 0.0f;
            continue;
        }
        // x stores the least pivots until the solution replaces them.
        load_system(lower, upper, x, matrices + row * (long long)MATRIX, biases + row * (long long)FACTORS, true,
                    [&](int i, int j) { return i == j ? ridges[row] : 0.0f; });
        __syncthreads();
        factor_system<DIRECT_THREADS>(lower, upper, x, WholeBlock::here());
        substitute_back<DIRECT_THREADS>(upper, x, WholeBlock::here(), [](int) { return 0.0f; });
        for (int k = threadIdx.x; k < FACTORS; k += DIRECT_THREADS) solution[k] = x[k];
        __syncthreads();
    }
}

// Grid: a block a row, or, with the system in global memory, any. Block: DIRECT_THREADS. In dynamic shared memory, or in
// `workspace` for each block: 2 SYSTEM floats for LU, SYSTEM floats for Cholesky.
extern "C" __global__ void __launch_bounds__(DIRECT_THREADS)
    solve_direct(const float* __restrict__ matrices, const float* __restrict__ biases,
                 const long long* __restrict__ indptr, const float* __restrict__ ridges, float* __restrict__ solved,
                 int n_rows, float* workspace) {
    extern __shared__ __align__(16) float shared[];
    constexpr int sets = CHOLESKY ? 1 : 2;
    float* const lower = IN_GLOBAL ? workspace + blockIdx.x * (long long)(sets * SYSTEM) : shared;
    solve_rows(lower, lower + (sets - 1) * SYSTEM, matrices, biases, indptr, ridges, solved, n_rows);
}
