// NewGPUSGD: rectangular blocks, a thread block takes a data block, rating after rating, each thread one factor.
// Source: Li et al. 2019, section 4, Algorithm 1.
//
// The matrix is cut into l x l blocks of m/l users by n/l items, rounded so that all have a row and a column where
// there are l of both: block a begins with row a m / l. A launch is one tag of l blocks that share no row and no
// column; the next launch is the synchronization between tags. The launches of an epoch are recorded once and replayed
// as a graph. The inner product is a tree sum in shared memory.
//
//   1. REAL = float.
//   2. REAL = double, the second precision of section 5.
//
// Who races on what: no thread. Nothing is lost, and two runs give the same bits.
//
// Slips of Algorithm 1, implemented as the text and equation 3 say:
//   - line 14 updates the item's vector with the item's own where the user's belongs; it is the user's before line 13;
//   - line 9 lets every even thread add in all rounds; in round `sign` it is every 2 sign-th thread;
//   - line 8 stops a round early, at sign * 2 < f instead of sign < f, and the sum misses half its terms;
//   - a barrier is missing between line 6, which writes, and line 10, which reads what other threads wrote;
//   - equation 2 subtracts the regularization, which minimizing the error adds.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                      seconds  % of roofline  gain
//     newgpusgd        0.528    0.38           13.5 x over gpusgd
//     newgpusgd, FP64  0.567    0.35           0.931 x over newgpusgd
#include "common/sgd.cuh"
#include "common/tree_sum.cuh"

#ifndef REAL
#error "compile with -DREAL=float or double"
#endif

// Updates by the ratings of a data block, offsets[b] to offsets[b + 1] - 1, counted from first_rating, in order.
// Grid: a block a data block b of the tag, from first_block on. Block: FACTORS.
extern "C" __global__ void newgpusgd(const long long* __restrict__ offsets, int first_block,
                                     const int* __restrict__ users, const int* __restrict__ items,
                                     const float* __restrict__ values, long long first_rating, REAL* user_factors,
                                     REAL* item_factors, const Steps<REAL>* __restrict__ steps_now) {
    __shared__ REAL pre_score[FACTORS];
    const Steps<REAL> steps = *steps_now;
    const int k = threadIdx.x;
    const long long end = offsets[first_block + blockIdx.x + 1] - first_rating;
    for (long long t = offsets[first_block + blockIdx.x] - first_rating; t < end; ++t) {
        REAL& p = user_factors[users[t] * (long long)FACTORS + k];
        REAL& q = item_factors[items[t] * (long long)FACTORS + k];
        const REAL error = tree_sum(p * q, pre_score) - values[t];
        update(p, q, error, k, steps);
        __syncthreads();
    }
}
