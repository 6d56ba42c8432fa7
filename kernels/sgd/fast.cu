// fast: item rows stay in shared memory, users' rows pass through registers.
//
// What limits an update is not arithmetic but rows that are read and written: batch-Hogwild (cumf_sgd.cu) moves both
// rows in and out, 8 f bytes an update in half precision, and all groups compete for the popular items' rows. Here:
//   - The items are divided into tiles, about as many as there are multiprocessors, with about equal numbers of
//     ratings, whose rows fit into shared memory in FP32. A block owns a tile: no other block reads or writes its item
//     rows.
//   - The ratings of a tile are ordered by user. A group of lanes processes a run, a user's ratings in this tile, with
//     the user's row in registers: the row is read and written once a run, 4 f bytes in FP16. The next row is
//     prefetched. The groups of a warp run in lockstep, and idle ones wait: diverged groups would be serialized, and
//     reconverged before each shuffle.
//   - A row is rounded to FP16 stochastically, so that steps smaller than half a last digit count on average.
//   - A launch takes a part of the users, whose rows fit into the L2 cache, and all tiles of it. Each tile begins at
//     another position of the part, so that few blocks use a row at the same time.
//
//   1. STORED = float: users' rows in FP32.
//   2. STORED = half_bits: users' rows in FP16.
//   3. LOCKED = 1: either of them with a lock for each item row, see below.
//   4. ROW_RATES = 1: any of them with a rate for each row, which falls with its ratings, see row_rate. A popular row
//      takes small steps and a rare one large ones: fewer epochs, for one more number a run and one more read an update.
//      Some variants, above 128 columns, on sm_75 and BATCHED, spill a few words for it.
//
// Bytes an update, with r ratings in a run: 12 for the rating and 4 f / r between L2 and registers; of memory, per
// epoch and not per update, 4 f for each user and 8 f for each item and part. r is nnz over the number of pairs of a
// user and a tile that have a rating, so nnz / (m T) or more with m users and T tiles. On chip, an update reads and
// writes 4 f bytes of shared memory each; a group's sum takes log2(lanes) shuffles.
//
// At the Netflix shape with f = 128 and a tile for each of 132 multiprocessors, a tile has 135 rows, 69 KB, and a user
// with n ratings has runs in 132 (1 - (131/132)^n) tiles: with the mean of 209 ratings, 2 in a run. Then an update
// moves 12 + 256 bytes, where batch-Hogwild moves 12 + 1024 of which half are written to popular rows. Shared memory
// gives 128 bytes a cycle: 8 cycles an update, 12 with `reread`, and 7 more for the shuffles.
//
// Who races on what:
//   - Item rows, in shared memory: the groups of a block update them without locks, and several groups may use a
//     popular item at a time. Groups of one warp with the same item in the same step write it in turns, and lose
//     nothing to each other. With `reread`, a group reads the row again after it has summed the error, and loses only
//     what other warps write between this second read and its own write; that costs 4 f bytes more of shared memory an
//     update. LOCKED loses nothing: a group writes a row while it owns its lock, one word in shared memory that it
//     acquires by an atomic exchange, or tries again. (Atomic additions would cost more: in shared memory an addition
//     in FP32 is a compare-and-swap loop for each factor, on Hopper and Blackwell too.)
//   - User rows, in global memory: two blocks may have the same row in registers, and the last write counts: the
//     more often, the fewer users a part has for each group.
// The experiment lost_updates measures how many updates count.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                 seconds  % of roofline  gain
//     fast, FP32  0.0107   19             2.29 x over cumf_sgd
//     fast        0.0114   17             0.932 x over fast, FP32
#include "common/vec4_rows.cuh"
#include "common/random.cuh"
#include "sgd/geometry.cuh"

#if !defined(STORED) || !defined(LOCKED) || !defined(ROW_RATES) || !defined(BATCHED)
#error "compile with -DSTORED=half_bits or float, -DLOCKED=0 or 1, -DROW_RATES=0 or 1, -DBATCHED=0 or 1"
#endif

static_assert(FAST_ROW == QUADS * sizeof(FloatQuad) && FAST_LOCK == sizeof(int) && FAST_RATE == sizeof(float),
              "what the host reserves");

