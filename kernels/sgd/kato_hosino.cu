// Kato and Hosino: all users for all ratings, then all items for all ratings.
// Source: Kampffmeyer 2015, section 2.3.3 and Algorithm 2.2, after Kato and Hosino 2010.
//
// With the other side fixed, the ratings of different users are independent: a group of lanes takes a user and iterates
// over its ratings, the user's vector in registers. The launch for the items follows the one for the users; that is the
// synchronization. The error of each rating is computed twice, the second time with the new users.
//
// Who races on what: no thread. No two groups write the same vector, and no vector that is read is written: two runs
// give the same bits.
//
// Where the source is silent: the samples of one user, run in parallel, would overwrite each other; here they are
// sequential. The learning rate applies to one rating, as in Algorithm 4.1.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                  seconds  % of roofline  gain
//     kato_hosino  0.117    1.7            –
#include "common/group.cuh"
#include "common/sgd.cuh"

template <bool MOVED_USERS>
__device__ void move_rows(const long long* indptr, int first_row, int end_row, const int* indices, const float* values,
                          long long first_rating, const float* fixed, float* moved, const float* rates, int by_rows,
                          const Steps<float>& all) {
    for (long long row = first_row + group_index(); row < end_row; row += group_count()) {
        const long long begin = indptr[row], end = indptr[row + 1];
        if (begin == end) continue;
        const Steps<float> steps = by_rows ? scaled(all, rates[row]) : all;
        float x[FACTORS_PER_LANE];
        load_factors(x, moved, (int)row);
        for (long long t = begin - first_rating; t < end - first_rating; ++t) {
            float other[FACTORS_PER_LANE];
            load_factors(other, fixed, indices[t]);
            const float error = group_dot(x, other) - values[t];
#pragma unroll
            for (int k = 0; k < FACTORS_PER_LANE; ++k) {
                const int column = group_lane() + k * LANES;
                update(MOVED_USERS ? x[k] : other[k], MOVED_USERS ? other[k] : x[k], error, column, steps);
            }
        }
        store_factors(moved, (int)row, x);
    }
}

// Half an epoch: updates the rows first_row to end_row - 1 of `moved`, users or, where users_move is 0, items; indptr
// counts ratings from first_rating. rates: of the moved rows, in units of the learning rate, where by_rows is not 0. Grid
// and block: any; a group of lanes a row.
extern "C" __global__ void kato_hosino(const long long* __restrict__ indptr, int first_row, int end_row,
                                       const int* __restrict__ indices, const float* __restrict__ values,
                                       long long first_rating, const float* __restrict__ fixed,
                                       float* __restrict__ moved, const float* __restrict__ rates, int by_rows,
                                       const Steps<float>* __restrict__ steps_now, int users_move) {
    const Steps<float> steps = *steps_now;
    if (users_move)
        move_rows<true>(indptr, first_row, end_row, indices, values, first_rating, fixed, moved, rates, by_rows, steps);
    else
        move_rows<false>(indptr, first_row, end_row, indices, values, first_rating, fixed, moved, rates, by_rows, steps);
}
