// draw_rows: a step of Gibbs sampling (Salakhutdinov and Mnih 2008), one row a block, with the systems of hermitian.cu.
//
// In the place of lambda I comes Lambda / a, to b comes Lambda mu / a, and the row is drawn from N(x, (a A)^-1): with
// A = L L^T the back substitution starts from L^-1 b + a^-1/2 z, z standard normal. A row without ratings is drawn from
// its prior. row_errors adds up what the ratings of a row are off, without reading them:
//     sum (r - x theta)^2 = sum r^2 - 2 x b + x A x
// Measured (make gains): not recorded yet.
#define CHOLESKY 1
#include "als/cumf/direct.cuh"
#include "common/random.cuh"
#include "common/tree_sum.cuh"

#ifndef IN_GLOBAL
#error "compile with -DIN_GLOBAL=0 or 1"
#endif

// Draws the rows, of which these are from `first` on. Grid, Block and shared memory: as of solve_direct.
// prior: (FACTORS, FACTORS + 1), Lambda / a and, its last column, Lambda mu / a. deviation: a^-1/2. key: of the noise.
extern "C" __global__ void __launch_bounds__(DIRECT_THREADS)
    draw_rows(const float* __restrict__ matrices, const float* __restrict__ biases,
                const long long* __restrict__ indptr, const float* __restrict__ prior, float* __restrict__ solved,
                int n_rows, long long first, float deviation, unsigned long long key, float* workspace) {
    extern __shared__ __align__(16) float shared[];
    __shared__ float x[TILE_ROWS * SIDE];
    float* const system = IN_GLOBAL ? workspace + blockIdx.x * (long long)SYSTEM : shared;
    for (int row = blockIdx.x; row < n_rows; row += gridDim.x) {
        load_system(system, system, x, matrices + row * (long long)MATRIX, biases + row * (long long)FACTORS,
                    indptr[row + 1] > indptr[row], [&](int i, int j) { return prior[j * (FACTORS + 1) + i]; });
        __syncthreads();
        factor_system<DIRECT_THREADS>(system, system, x, WholeBlock::here());
        substitute_back<DIRECT_THREADS>(system, x, WholeBlock::here(), [&](int k) {
            return deviation * normal_deviate(key, (first + row) * (unsigned long long)FACTORS + k);
        });
        for (int k = threadIdx.x; k < FACTORS; k += DIRECT_THREADS)
            solved[row * (long long)FACTORS + k] = x[k];
        __syncthreads();
    }
}

// What x A x - 2 x b is of every row; of one without ratings 0. Grid: a block a row. Block: DIRECT_THREADS.
extern "C" __global__ void __launch_bounds__(DIRECT_THREADS)
    row_errors(const float* __restrict__ matrices, const float* __restrict__ biases,
               const long long* __restrict__ indptr, const float* __restrict__ solved, double* __restrict__ errors) {
    __shared__ double sums[DIRECT_THREADS];
    __shared__ float x[TILE_ROWS * SIDE];
    const long long row = blockIdx.x;
    const bool rated = indptr[row + 1] > indptr[row];
    for (int k = threadIdx.x; k < TILE_ROWS * SIDE; k += DIRECT_THREADS)
        x[k] = k < FACTORS ? solved[row * FACTORS + k] : 0.0f;
    __syncthreads();
    double sum = 0.0;
    for (int k = threadIdx.x; rated && k < MATRIX; k += DIRECT_THREADS) {
        const Place tile = place_in_triangle(k / (SIDE * SIDE));
        const int i = tile.i * SIDE + k / SIDE % SIDE, j = tile.j * SIDE + k % SIDE;
        if (i < FACTORS && j < FACTORS)
            sum += (tile.i == tile.j ? 1.0 : 2.0) * matrices[row * MATRIX + k] * ((double)x[i] * x[j]);
    }
    for (int k = threadIdx.x; rated && k < FACTORS; k += DIRECT_THREADS)
        sum -= 2.0 * x[k] * biases[row * FACTORS + k];
    sum = tree_sum(sum, sums);
    if (threadIdx.x == 0) errors[row] = sum;
}
