// fast: item rows stay on the chip, users' rows come by.
//
// What limits an update is not arithmetic but rows that are read and written: batch-Hogwild (cumf_sgd.cu) moves both
// rows in and out, 8 f bytes an update in half precision, and the popular items' rows are wanted by all at once. Here
// nobody waits for an item's row:
//   - The items are dealt to tiles, about as many as there are multiprocessors, so that each tile has as many ratings
//     as any other and its rows fit into shared memory, in FP32. A block owns a tile: of its item rows, nothing is
//     read or written elsewhere while the block works. They are not rounded either.
//   - The ratings of a tile are ordered by user. A group of lanes takes a user's ratings in this tile one after another
//     with the user's row in registers: a run, for which the row is read and written once, 4 f bytes in FP16. The row
//     that is wanted next is on its way while the one at hand is in use. The groups of a warp go in step, and one that
//     has nothing to do waits: where each goes its own way, the hardware runs them one after another, and finds out
//     whom to wait for before each shuffle.
//   - A row is rounded to FP16 up or down by chance, so that steps smaller than half a last digit count on average.
//     (Versions fast_single and fast_single_locked: users' rows in FP32.)
//   - A launch takes a part of the users, whose rows fit into the L2 cache: all tiles pass over them while they are
//     there. Each tile begins at another place of the part, so that few blocks want a row at the same time.
// Bytes an update, with r ratings in a run: 12 for the rating and 4 f / r between L2 and registers; of memory, per epoch
// and not per update, 4 f for each user and 8 f for each item and part. r is nnz over the number of pairs of a user and
// a tile that have a rating, so nnz / (m T) or more with m users and T tiles. On chip, an update reads and writes 4 f
// bytes of shared memory each; a group's sum takes log2(lanes) shuffles.
//
// At the Netflix shape with f = 128 and a tile for each of 132 multiprocessors, a tile has 135 rows, 69 KB, and a user
// with n ratings has runs in 132 (1 - (131/132)^n) tiles: with the mean of 209 ratings, 2 in a run. Then an update
// moves 12 + 256 bytes, where batch-Hogwild moves 12 + 1024 of which half are written to popular rows. Shared memory
// gives 128 bytes a cycle: 8 cycles an update, 12 with `reread`, and 7 more for the shuffles.
//
// What may be lost, and who races for what:
//   - Item rows, in shared memory: the groups of a block update them without locks, and a popular item is in the hands of
//     many at a time. Groups of one warp, which have the item in the same step, write it in turns, and lose nothing to
//     each other. Of other warps, with `reread`, only what they write between a group's second look at the row and its
//     own write is lost, not what they write while it sums up the error; it costs 4 f bytes more of shared memory an
//     update. Version fast_locked loses nothing: a group writes a row while it holds its lock, one word in shared memory
//     that is claimed by an atomic exchange; who does not get it tries again. (Adding atomically would cost more: in
//     shared memory an addition in FP32 is a loop of compare-and-swap for each factor, on Hopper and Blackwell too.)
//   - User rows, in global memory: two blocks may hold the same one, of which the last one's run then counts. This is
//     rare where there are many more users in a part than groups.
// The experiment lost_updates measures how many updates count.
// What it gains is measured in book/sgd_schemes.ipynb.
#include "common/quads.cuh"
#include "common/random.cuh"

constexpr unsigned WARP = 0xffffffffu;  // all lanes of it
constexpr int MOST_THREADS = QUADS_PER_LANE <= 2 ? 1024 : 512;  // of a block, by registers

// x as a float, or as one of the two halves around it, the nearer one more often; `random` has 13 bits. Where x is not
// finite neither is the result: 0 x is added because the sum of integers carries a NaN's bits into the sign.
__device__ inline void round_to(float& to, float x, unsigned) { to = x; }
__device__ inline void round_to(half_bits& to, float x, unsigned random) {
    to = to_half(0.0f * x + __uint_as_float((__float_as_uint(x) + random) & ~0x1fffu));
}

// Up to LANES ratings of a segment, one a lane.
struct Batch {
    int user, item;
    float value;
    int count;
};

// A group's segments of a tile, as batches: s, s + groups, ... of `count`, turned by `start`. The bounds of a segment are
// read when the one before is begun, so that nobody waits for them.
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

    // Of no ratings when there are no more.
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

// Whether something is so for any group of the warp, all of whose groups ask.
__device__ inline bool any_group(bool so) { return LANES == 32 ? so : __any_sync(WARP, so); }