constexpr unsigned WARP = 0xffffffffu;  // mask of all lanes

// to = x, or x rounded stochastically to FP16 by the 13 bits of `random`. Adding 0 x preserves NaN, whose bits the
// integer addition would carry into the sign.
__device__ inline void round_to(float& to, float x, unsigned) { to = x; }
__device__ inline void round_to(half_bits& to, float x, unsigned random) {
    to = to_half(0.0f * x + __uint_as_float((__float_as_uint(x) + random) & ~0x1fffu));
}

// The rate of a row with so many ratings after so many epochs, in units of that of all: AdaGrad's, as Chin et al. 2015
// have it for a whole row: 1 / sqrt(1 + n t / (4 sqrt f)), see row_rates of src/gpumf/solvers/sgd_ordered.py.
__device__ inline float row_rate(float ratings, float epochs) {
    constexpr int LEARNED = BIASES == 0 ? FACTORS : FACTORS - 2;
    return rsqrtf(1.0f + ratings * epochs * 0.25f * rsqrtf((float)LEARNED));
}

// The decays of two rows that have such rates.
__device__ inline Steps<float> of_rows(const Steps<float>& steps, float user_rate, float item_rate) {
    return {steps.rate, 1.0f - user_rate * (1.0f - steps.user_decay), 1.0f - item_rate * (1.0f - steps.item_decay),
            1.0f - user_rate * (1.0f - steps.user_bias_decay), 1.0f - item_rate * (1.0f - steps.item_bias_decay)};
}

// Up to LANES ratings of a segment, one a lane.
struct Batch {
    int user, item;
    float value;
    int count;
};

// The batches of a group: segments s, s + groups, ... of `count`, rotated by `start`. The bounds of a segment are
// prefetched while the one before is in use.
struct Batches {
    const long long* segments;  // of the tile
    int count, start, groups, s;
    long long first_rating;
    const int *users, *items;
    const float* values;
    long long begin = 0, next_begin = 0;
    int left = 0, next_left = 0;  // ratings

    __device__ void look_ahead() {
        if (s < count) {
            const int at = s + start < count ? s + start : s + start - count;
            next_begin = segments[at] - first_rating, next_left = (int)(segments[at + 1] - segments[at]);
        } else {
            next_left = 0;
        }
        s += groups;
    }

    // The next batch; its count is 0 when all are done.
    __device__ Batch fetch() {
        if (left <= 0) {
            begin = next_begin, left = next_left;
            look_ahead();
        }
        const long long t = begin + group_lane();
        Batch batch = {-1, 0, 0.0f, min(LANES, left)};
        if (group_lane() < left) batch.user = users[t], batch.item = items[t], batch.value = values[t];
        begin += LANES, left -= LANES;
        return batch;
    }
};

// Warp-wide OR of a condition of groups; all groups of the warp call it.
__device__ inline bool any_group(bool so) { return LANES == 32 ? so : __any_sync(WARP, so); }

// Bit t: rating t of the group's batch begins a run. user_before: the user of the rating before the batch.
__device__ inline unsigned starts_of(const Batch& batch, int user_before) {
    const int lane = group_lane();
    const int above = __shfl_up_sync(WARP, batch.user, 1, LANES);
    const bool begins = lane < batch.count && batch.user != (lane == 0 ? user_before : above);
    return __ballot_sync(WARP, begins) >> (threadIdx.x % 32 - lane) & 0xffffffffu >> (32 - LANES);
}

// For each rating t (a lane): the number of lower groups of the warp whose rating t has the same item.
__device__ inline int groups_before(const Batch& batch) {
    const int lane = threadIdx.x % 32;
    const int what = group_lane() < batch.count ? batch.item * LANES + group_lane() : -1 - lane;
    return __popc(__match_any_sync(WARP, what) & ((1u << lane) - 1));
}

// Bit t: the condition is true for rating t (a lane) of any group of the warp.
__device__ inline unsigned steps_with(bool so) {
    unsigned steps = __ballot_sync(WARP, so);
#pragma unroll
    for (int groups = 16; groups >= LANES; groups /= 2) steps |= steps >> groups;
    return steps;
}

