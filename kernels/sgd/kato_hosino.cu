// Kato and Hosino: all users for all ratings, then all items for all ratings.
// Source: Kampffmeyer 2015, section 2.6 and Algorithm 2.2, after Kato and Hosino 2010.
//
// With the other side fixed, the ratings of different users have nothing in common: a group of lanes takes a user and
// goes over its ratings one after another, the user's vector in registers. The launch for the items begins when the one
// for the users has ended; that is the synchronization. An error is computed twice for each rating, and the second
// time with the new users.
//
// Who races on what: nobody. No two groups write the same vector, and those that are read are fixed: two runs give the
// same bits.
//
// Where the source is silent: the samples of one user, run in parallel, would overwrite each other; here they are in
// order. `steps` belong to one rating, as in Algorithm 4.1.
// What it gains is measured in book/sgd_schemes.ipynb.
#include "common/group.cuh"
#include "common/sgd.cuh"

// The rows first_row to end_row, whose ratings begin with number first_rating of indptr.
template <bool users>
__device__ inline void descend(const long long* indptr, int first_row, int end_row, const int* indices,
                               const float* values, long long first_rating, const float* fixed, float* moved,
                               Steps<float> steps) {
    for (long long row = first_row + group_index(); row < end_row; row += group_count()) {
        const long long begin = indptr[row], end = indptr[row + 1];
        if (begin == end) continue;
        float x[FACTORS_PER_LANE];
        load_factors(x, moved, (int)row);
        for (long long t = begin - first_rating; t < end - first_rating; ++t) {
            float other[FACTORS_PER_LANE];
            load_factors(other, fixed, indices[t]);
            const float error = group_dot(x, other) - values[t];
#pragma unroll
            for (int k = 0; k < FACTORS_PER_LANE; ++k)
                update(users ? x[k] : other[k], users ? other[k] : x[k], error, group_lane() + k * LANES, steps);
        }
        store_factors(moved, (int)row, x);
    }
}

extern "C" __global__ void kato_hosino_users(const long long* __restrict__ indptr, int first_row, int end_row,
                                             const int* __restrict__ indices, const float* __restrict__ values,
                                             long long first_rating, const float* __restrict__ item_factors,
                                             float* __restrict__ user_factors,
                                             const Steps<float>* __restrict__ steps_now) {
    descend<true>(indptr, first_row, end_row, indices, values, first_rating, item_factors, user_factors, *steps_now);
}

extern "C" __global__ void kato_hosino_items(const long long* __restrict__ indptr, int first_row, int end_row,
                                             const int* __restrict__ indices, const float* __restrict__ values,
                                             long long first_rating, const float* __restrict__ user_factors,
                                             float* __restrict__ item_factors,
                                             const Steps<float>* __restrict__ steps_now) {
    descend<false>(indptr, first_row, end_row, indices, values, first_rating, user_factors, item_factors, *steps_now);
}
