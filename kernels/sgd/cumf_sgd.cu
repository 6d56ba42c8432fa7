// CuMF_SGD: rows in half precision, a warp an update, its sum by shuffles.
// Source: Tan et al. 2018, sections 2 and 6.1 (GPU-SGD), after Xie et al. 2017.
//
//   1. cumf_sgd, batch-Hogwild: the ratings are shuffled once; a group of lanes takes runs of consecutive ratings, read
//      coalesced. Rows are read and written in memory for every update, without locks.
//   2. cumf_sgd_wavefront, the wavefront update: the matrix in blocks, a row of blocks for each worker, a group of
//      lanes. A worker takes its blocks in a random order, a wave after another; a lock for each column of blocks
//      admits one worker at a time. No launch ends between two waves, and no worker waits for the fullest block.
//   3. cumf_sgd_blocked, not in the source: the same rows and updates in the blocks of newgpusgd.cu: a launch is a set
//      of blocks that share no row and no column, a group a block, and as slow as its fullest block.
//
// Who races on what: in batch-Hogwild all groups, on the rows of users and items; an overwritten update is lost. In the
// wavefront nothing is lost, since a user belongs to one worker and an item to the owner of its column's lock, but the
// order of the workers varies and two runs differ. In blocks there is no race: two runs give the same bits.
//
// Rows of up to 64 factors take a part of a warp (common/vec4_rows.cuh). The sums and the update itself are FP32.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                        seconds  % of roofline  gain
//     cumf_sgd           0.0244   8.2            2.2 x over hogwild
//     cumf_sgd, blocked  0.172    1.2            0.142 x over cumf_sgd
#include "common/vec4_rows.cuh"

// Updates by the ratings begin to end - 1, in order, by one group.
__device__ inline void descend(const int* users, const int* items, const float* values, long long begin,
                               long long end, HalfQuad* user_rows, HalfQuad* item_rows,
                               Steps<float> steps) {
    const int lane = group_lane();
    const unsigned mask = group_mask();
    for (long long batch = begin; batch < end; batch += LANES) {
        const int count = (int)min((long long)LANES, end - batch);
        const int user = lane < count ? users[batch + lane] : 0;
        const int item = lane < count ? items[batch + lane] : 0;
        const float value = lane < count ? values[batch + lane] : 0.0f;
        for (int t = 0; t < count; ++t) {
            const int u = __shfl_sync(mask, user, t, LANES), i = __shfl_sync(mask, item, t, LANES);
            Quads<half_bits> p = {}, q = {};
            p.load_current(user_rows, u);
            q.load_current(item_rows, i);
            float x[4 * QUADS_PER_LANE] = {}, dot = 0.0f;
            p.for_each([&](int k, int, half_bits h) { x[k] = from_half(h); });
            q.for_each([&](int k, int, half_bits h) { dot += x[k] * from_half(h); });
            const float error = group_sum(dot) - __shfl_sync(mask, value, t, LANES);
            q.for_each([&](int k, int column, half_bits& h) {
                float y = from_half(h);
                update(x[k], y, error, column, steps);
                h = to_half(y);
            });
            p.for_each([&](int k, int, half_bits& h) { h = to_half(x[k]); });
            p.store(user_rows, u);
            q.store(item_rows, i);
        }
    }
}

// Grid and block: any; a group of lanes a run of `run` ratings.
extern "C" __global__ void cumf_sgd(const int* __restrict__ users, const int* __restrict__ items,
                                    const float* __restrict__ values, long long n_ratings, int run,
                                    HalfQuad* user_factors, HalfQuad* item_factors,
                                    const Steps<float>* __restrict__ steps_now) {
    const Steps<float> steps = *steps_now;
    for (long long begin = group_index() * run; begin < n_ratings; begin += group_count() * run)
        descend(users, items, values, begin, min(begin + run, n_ratings), user_factors, item_factors, steps);
}

// Acquires a lock for the group.
__device__ inline void take(int* lock) {
    int taken;
    do {
        taken = group_lane() == 0 && atomicCAS(lock, 0, 1) == 0;
    } while (!__shfl_sync(group_mask(), taken, 0, LANES));
    __threadfence();
}

__device__ inline void give_back(int* lock) {
    __threadfence();
    __syncwarp(group_mask());
    if (group_lane() == 0) atomicExch(lock, 0);
}

// Grid and block: any; a group a worker, first_worker to end_worker - 1. Wave v of worker w is
// block w * n_waves + v: ratings offsets[block] to offsets[block + 1] - 1, counted from first_rating, in the column
// columns[block]. locks: one a column, 0.
extern "C" __global__ void cumf_sgd_wavefront(const long long* __restrict__ offsets,
                                              const int* __restrict__ columns, int* locks, int first_worker,
                                              int end_worker, int n_waves, const int* __restrict__ users,
                                              const int* __restrict__ items, const float* __restrict__ values,
                                              long long first_rating, HalfQuad* user_factors,
                                              HalfQuad* item_factors, const Steps<float>* __restrict__ steps_now) {
    const Steps<float> steps = *steps_now;
    for (long long worker = first_worker + group_index(); worker < end_worker; worker += group_count())
        for (long long block = worker * n_waves; block < (worker + 1) * n_waves; ++block) {
            const long long begin = offsets[block] - first_rating, end = offsets[block + 1] - first_rating;
            if (begin == end) continue;
            take(&locks[columns[block]]);
            descend(users, items, values, begin, end, user_factors, item_factors, steps);
            give_back(&locks[columns[block]]);
        }
}

// Grid and block: any; a group a block b of ratings, offsets[first_block + b] to offsets[first_block + b + 1] - 1,
// counted from first_rating.
extern "C" __global__ void cumf_sgd_blocked(const long long* __restrict__ offsets, int first_block, int n_blocks,
                                            const int* __restrict__ users, const int* __restrict__ items,
                                            const float* __restrict__ values, long long first_rating,
                                            HalfQuad* user_factors, HalfQuad* item_factors,
                                            const Steps<float>* __restrict__ steps_now) {
    const Steps<float> steps = *steps_now;
    for (long long b = group_index(); b < n_blocks; b += group_count())
        descend(users, items, values, offsets[first_block + b] - first_rating,
                offsets[first_block + b + 1] - first_rating, user_factors, item_factors, steps);
}
