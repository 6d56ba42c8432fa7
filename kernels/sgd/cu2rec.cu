// cu2rec: a step updates every user once, with one of its ratings at random; of an item's updates in a step one counts.
// Source: Greenquist and Kilitcioglu, "How it works" to "Advanced techniques".
//
// A step draws one rating of each user from its CSR row. A user's vector belongs to one group; an item's is shared by
// all groups that drew it. They read the item as it was before the step: the new vector goes to a second row, the
// target, and the two rows swap roles between steps. Each step starts at another user (striding), so that the first
// ones vary.
//
//   1. CONFLICT = early_bird_loses the gradient: all groups write the target, the last write counts.
//   2. CONFLICT = early_bird_gets the gradient (EBGTG): the group that finds the item's flag unset sets it and writes;
//      the others skip the write. The flag is no lock: two groups may both find it unset, and the last write counts.
//   3. CONFLICT = atomic: all gradients are added, atomically, to the item itself.
// loss and total_loss: the error of every rating, and their sums by blocks, for the source's patience, which lowers the
// learning rate when the loss stops falling.
//
// Who races on what: groups of a step that drew the same item, on its note and, where several write (always where the
// early bird loses), on its target, whose factors may then come from different groups; with atomic additions there is
// no note, and reads of the item race against additions to it.
//
// What differs from the source, or where it slips:
//   - a group of lanes takes a user, not one thread, so that vectors are read coalesced;
//   - swapping the pointers of the whole matrices resets an item that was not drawn to its state two steps ago, so that
//     items have two histories; here each item has two rows and a note: which is newest, and its step. The note is also
//     the flag, and needs no clearing;
//   - the random draw is a hash of step and user instead of a cuRAND state a thread;
//   - the loss per item adds regularization terms to the first power; the derivatives given are those of squares, and
//     of half the loss.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                               seconds  % of roofline  gain
//     cu2rec, early bird loses  0.0417   4.8            –
//     cu2rec                    0.0361   5.5            1.16 x over cu2rec, early bird loses
//     cu2rec, atomic            0.0487   4.1            0.856 x over cu2rec, early bird loses
#include "common/group.cuh"
#include "common/random.cuh"
#include "common/sgd.cuh"
#include "sgd/geometry.cuh"

#ifndef CONFLICT
#error "compile with -DCONFLICT=early_bird_gets, early_bird_loses or atomic"
#endif

enum Conflict { early_bird_gets, early_bird_loses, atomic };
constexpr Conflict conflict = CONFLICT;

// item_factors: (n_items, 2, FACTORS). newest: (n_items,), 2 * (step that wrote the newest row) + index of that row.
// now: (2,), the number of the step and who begins it; in memory, so that a recorded launch can be replayed.
// Grid and block: any; a group of lanes a user.
extern "C" __global__ void cu2rec(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                  const float* __restrict__ values, int n_users, float* user_factors,
                                  float* item_factors, int* newest, const Steps<float>* __restrict__ steps_now,
                                  unsigned long long key, const int* __restrict__ now) {
    const Steps<float> steps = *steps_now;
    const int step = now[0], first_user = now[1];
    for (long long g = group_index(); g < n_users; g += group_count()) {
        const int user = (int)(g + first_user < n_users ? g + first_user : g + first_user - n_users);
        const long long low = indptr[user], high = indptr[user + 1];
        if (low == high) continue;
        const unsigned long long draw = (unsigned long long)step * n_users + user;
        const long long rating = low + random_position(key, draw, high - low);
        const int item = indices[rating];

        // One lane reads the note for the group, bypassing L1, which may have an old value: the lanes have to agree.
        int note = conflict != atomic && group_lane() == 0 ? __ldcg(&newest[item]) : 0;
        note = __shfl_sync(group_mask(), note, 0, LANES);
        const bool early_bird = conflict == atomic || note >> 1 != step;
        const int source = 2 * item + (early_bird ? note & 1 : ~note & 1);
        const int target = source ^ 1;
        if (conflict != atomic && early_bird && group_lane() == 0) newest[item] = 2 * step + (target & 1);

        float p[FACTORS_PER_LANE], q[FACTORS_PER_LANE], q_old[FACTORS_PER_LANE];
        load_factors(p, user_factors, user);
        load_current(q, item_factors, source);
        const float error = group_dot(p, q) - values[rating];
#pragma unroll
        for (int k = 0; k < FACTORS_PER_LANE; ++k) {
            q_old[k] = q[k];
            update(p[k], q[k], error, group_lane() + k * LANES, steps);
        }
        store_factors(user_factors, user, p);
        if (conflict == atomic) {
#pragma unroll
            for (int k = 0; k < FACTORS_PER_LANE; ++k) {
                const int column = group_lane() + k * LANES;
                if (column < FACTORS) atomicAdd(&item_factors[source * (long long)FACTORS + column], q[k] - q_old[k]);
            }
        } else if (early_bird || conflict == early_bird_loses) {
            store_factors(item_factors, target, q);
        }
    }
}

// errors[t] = p_u . q_i - r_ui, in CSR order. Grid and block: any; a group of lanes a user.
extern "C" __global__ void loss(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                const float* __restrict__ values, int n_users,
                                const float* __restrict__ user_factors, const float* __restrict__ item_factors,
                                const int* __restrict__ newest, float* __restrict__ errors) {
    for (long long user = group_index(); user < n_users; user += group_count()) {
        float p[FACTORS_PER_LANE], q[FACTORS_PER_LANE];
        load_factors(p, user_factors, (int)user);
        for (long long t = indptr[user]; t < indptr[user + 1]; ++t) {
            load_factors(q, item_factors, 2 * indices[t] + (newest[indices[t]] & 1));
            const float error = group_dot(p, q) - values[t];
            if (group_lane() == 0) errors[t] = error;
        }
    }
}

// sums: (grid, 2), of |e| and e^2. Grid: any. Block: LOSS_THREADS.
extern "C" __global__ void total_loss(const float* __restrict__ errors, long long n, double* __restrict__ sums) {
    __shared__ double absolute[LOSS_THREADS], squared[LOSS_THREADS];
    const int thread = threadIdx.x;
    double a = 0.0, s = 0.0;
    for (long long t = blockIdx.x * (long long)LOSS_THREADS + thread; t < n; t += gridDim.x * (long long)LOSS_THREADS) {
        a += fabsf(errors[t]);
        s += (double)errors[t] * errors[t];
    }
    absolute[thread] = a;
    squared[thread] = s;
    for (int half = LOSS_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            absolute[thread] += absolute[thread + half];
            squared[thread] += squared[thread + half];
        }
    }
    if (thread == 0) {
        sums[2 * blockIdx.x] = absolute[0];
        sums[2 * blockIdx.x + 1] = squared[0];
    }
}
