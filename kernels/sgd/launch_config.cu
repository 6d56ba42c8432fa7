// The geometry of this folder's kernels for one number of columns, for the host. A source of its own, quick to compile:
// the host asks for it before it has chosen a kernel.
#include "sgd/geometry.cuh"

// Grid: 1. Block: 1. Lanes of a group, of one with quads, and quads of a row; the most threads of a block of fast, bytes
// of shared memory of an item's row there, of its lock and of its rate; threads of total_loss.
extern "C" __global__ void shape(int* __restrict__ lanes, int* __restrict__ quad_lanes, int* __restrict__ quads,
                                 int* __restrict__ fast_threads, int* __restrict__ fast_row, int* __restrict__ fast_lock,
                                 int* __restrict__ fast_rate, int* __restrict__ loss_threads) {
    *lanes = ROW_LANES;
    *quad_lanes = QUAD_LANES;
    *quads = QUADS;
    *fast_threads = FAST_THREADS;
    *fast_row = FAST_ROW;
    *fast_lock = FAST_LOCK;
    *fast_rate = FAST_RATE;
    *loss_threads = LOSS_THREADS;
}
