// What the drawings ask of the kernels' own headers: the plan of tensor_core.cu. Compiled for the CPU alone.
#include "als/plan.cuh"

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
