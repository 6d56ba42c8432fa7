// Sums of absolute and squared errors of expected ratings, as metrics/errors.cu computes them for inner products.
//     expected = sum_k p(v_i = k | h) value_k    (thesis, equation 2.34), h the user's hidden probabilities
//
// Where the user or the item is not known from training, the mean is expected. One group of lanes a rating reads its
// weights coalesced; total_errors of metrics/errors.cu adds the blocks' sums.
#define FACTORS HIDDEN
#include "common/error_sums.cuh"
#include "common/group.cuh"
#include "common/units.cuh"

// user_known, item_known: 0 or 1 each. Biases of users and items count from the mean of the values; low, high: to which
// predictions are clipped. partial: (grid, 2). Grid: any. Block: a power of two.
extern "C" __global__ void expected_errors(const int* __restrict__ users, const int* __restrict__ items,
                                           const float* __restrict__ values, long long nnz,
                                           const unsigned char* __restrict__ user_known,
                                           const unsigned char* __restrict__ item_known, float mean,
                                           const float* __restrict__ user_hidden, const float* __restrict__ weights,
                                           const float* __restrict__ visible_biases,
                                           const float* __restrict__ level_values,
                                           const float* __restrict__ user_biases,
                                           const float* __restrict__ item_biases, float low, float high,
                                           double* __restrict__ partial) {
    ErrorSums sums;
    for (long long t = group_index(); t < nnz; t += group_count()) {
        float h[FACTORS_PER_LANE], w[FACTORS_PER_LANE], p[LEVELS];
        load_factors(h, user_hidden, users[t]);
        const int first = items[t] * LEVELS;
#pragma unroll
        for (int k = 0; k < LEVELS; ++k) {
            load_factors(w, weights, first + k);
            p[k] = visible_biases[first + k] + group_dot(h, w);
        }
        softmax(p);
        float expected = user_biases[users[t]] + item_biases[items[t]];
#pragma unroll
        for (int k = 0; k < LEVELS; ++k) expected += p[k] * level_values[k];
        expected = fminf(fmaxf(expected, low), high);
        const bool known = user_known[users[t]] && item_known[items[t]];
        if (group_lane() == 0) sums.add((double)(known ? expected : mean) - (double)values[t]);
    }
    sums.store_of_block(partial + 2 * blockIdx.x);
}
