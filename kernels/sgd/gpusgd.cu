// GPUSGD: square blocks, and in a block tags of ratings that share neither row nor column; one thread an update.
// Source: Li et al. 2019, sections 3 and 4.1, after Jin et al. 2016.
//
// A launch is one tag of blocks, a thread block takes a data block of it, and the ratings of one tag inside the block at
// a time, each by a thread that updates the factors of both vectors one after another. Nothing is ever lost: blocks of a
// launch share no row and no column, nor do ratings between two barriers. Neighbouring threads read factors that lie
// a row apart, so nearly every access is a transaction of its own.
//
// Where the source is silent: how entries are tagged inside a block; here by their diagonal, as the blocks are.
// What it gains is measured in book/sgd_schemes.ipynb.
#include "common/sgd.cuh"

// Block b has the groups block_groups[b] and on; group g is the ratings groups[g] to groups[g + 1], counted from
// first_rating.
extern "C" __global__ void gpusgd(const int* __restrict__ block_groups, const long long* __restrict__ groups,
                                  int first_block, const int* __restrict__ users, const int* __restrict__ items,
                                  const float* __restrict__ values, long long first_rating, float* user_factors,
                                  float* item_factors, float learning_rate, float user_regularization,
                                  float item_regularization, float bias_regularization) {
    const Steps<float> steps = {learning_rate, user_regularization, item_regularization, bias_regularization};
    const int block = first_block + blockIdx.x;
    for (int g = block_groups[block]; g < block_groups[block + 1]; ++g) {
        const long long end = groups[g + 1] - first_rating;
        for (long long t = groups[g] - first_rating + threadIdx.x; t < end; t += blockDim.x) {
            float* const p = user_factors + users[t] * (long long)FACTORS;
            float* const q = item_factors + items[t] * (long long)FACTORS;
            float error = -values[t];
#pragma unroll 4
            for (int k = 0; k < FACTORS; ++k) error += p[k] * q[k];
#pragma unroll 4
            for (int k = 0; k < FACTORS; ++k) update(p[k], q[k], error, k, steps);
        }
        __syncthreads();
    }
}
