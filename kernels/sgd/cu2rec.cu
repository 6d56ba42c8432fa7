// cu2rec: a step updates every user once, with one of its ratings at random; of an item's updates in a step one counts.
// Source: Greenquist and Kilitcioglu, "How it works" to "Advanced techniques".
//
// A step draws a rating of each user out of its CSR row. The user's vector is nobody else's. The item's is wanted by as
// many groups as drew it; what they read is the item as it was before the step, since the new one goes to another
// place, the target, and both are swapped between steps. Users begin at another one every step (striding), so that it
// is not the same ones who come first. Hyperparameters are arguments of the kernel, which lie in constant memory.
//
// Who races on what: the groups of a step that drew the same item, on its note and, where two of them found it unset or
// all write (cu2rec_loses), on its target, of which some factors may then be one's and some the other's; with atomic
// additions, on what they read of the item.
//
// Version cu2rec, early bird gets the gradient (EBGTG): who finds the item's flag unset sets it and updates the item; the
//     others save themselves the write. The flag is no lock: two may both find it unset, and the last of them counts.
// Version cu2rec_loses, early bird loses the gradient: everybody writes the target, the last one counts.
// Version cu2rec_atomic: everybody's gradient is added, atomically, to the item itself.
// Versions loss and total_loss: the error of every rating, and sums of them by blocks, which the host adds up. They are
// for the source's patience, which lowers the learning rate when the loss stops falling.
//
// What differs from the source, or where it slips:
//   - a group of lanes takes a user, so that vectors are read coalesced, and not one thread;
//   - swapping the pointers of the whole matrices turns an item that nobody drew back to where it was two steps ago, so
//     that items have two histories; here each item has two rows and a note which one is the newest and when it was
//     made. The note is the flag too, and needs no clearing;
//   - an item's draw is the hash of step and user instead of a cuRAND state a thread;
//   - the loss per item adds regularization terms to the first power; the derivatives given are those of squares, and
//     of half the loss.
// What it gains is measured in book/sgd_schemes.ipynb.
#include "common/group.cuh"
#include "common/random.cuh"
#include "common/sgd.cuh"

enum class Conflict { early_bird_gets, early_bird_loses, atomic };

// item_rows: (n_items, 2, FACTORS). newest: 2 * (the step that made an item's newest row) + which of both it is.
template <Conflict conflict>
__device__ inline void step_of_users(const long long* indptr, const int* indices, const float* values, int n_users,
                                     float* user_factors, float* item_rows, int* newest,
                                     Steps<float> steps, unsigned long long key, int step, int first_user) {
    for (long long g = group_index(); g < n_users; g += group_count()) {
        const int user = (int)(g + first_user < n_users ? g + first_user : g + first_user - n_users);
        const long long low = indptr[user], high = indptr[user + 1];
        if (low == high) continue;
        const unsigned long long draw = (unsigned long long)step * n_users + user;
        const long long rating = low + random_position(key, draw, high - low);
        const int item = indices[rating];

        // One lane looks, past L1, which may have it from before another multiprocessor set it, and tells the others, who
        // might see something newer.
        int note = conflict != Conflict::atomic && group_lane() == 0 ? __ldcg(&newest[item]) : 0;
        note = __shfl_sync(group_mask(), note, 0, LANES);
        const bool early_bird = conflict == Conflict::atomic || note >> 1 != step;
        const int source = 2 * item + (early_bird ? note & 1 : ~note & 1);
        const int target = source ^ 1;
        if (conflict != Conflict::atomic && early_bird && group_lane() == 0) newest[item] = 2 * step + (target & 1);

        float p[FACTORS_PER_LANE], q[FACTORS_PER_LANE], q_old[FACTORS_PER_LANE];
        load_factors(p, user_factors, user);
        load_current(q, item_rows, source);
        const float error = group_dot(p, q) - values[rating];
#pragma unroll
        for (int k = 0; k < FACTORS_PER_LANE; ++k) {
            q_old[k] = q[k];
            update(p[k], q[k], error, group_lane() + k * LANES, steps);
        }
        store_factors(user_factors, user, p);
        if (conflict == Conflict::atomic) {
#pragma unroll
            for (int k = 0; k < FACTORS_PER_LANE; ++k) {
                const int column = group_lane() + k * LANES;
                if (column < FACTORS) atomicAdd(&item_rows[source * (long long)FACTORS + column], q[k] - q_old[k]);
            }
        } else if (early_bird || conflict == Conflict::early_bird_loses) {
            store_factors(item_rows, target, q);
        }
    }
}

extern "C" __global__ void cu2rec(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                  const float* __restrict__ values, int n_users, float* user_factors,
                                  float* item_factors, int* newest, const Steps<float>* __restrict__ steps_now,
                                  unsigned long long key, int step, int first_user) {
    step_of_users<Conflict::early_bird_gets>(indptr, indices, values, n_users, user_factors, item_factors, newest,
                                             *steps_now, key, step, first_user);
}

extern "C" __global__ void cu2rec_loses(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                        const float* __restrict__ values, int n_users, float* user_factors,
                                        float* item_factors, int* newest, const Steps<float>* __restrict__ steps_now,
                                        unsigned long long key, int step, int first_user) {
    step_of_users<Conflict::early_bird_loses>(indptr, indices, values, n_users, user_factors, item_factors, newest,
                                              *steps_now, key, step, first_user);
}

extern "C" __global__ void cu2rec_atomic(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                         const float* __restrict__ values, int n_users, float* user_factors,
                                         float* item_factors, int* newest, const Steps<float>* __restrict__ steps_now,
                                         unsigned long long key, int step, int first_user) {
    step_of_users<Conflict::atomic>(indptr, indices, values, n_users, user_factors, item_factors, newest,
                                    *steps_now, key, step, first_user);
}

// errors: (nnz,), p_u . q_i - r_ui in CSR order; a group of lanes a user.
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

constexpr int LOSS_THREADS = 256;

// sums: (grid, 2), of |e| and e^2; LOSS_THREADS threads a block.
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