// Updates by all batches of a group, prefetching the next run's row and the ratings of the batch after the next. The
// groups of a warp run in lockstep, rating by rating. locks: with LOCKED a word for each row of the tile, 0 = free.
// user_counts (of ratings), item_rates (of the tile's rows), epochs: of row_rate, with ROW_RATES.
__device__ inline void descend(Batches& batches, Quad<STORED>* user_rows, FloatQuad* tile, int* locks,
                               const float* user_counts, const float* item_rates, float epochs,
                               const Steps<float>& steps, bool reread, unsigned& random) {
    batches.look_ahead();
    Batch batch = batches.fetch(), following = batches.fetch();
    unsigned starts = starts_of(batch, -1);
    int user_now = -1;
    float p[4 * QUADS_PER_LANE] = {};
    Quads<STORED> next = {};
    float next_count = 0.0f, user_rate = 1.0f;

    auto write_back = [&] {
        Quads<STORED> row = {};
        row.for_each([&](int k, int, STORED& to) {
            random = random * 1664525u + 1013904223u;  // its high bits are random
            round_to(to, p[k], random >> 19);
        });
        row.store(user_rows, user_now);
    };

    auto prefetch = [&](int user) {
        next.load_current(user_rows, user);
        if (ROW_RATES) next_count = user_counts[user];
    };

    int next_user = __shfl_sync(WARP, batch.user, 0, LANES);  // whose row is prefetched; -1: none
    if (batch.count > 0) prefetch(next_user);
    while (any_group(batch.count > 0)) {
        const Batch coming = batches.fetch();
        const int last = __shfl_sync(WARP, batch.user, batch.count - 1, LANES);
        const unsigned following_starts = starts_of(following, last);
        const int turns_before = LANES < 32 && !LOCKED ? groups_before(batch) : 0;
        const unsigned crowded = LANES < 32 && !LOCKED ? steps_with(turns_before > 0) : 0;
        for (int t = 0; any_group(t < batch.count); ++t) {
            const bool active = t < batch.count;
            if (starts >> t & 1) {
                if (user_now >= 0) write_back();
                user_now = next_user, next_user = -1;
                next.for_each([&](int k, int, STORED x) { p[k] = from_stored(x); });
                if (ROW_RATES) user_rate = row_rate(next_count, epochs);
            }
            if (any_group(next_user < 0)) {
                const unsigned rest = starts >> t >> 1;
                const int user = __shfl_sync(WARP, rest ? batch.user : following.user,
                                             rest ? t + __ffs(rest) : __ffs(following_starts) - 1, LANES);
                if (next_user < 0 && (rest | following_starts)) prefetch(next_user = user);
            }
            const int item = __shfl_sync(WARP, batch.item, t, LANES);
            FloatQuad* const at = tile + item * QUADS;
            Quads<float> q;
            q.load(at, 0);
            float dot = 0.0f;
            q.for_each([&](int k, int, float x) { dot += p[k] * x; });
            const float error = group_sum(dot, WARP) - __shfl_sync(WARP, batch.value, t, LANES);
            auto look_again = [&] {
                __syncwarp();  // forces the compiler to load again
                q.load(at, 0);
            };
            auto write = [&] {
                if (ROW_RATES) {
                    const float item_rate = item_rates[item], step = steps.rate * error;
                    const Steps<float> own = of_rows(steps, user_rate, item_rate);
                    q.for_each([&](int k, int column, float& x) {
                        update(p[k], x, user_rate * step, item_rate * step, column, own);
                    });
                } else {
                    q.for_each([&](int k, int column, float& x) { update(p[k], x, error, column, steps); });
                }
                q.store(at, 0);
            };
            if (LOCKED) {
                for (bool waits = active; any_group(waits);) {
                    int got = 0;
                    if (waits && group_lane() == 0) got = atomicExch(&locks[item], 1) == 0;
                    got = __shfl_sync(WARP, got, 0, LANES);
                    look_again();
                    if (got) write();
                    __syncwarp();  // shared memory serves a warp in order: the row is written before the lock is free
                    if (got && group_lane() == 0) atomicExch(&locks[item], 0);
                    waits = waits && !got;
                }
                continue;
            }
            const int before = crowded >> t & 1 ? __shfl_sync(WARP, turns_before, t, LANES) : 0;
            if (reread) look_again();
            if (active && before == 0) write();
            if (crowded >> t & 1)
                for (int turn = 1; any_group(turn <= before); ++turn) {
                    look_again();
                    if (turn == before) write();
                }
        }
        batch = following, following = coming, starts = following_starts;
    }
    if (user_now >= 0) write_back();
}

