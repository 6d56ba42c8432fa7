// Hogwild SGD: one group of lanes an update, no locks.
// Source: Kampffmeyer 2015, Algorithm 4.1 and section 4.1.1, after Recht et al. 2011.
//
// Every group draws a rating r_ui with replacement (section 6.2.1), loads both vectors coalesced, and stores both:
//     e = p_u . q_i - r;   p_u -= rate (e q_i + lambda_u p_u);   q_i -= rate (e p_u + lambda_i q_i)
// The draw is a hash of the update's number, so that a sequential run can use the same samples.
//
// Who races on what: all groups, on the rows of users and items. An overwritten update is lost, which is rare where the
// matrix is sparse; which ones depends on timing, so two runs differ.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//              seconds  % of roofline  gain
//     hogwild  0.0535   3.7            –
#include "common/group.cuh"
#include "common/random.cuh"
#include "common/sgd.cuh"

// Grid and block: any; a group of lanes an update.
extern "C" __global__ void hogwild(const int* __restrict__ users, const int* __restrict__ items,
                                   const float* __restrict__ values, long long nnz, float* user_factors,
                                   float* item_factors, const Steps<float>* __restrict__ steps_now,
                                   unsigned long long key, unsigned long long first_update,
                                   long long n_updates) {
    const Steps<float> steps = *steps_now;
    for (long long t = group_index(); t < n_updates; t += group_count()) {
        const long long sample = random_position(key, first_update + t, nnz);
        const int user = users[sample], item = items[sample];

        float p[FACTORS_PER_LANE], q[FACTORS_PER_LANE];
        load_current(p, user_factors, user);
        load_current(q, item_factors, item);

        const float error = group_dot(p, q) - values[sample];
#pragma unroll
        for (int k = 0; k < FACTORS_PER_LANE; ++k) update(p[k], q[k], error, group_lane() + k * LANES, steps);
        store_factors(user_factors, user, p);
        store_factors(item_factors, item, q);
    }
}