// A bit for each rating of a batch that begins a run, given whose row is in use before it.
__device__ inline unsigned starts_of(const Batch& batch, int user_before) {
    const int lane = group_lane();
    const int above = __shfl_up_sync(WARP, batch.user, 1, LANES);
    const bool begins = lane < batch.count && batch.user != (lane == 0 ? user_before : above);
    return __ballot_sync(WARP, begins) >> (threadIdx.x % 32 - lane) & 0xffffffffu >> (32 - LANES);
}

// How many groups before this one, in its warp, have the same item in the same step: one lane a rating of the batch.
__device__ inline int groups_before(const Batch& batch) {
    const int lane = threadIdx.x % 32;
    const int what = group_lane() < batch.count ? batch.item * LANES + group_lane() : -1 - lane;
    return __popc(__match_any_sync(WARP, what) & ((1u << lane) - 1));
}

// A bit for each step in which something is so for any group of the warp; a lane says it of its rating.
__device__ inline unsigned steps_with(bool so) {
    unsigned steps = __ballot_sync(WARP, so);
#pragma unroll
    for (int groups = 16; groups >= LANES; groups /= 2) steps |= steps >> groups;
    return steps;
}

// A group's segments, one after another. While a run is worked on, the row of the next one is on its way, and while a
// batch is, the ratings of the next but one are. The groups of a warp go in step, rating by rating.
// locks: a word for each row of the tile, 0 where nobody holds it; of `locked` alone.
template <class Stored, bool locked>
__device__ inline void descend(Batches& batches, Quad<Stored>* user_rows, FloatQuad* tile, int* locks,
                               const Steps<float>& steps, bool reread, unsigned& random) {
    batches.look_ahead();
    Batch batch = batches.fetch(), following = batches.fetch();
    unsigned starts = starts_of(batch, -1);
    int user_now = -1;
    float p[4 * QUADS_PER_LANE] = {};
    Quads<Stored> next = {};

    auto write_back = [&] {
        Quads<Stored> row = {};
        row.for_each([&](int k, int, Stored& to) {
            random = random * 1664525u + 1013904223u;  // its high bits are random
            round_to(to, p[k], random >> 19);
        });
        row.store(user_rows, user_now);
    };

    int next_user = __shfl_sync(WARP, batch.user, 0, LANES);  // whose row is on its way; none: -1
    if (batch.count > 0) next.load_current(user_rows, next_user);
    while (any_group(batch.count > 0)) {
        const Batch coming = batches.fetch();
        const int last = __shfl_sync(WARP, batch.user, batch.count - 1, LANES);
        const unsigned following_starts = starts_of(following, last);
        const int turns_before = LANES < 32 && !locked ? groups_before(batch) : 0;
        const unsigned crowded = LANES < 32 && !locked ? steps_with(turns_before > 0) : 0;
        for (int t = 0; any_group(t < batch.count); ++t) {
            const bool active = t < batch.count;
            if (starts >> t & 1) {
                if (user_now >= 0) write_back();
                user_now = next_user, next_user = -1;
                next.for_each([&](int k, int, Stored x) { p[k] = from_stored(x); });
            }
            if (any_group(next_user < 0)) {
                const unsigned rest = starts >> t >> 1;
                const int user = __shfl_sync(WARP, rest ? batch.user : following.user,
                                             rest ? t + __ffs(rest) : __ffs(following_starts) - 1, LANES);
                if (next_user < 0 && (rest | following_starts)) next.load_current(user_rows, next_user = user);
            }
            const int item = __shfl_sync(WARP, batch.item, t, LANES);
            FloatQuad* const at = tile + item * QUADS;
            Quads<float> q;
            q.load(at, 0);
            float dot = 0.0f;
            q.for_each([&](int k, int, float x) { dot += p[k] * x; });
            const float error = group_sum(dot, WARP) - __shfl_sync(WARP, batch.value, t, LANES);
            auto look_again = [&] {
                __syncwarp();  // or the compiler takes what it has read before
                q.load(at, 0);
            };
            auto write = [&] {
                q.for_each([&](int k, int column, float& x) { update(p[k], x, error, column, steps); });
                q.store(at, 0);
            };
            if (locked) {
                for (bool waits = active; any_group(waits);) {
                    int got = 0;
                    if (waits && group_lane() == 0) got = atomicExch(&locks[item], 1) == 0;
                    got = __shfl_sync(WARP, got, 0, LANES);
                    look_again();
                    if (got) write();
                    __syncwarp();  // shared memory serves a warp in order: the row is there before the lock is free
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

// The part `part` of the users: tile t has its segments tile_segments[part * n_tiles + t] and on; a segment s is the
// ratings segments[s] to segments[s + 1], counted from first_rating. `items` are rows of the tile, whose items are
// tile_items[tile_rows[t]] and on. Dynamic shared memory: 16 QUADS bytes for each row of the largest tile, 4 more with
// locks.
template <class Stored, bool locked>
__device__ inline void sweep(const long long* segments, const int* tile_segments, int part, const int* tile_items,
                             const int* tile_rows, int n_tiles, const int* users, const int* items,
                             const float* values, long long first_rating, Quad<Stored>* user_rows,
                             float* item_factors, Steps<float> steps, int groups, bool reread,
                             unsigned rotation, unsigned key) {
    extern __shared__ __align__(16) float shared[];
    unsigned random = (unsigned)splitmix64(((unsigned long long)key << 32) + blockIdx.x * blockDim.x + threadIdx.x);

    for (int t = blockIdx.x; t < n_tiles; t += gridDim.x) {
        const int first_row = tile_rows[t], words = (tile_rows[t + 1] - first_row) * QUADS * 4;
        for (int k = threadIdx.x; k < words; k += blockDim.x) {
            const int column = k % (QUADS * 4), item = tile_items[first_row + k / (QUADS * 4)];
            shared[k] = column < FACTORS ? item_factors[item * (long long)FACTORS + column] : 0.0f;
        }
        int* const locks = reinterpret_cast<int*>(shared + words);
        if (locked)
            for (int row = threadIdx.x; row < words / (QUADS * 4); row += blockDim.x) locks[row] = 0;
        __syncthreads();
        const int begin = tile_segments[part * n_tiles + t], count = tile_segments[part * n_tiles + t + 1] - begin;
        // In turns of 2^-32: every tile begins elsewhere.
        const unsigned turn = 0xffffffffu / n_tiles * t + rotation;
        const int start = (int)((unsigned long long)turn * count >> 32);
        const int group = threadIdx.x / LANES;
        Batches batches = {segments + begin, group < groups ? count : 0, start, groups, group,
                           first_rating,     users, items, values};
        descend<Stored, locked>(batches, user_rows, reinterpret_cast<FloatQuad*>(shared), locks, steps, reread, random);
        __syncthreads();
        for (int k = threadIdx.x; k < words; k += blockDim.x) {
            const int column = k % (QUADS * 4), item = tile_items[first_row + k / (QUADS * 4)];
            if (column < FACTORS) item_factors[item * (long long)FACTORS + column] = shared[k];
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    fast(const long long* __restrict__ segments, const int* __restrict__ tile_segments, int part,
         const int* __restrict__ tile_items, const int* __restrict__ tile_rows, int n_tiles,
         const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ values,
         long long first_rating, HalfQuad* user_factors, float* item_factors,
         const Steps<float>* __restrict__ steps_now, int groups, int reread, unsigned rotation, unsigned key) {
    sweep<half_bits, false>(segments, tile_segments, part, tile_items, tile_rows, n_tiles, users, items, values,
          first_rating, user_factors, item_factors, *steps_now, groups, reread, rotation, key);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    fast_locked(const long long* __restrict__ segments, const int* __restrict__ tile_segments, int part,
                const int* __restrict__ tile_items, const int* __restrict__ tile_rows, int n_tiles,
                const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ values,
                long long first_rating, HalfQuad* user_factors, float* item_factors,
                const Steps<float>* __restrict__ steps_now, int groups, int reread, unsigned rotation, unsigned key) {
    sweep<half_bits, true>(segments, tile_segments, part, tile_items, tile_rows, n_tiles, users, items, values,
          first_rating, user_factors, item_factors, *steps_now, groups, reread, rotation, key);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    fast_single(const long long* __restrict__ segments, const int* __restrict__ tile_segments, int part,
                const int* __restrict__ tile_items, const int* __restrict__ tile_rows, int n_tiles,
                const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ values,
                long long first_rating, FloatQuad* user_factors, float* item_factors,
                const Steps<float>* __restrict__ steps_now, int groups, int reread, unsigned rotation, unsigned key) {
    sweep<float, false>(segments, tile_segments, part, tile_items, tile_rows, n_tiles, users, items, values,
          first_rating, user_factors, item_factors, *steps_now, groups, reread, rotation, key);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    fast_single_locked(const long long* __restrict__ segments, const int* __restrict__ tile_segments, int part,
                       const int* __restrict__ tile_items, const int* __restrict__ tile_rows, int n_tiles,
                       const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ values,
                       long long first_rating, FloatQuad* user_factors, float* item_factors,
                       const Steps<float>* __restrict__ steps_now, int groups, int reread, unsigned rotation,
                       unsigned key) {
    sweep<float, true>(segments, tile_segments, part, tile_items, tile_rows, n_tiles, users, items, values,
          first_rating, user_factors, item_factors, *steps_now, groups, reread, rotation, key);
}
