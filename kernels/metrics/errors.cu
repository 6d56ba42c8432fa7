// Sums of absolute and squared errors of p_u . q_i over a set of ratings, in one pass.
// MAE and RMSE (thesis, equation 6.1) follow from the two sums, without a copy of single errors to the host. Products
// are clipped to low..high, which may be infinite; what is not finite stays so: a model that diverged has no error.
// Where the user or the item is not known from training, the mean is predicted.
//
//   1. errors: a group of lanes a rating, sums of each group in double, then of each block in shared memory.
//   2. total_errors: the sum over the blocks, by one block.
#include "common/error_sums.cuh"
#include "common/group.cuh"

// user_known, item_known: 0 or 1 each. partial: (grid, 2). Grid: any. Block: a power of two.
extern "C" __global__ void errors(const int* __restrict__ users, const int* __restrict__ items,
                                  const float* __restrict__ values, long long nnz,
                                  const unsigned char* __restrict__ user_known,
                                  const unsigned char* __restrict__ item_known, float mean,
                                  const float* __restrict__ user_factors,
                                  const float* __restrict__ item_factors, float low, float high, double* partial) {
    ErrorSums sums;
    for (long long t = group_index(); t < nnz; t += group_count()) {
        float p[FACTORS_PER_LANE], q[FACTORS_PER_LANE];
        load_factors(p, user_factors, users[t]);
        load_factors(q, item_factors, items[t]);
        const float dot = group_dot(p, q), clipped = !isfinite(dot) ? dot : dot < low ? low : dot > high ? high : dot;
        const bool known = user_known[users[t]] && item_known[items[t]];
        if (group_lane() == 0) sums.add((double)(known ? clipped : mean) - (double)values[t]);
    }
    sums.store_of_block(partial + 2 * blockIdx.x);
}

// total: (2,). Grid: 1. Block: a power of two.
extern "C" __global__ void total_errors(const double* __restrict__ partial, int n_partial,
                                        double* __restrict__ total) {
    ErrorSums sums;
    for (int k = threadIdx.x; k < n_partial; k += blockDim.x) sums.add_pair(partial + 2 * k);
    sums.store_of_block(total);
}
