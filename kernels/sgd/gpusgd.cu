// GPUSGD: square blocks, and in a block tags of ratings that share neither row nor column; one thread an update.
// Source: Li et al. 2019, sections 3, 4.1 and 5.2, after Jin et al. 2016.
//
// A launch is one tag of blocks; a thread block takes a data block and, inside it, the ratings of one tag at a time, a
// thread a rating, which updates the factors of both vectors in a loop. A block has as many threads as there are
// factors. Neighbouring threads read factors that are a row apart, so nearly every access is a transaction of its own.
//
//   1. REAL = float.
//   2. REAL = double, the second precision of section 5.
//
// Who races on what: no thread. Blocks of a launch share no row and no column, nor do ratings between two barriers, not
// even repeated ratings of one cell: nothing is lost, and two runs give the same bits.
//
// Where the source is silent: how entries are tagged inside a block; here by their diagonal, as the blocks are. Blocks
// are cut evenly, as in newgpusgd.cu; blocks beyond the matrix, which the square needs, are empty.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//             seconds  % of roofline  gain
//     gpusgd  7.12     0.028          –
#include "common/sgd.cuh"

#ifndef REAL
#error "compile with -DREAL=float or double"
#endif

// Block b has the groups block_groups[b] to block_groups[b + 1] - 1; group g is the ratings groups[g] to
// groups[g + 1] - 1, counted from first_rating.
// Grid: a block a data block of the tag. Block: FACTORS, a thread a rating.
extern "C" __global__ void gpusgd(const int* __restrict__ block_groups, const long long* __restrict__ groups,
                                  int first_block, const int* __restrict__ users, const int* __restrict__ items,
                                  const float* __restrict__ values, long long first_rating, REAL* user_factors,
                                  REAL* item_factors, const Steps<REAL>* __restrict__ steps_now) {
    const Steps<REAL> steps = *steps_now;
    const int block = first_block + blockIdx.x;
    for (int g = block_groups[block]; g < block_groups[block + 1]; ++g) {
        const long long end = groups[g + 1] - first_rating;
        for (long long t = groups[g] - first_rating + threadIdx.x; t < end; t += blockDim.x) {
            REAL* const p = user_factors + users[t] * (long long)FACTORS;
            REAL* const q = item_factors + items[t] * (long long)FACTORS;
            REAL error = -values[t];
#pragma unroll 4
            for (int k = 0; k < FACTORS; ++k) error += p[k] * q[k];
#pragma unroll 4
            for (int k = 0; k < FACTORS; ++k) update(p[k], q[k], error, k, steps);
        }
        __syncthreads();
    }
}
