// BSGD: a batch of ratings at a time, one thread block a rating, one thread a factor.
// Source: Nassar et al., section 2.4, after Tang 2015.
//
// The ratings are shuffled once and split into batches of s; a launch is one batch, of s blocks of k threads. Gradients
// are added to the vectors atomically, so that none is lost where ratings of a batch share a row; a late block may read
// what an early one has added. A popular row gets many gradients at a time, which limits s: the step of a row is the
// rate times its ratings in the batch.
//
// Who races on what: blocks whose ratings share a user or an item, on its row: reads against atomic additions. No
// addition is lost.
//
// Where the source is silent: how k threads form a sum; here with the tree of newgpusgd.cu.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//           seconds  % of roofline  gain
//     bsgd  0.348    0.57           –
#include "common/sgd.cuh"
#include "common/tree_sum.cuh"

// Grid: a block a rating of the batch, from `begin` on. Block: FACTORS.
extern "C" __global__ void bsgd(const int* __restrict__ users, const int* __restrict__ items,
                                const float* __restrict__ values, long long begin, float* user_factors,
                                float* item_factors, const Steps<float>* __restrict__ steps_now) {
    __shared__ float products[FACTORS];
    const Steps<float> steps = *steps_now;
    const long long t = begin + blockIdx.x;
    const int k = threadIdx.x;
    float* const to_p = &user_factors[users[t] * (long long)FACTORS + k];
    float* const to_q = &item_factors[items[t] * (long long)FACTORS + k];
    const float p = __ldcg(to_p), q = __ldcg(to_q);  // bypassing L1: other multiprocessors write them too
    const float error = tree_sum(p * q, products) - values[t];
    float new_p = p, new_q = q;
    update(new_p, new_q, error, k, steps);
    atomicAdd(to_p, new_p - p);
    atomicAdd(to_q, new_q - q);
}
