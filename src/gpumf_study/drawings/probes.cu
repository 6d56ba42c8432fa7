// What the drawings ask of the kernels' own headers: who holds what of a tensor core's product, and the plan of
// tensor_core.cu. Compiled for the processor alone.
#include "als/plan.cuh"
#include "common/tensor.cuh"

// A thread for each element: whose it is. Grid and block: any, a thread an element.
extern "C" __global__ void owners(int n, int* __restrict__ blocks, int* __restrict__ threads) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        blocks[k] = blockIdx.x;
        threads[k] = threadIdx.x;
    }
}

// One more for every thread, without order: a race on purpose. Grid and block: any.
extern "C" __global__ void add_one(int* sum) {
    sum[0] += 1;
}

// D = L^T R[:, :8] of two 16 x 16 tiles, whose rows are ratings, as tensor_core.cu loads and multiplies its own. Grid: 1.
// Block: 32. a: (32, 8), b and d: (32, 4), the entries of L^T, R and D that a lane holds.
extern "C" __global__ void product(const float* __restrict__ left, const float* __restrict__ right,
                                   float* __restrict__ a, float* __restrict__ b, float* __restrict__ d) {
    __shared__ __align__(16) half_bits stages[2][16][16];
    const int lane = threadIdx.x;
    for (int k = lane; k < 256; k += 32) {
        stages[0][k / 16][k % 16] = to_half(left[k]);
        stages[1][k / 16][k % 16] = to_half(right[k]);
    }
    __syncwarp();
    unsigned of_left[4], of_right[4];
    load_transposed(of_left, &stages[0][lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
    load_transposed(of_right, &stages[1][lane % 16][lane / 16 * 8]);
    float sum[4] = {};
    multiply_add(sum, of_left, of_right[0], of_right[1]);
    for (int k = 0; k < 8; ++k) a[8 * lane + k] = from_half((half_bits)(of_left[k / 2] >> k % 2 * 16));
    for (int k = 0; k < 4; ++k) {
        b[4 * lane + k] = from_half((half_bits)(of_right[k / 2] >> k % 2 * 16));
        d[4 * lane + k] = sum[k];
    }
}

// The tiles of A by the warp that computes them: (tiles, 3) of warp, row, column, in each warp in its order.
extern "C" __global__ void plan(int* __restrict__ tiles) {
    int n = 0;
    for (int warp = 0; warp < WARPS; ++warp)
        for (int body = 0; body < PLAN.bodies; ++body) {
            if (!(PLAN.warps[body] >> warp & 1)) continue;
            for (int k = PLAN.first[body]; k < PLAN.first[body + 1]; ++k) {
                const int row = PLAN.row[k] + origin(warp, PLAN.row[k] >= FIRST);
                const int column = PLAN.column[k] + origin(warp, PLAN.column[k] >= FIRST);
                tiles[n++] = warp;
                tiles[n++] = row;
                tiles[n++] = column;
            }
        }
}

extern "C" __global__ void shape(int* __restrict__ warps, int* __restrict__ tiles, int* __restrict__ quads) {
    *warps = WARPS;
    *tiles = ALL;
    *quads = PLAN.quads;
}
