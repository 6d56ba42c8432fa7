// The geometry of cuMF's kernels for one number of factors, for the host. A source of its own, quick to compile: the
// host asks for it before it knows whether the kernels fit the device.
#include "als/cumf/geometry.cuh"

// Grid: 1. Block: 1. Entries of one A; floats of a segment's sums; threads and dynamic shared bytes of get_hermitian;
// threads of the direct solvers and bytes of one of their systems; threads of conjugate gradient.
extern "C" __global__ void shape(int* __restrict__ matrix, int* __restrict__ sums, int* __restrict__ hermitian_threads,
                                 int* __restrict__ hermitian_shared, int* __restrict__ direct_threads,
                                 int* __restrict__ system_bytes, int* __restrict__ cg_threads) {
    *matrix = MATRIX;
    *sums = PATCHES * SUMS;
    *hermitian_threads = HERMITIAN_THREADS;
    *hermitian_shared = HERMITIAN_SHARED;
    *direct_threads = DIRECT_THREADS;
    *system_bytes = 4 * SYSTEM;
    *cg_threads = 32 * CG_WARPS;
}