// Updates by part `part` of the users. With k = part * n_tiles + t, tile t has the segments tile_segments[k] to
// tile_segments[k + 1] - 1; segment s is the ratings segments[s] to segments[s + 1] - 1, counted from first_rating.
// items: row in the tile; row r of tile t is item tile_items[tile_rows[t] + r]. user_counts, item_counts: ratings of
// each in the training set, and epochs: how many have gone by half an epoch from now, both for ROW_RATES.
// Grid: any; a block a tile; BATCHED, a layer for each of several systems, of n_users, n_items and steps, which share
// all else. Block: whole warps, at least `groups` groups. Dynamic shared memory: FAST_ROW
// bytes for each row of the largest tile, FAST_LOCK more with locks, FAST_RATE more with rates.
extern "C" __global__ void __launch_bounds__(FAST_THREADS, 1)
    fast(const long long* __restrict__ segments, const int* __restrict__ tile_segments, int part,
         const int* __restrict__ tile_items, const int* __restrict__ tile_rows, int n_tiles,
         const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ values,
         long long first_rating, Quad<STORED>* user_factors, float* item_factors,
         const Steps<float>* __restrict__ steps_now, const float* __restrict__ user_counts,
         const float* __restrict__ item_counts, float epochs, int groups, int reread, unsigned rotation,
         unsigned key, int n_users, int n_items) {
    extern __shared__ __align__(16) float shared[];
#if BATCHED
    user_factors += blockIdx.y * (long long)n_users * QUADS;
    item_factors += blockIdx.y * (long long)n_items * FACTORS;
    const Steps<float> steps = steps_now[blockIdx.y];
#else
    const Steps<float> steps = *steps_now;
#endif
    unsigned random = (unsigned)splitmix64(((unsigned long long)key << 32) + blockIdx.x * blockDim.x + threadIdx.x);

    for (int t = blockIdx.x; t < n_tiles; t += gridDim.x) {
        const int first_row = tile_rows[t], rows = tile_rows[t + 1] - first_row, words = rows * QUADS * 4;
        for (int k = threadIdx.x; k < words; k += blockDim.x) {
            const int column = k % (QUADS * 4), item = tile_items[first_row + k / (QUADS * 4)];
            shared[k] = column < FACTORS ? item_factors[item * (long long)FACTORS + column] : 0.0f;
        }
        int* const locks = reinterpret_cast<int*>(shared + words);
        if (LOCKED)
            for (int row = threadIdx.x; row < rows; row += blockDim.x) locks[row] = 0;
        float* const rates = shared + words + (LOCKED ? rows : 0);
        if (ROW_RATES)
            for (int row = threadIdx.x; row < rows; row += blockDim.x)
                rates[row] = row_rate(item_counts[tile_items[first_row + row]], epochs);
        __syncthreads();
        const int begin = tile_segments[part * n_tiles + t], count = tile_segments[part * n_tiles + t + 1] - begin;
        // Each tile starts at another segment: `turn` is a fraction of `count` in units of 2^-32.
        const unsigned turn = 0xffffffffu / n_tiles * t + rotation;
        const int start = (int)((unsigned long long)turn * count >> 32);
        const int group = threadIdx.x / LANES;
        Batches batches = {segments + begin, group < groups ? count : 0, start, groups, group,
                           first_rating,     users, items, values};
        descend(batches, user_factors, reinterpret_cast<FloatQuad*>(shared), locks, user_counts, rates, epochs, steps,
                reread, random);
        __syncthreads();
        for (int k = threadIdx.x; k < words; k += blockDim.x) {
            const int column = k % (QUADS * 4), item = tile_items[first_row + k / (QUADS * 4)];
            if (column < FACTORS) item_factors[item * (long long)FACTORS + column] = shared[k];
        }
        __syncthreads();
    }
}
