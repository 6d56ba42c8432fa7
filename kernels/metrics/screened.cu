// The best items of many users, as top_items of ranking.cu finds them, to the last bit: tensor cores screen the items,
// and only those that pass are scored in FP32.
//
//   - Both sides' rows are divided by their norms and rounded to FP16. Their products on the tensor cores approximate
//     cosines c, each with an error below MARGIN. An item cannot enter a list whose last score is s where
//     c < s / (|p| |q|) - MARGIN: a multiply-add and a comparison a score.
//   - A warp screens 32 users, whose rows stay in its registers, against tiles of items that the block shares and
//     copies ahead. What passes waits in shared memory. Once 32 items of a user do, all warps rank users: a lane
//     takes an item, checks that the user has not seen it, and computes the score in the order of top_items; the
//     warp sorts the items and merges them with the list, which is where the results will be.
//   - Items come by descending norm: lists are nearly final after a few, and a block ends at the tile after which no
//     norm suffices. Entries are compared by score and then by position, so that no order matters.
//
// Of ml-1m and 64 factors, ALS without biases needs the first 8 % of the items for a user, of which 47 pass, ImplicitALS
// 44 % and 119. Their rows go through L1: users want the same items, those of large norms.
//
// Why MARGIN suffices. Let a = p inverse(p) and b = q inverse(q) in exact arithmetic, of the inverses as computed: norms
// of at most 1 + 2^-22, as sums are in double and rounded once. Only rows with norms from 2^-60 to 2^60 are screened,
// so that nothing below overflows, and what underflows is less than 2^-20 of the product of both norms.
//   1. Rounding: |half(a_j) - a_j| <= (2^-11 + 2^-23) |a_j| + 2^-25, with the product in FP32 and subnormal halves, so
//      the norm of the error is at most 2^-11 + 2^-20 for 256 factors. By Cauchy and Schwarz the exact product of the
//      halves is within 2^-10 + 2^-18 of a.b.
//   2. Sums on tensor cores: products of halves are exact. No partial sum exceeds 1.01. Tensor cores are known to keep
//      24 bits or more of what they align and truncate (Fasi et al. 2021); allowing 2^-22 for each of 17 addends, 16
//      times, they lose less than 3 x 2^-15.
//   3. The score in FP32: 512 roundings at most, of sums and products that Cauchy and Schwarz bound by |p| |q|: 2^-14.
//   4. The threshold: its roundings change it by at most 2^-21 where it is below 2. Above 1.01 no product is.
// Together 2^-10 (1 + 2^-8 + 3 x 2^-5 + 2^-4 + 2^-11) < 1.17 x 2^-10.
//
// A row of zeros has the inverse infinity, any other row that is not screened NaN, whose comparisons all pass: its
// items, or its users, are scored in FP32.
#include "common/async_mma.cuh"
#include "metrics/sorted.cuh"

#if !defined(FACTORS) || !defined(WARPS)
#error "compile with -DFACTORS=f and -DWARPS=8, or 4 for less shared memory"
#endif

constexpr float MARGIN = 0x1.3p-10f;
constexpr int STEPS = (FACTORS + 15) / 16, HALVES = 16 * STEPS;  // products in depth, factors of a row of halves
constexpr int PADDED = (FACTORS + 7) / 8 * 8;                    // factors of a row in FP32, as in ranking.cu
constexpr int USERS_PER_WARP = 32, USERS = WARPS * USERS_PER_WARP, THREADS = 32 * WARPS;
constexpr int BLOCKS = (HALVES <= 128 ? 16 : 8) / WARPS;  // of a multiprocessor, which bounds the registers
constexpr int TILE = 16, STAGES = 4;                      // items, and tiles in shared memory
constexpr int FULL = 32, ENOUGH = 16;                     // items pending of a user: all users with enough are ranked
constexpr int PENDING = FULL - 1 + TILE;                  // once one is full; no more than these then
constexpr int CHUNK = HALVES <= 128 ? 32 : 64;            // factors of 32 items in shared memory at a time
constexpr unsigned NONE = 0xffffffffu;                    // above every item; an entry without an item is it too

struct __align__(16) Item {  // rows start in different banks
    half_bits factors[HALVES];
    float inverse;  // of the norm
    int item;       // -1 for none that can be in a list
    int unused[2];
};

enum State { DONE = 1, IS_FULL = 2 };  // of a warp: needs no more items; has a user that is full

struct __align__(16) Warp {
    float items[32][CHUNK + 4];
    float user[PADDED];
    int pending[USERS_PER_WARP][PENDING];
    int counts[USERS_PER_WARP];                                  // of those pending
    float inverses[USERS_PER_WARP], thresholds[USERS_PER_WARP];  // of norms; the list's last score over the norm
    unsigned below[USERS_PER_WARP];                              // items from this one on cannot enter
    Entry last;                                                  // of the list that was merged into
};

// Dynamic shared memory of a block.
struct __align__(16) Work {
    Item tiles[STAGES][TILE];
    Warp warps[WARPS];
    unsigned char states[2][WARPS];
};

// The inverse of a norm, from its square: infinity of zero, NaN where the row is not screened.
__device__ inline float inverse_norm(double square) {
    if (square == 0.0) return __uint_as_float(0x7f800000u);
    return square >= 0x1p-120 && square <= 0x1p120 ? (float)(1.0 / sqrt(square)) : not_a_score();
}

// What a row is multiplied by for the tensor cores, from the inverse of its norm.
__device__ inline float scale_of(float inverse) { return inverse <= 0x1p61f ? inverse : 0.0f; }

// Whether a is before b: the larger score, of equal ones the lower position.
__device__ inline bool before(const Entry& a, const Entry& b) {
    return (a.score > b.score) | ((a.score == b.score) & ((unsigned)a.item < (unsigned)b.item));
}

// The better or the worse of a lane's entry and that of the lane at this distance.
__device__ inline void exchange(Entry& mine, int distance, bool better) {
    const Entry other = {__shfl_xor_sync(WARP, mine.score, distance), __shfl_xor_sync(WARP, mine.item, distance)};
    if (before(other, mine) == better) mine = other;
}

__device__ inline void put_in_order(Entry& a, Entry& b) {
    const bool swapped = before(b, a);
    const Entry first = {swapped ? b.score : a.score, swapped ? b.item : a.item};
    b = {swapped ? a.score : b.score, swapped ? a.item : b.item}, a = first;
}

// Merges the lanes' entries into the list of k <= 32 R, best first, in global memory. last: its last one, in
// shared memory.
template <int R>  // 1 or 4
__device__ inline void merge(Entry found, int k, int* items, float* scores, Entry& last) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1  // as below: few registers are left beside the users' rows
    for (int size = 2; size <= 32; size *= 2)  // bitonic sort, worst first
#pragma unroll 1
        for (int distance = size / 2; distance > 0; distance /= 2)
            exchange(found, distance, ((lane & distance) == 0) != ((lane & size) == 0));
    Entry list[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int j = 32 * r + lane, item = j < k ? items[j] : -1;
        list[r] = {item < 0 ? lowest() : scores[j], item};
    }
    // The best 32 R of both, first falling and then rising: a bitonic sequence.
    if (before(found, list[R - 1])) list[R - 1] = found;
    if constexpr (R == 4) {
        put_in_order(list[0], list[2]), put_in_order(list[1], list[3]);
        put_in_order(list[0], list[1]), put_in_order(list[2], list[3]);
    }
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
        for (int r = 0; r < R; ++r) exchange(list[r], distance, (lane & distance) == 0);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int j = 32 * r + lane;
        if (j < k) items[j] = list[r].item, scores[j] = list[r].item < 0 ? not_a_score() : list[r].score;
        if (j == k - 1) last = list[r];
    }
    __syncwarp();
}

// As `contains`, of each lane's value: it reads 32 places at once, and then between two of them.
__device__ inline bool lane_contains(const int* sorted, long long begin, long long end, int value) {
    const long long step = (end - begin + 31) / 32, at = begin + threadIdx.x % 32 * step;
    const int first = at < end ? sorted[at] : 0x7fffffff;
    int part = 0;
#pragma unroll
    for (int parts = 16; parts > 0; parts /= 2)
        if (__shfl_sync(WARP, first, part + parts) <= value) part += parts;
    begin += part * step;
    return contains(sorted, begin, min(end, begin + step), value);
}

// A lane's score of its item, -1 for none, by a user's row, in the order of top_items. What `is_open` refuses is none;
// it is asked while factors are on their way.
template <class IsOpen>
__device__ inline Entry scored(Warp& warp, int item, const float* user_row, const float* __restrict__ item_rows,
                               IsOpen is_open) {
    constexpr int LANES = CHUNK / 4;  // of a row
    const int lane = threadIdx.x % 32;
    auto copy = [&](int first) {
#pragma unroll 4
        for (int j = 0; j < LANES; ++j) {
            const int row = 32 / LANES * j + lane / LANES, column = lane % LANES * 4;
            const int of_row = __shfl_sync(WARP, item, row);
            if (of_row >= 0 && first + column < PADDED)
                copy_async<16>(&warp.items[row][column], item_rows + of_row * (long long)PADDED + first + column);
        }
        copy_commit();
    };
    for (int f = lane; f < FACTORS; f += 32) copy_async<4>(&warp.user[f], user_row + f);
    copy(0);
    if (!is_open(item)) item = -1;
    float sum = 0.0f;
    for (int first = 0; first < PADDED; first += CHUNK) {
        if (first > 0) copy(first);
        copy_wait<0>();
        __syncwarp();
        if (item >= 0) {
#pragma unroll 4
            for (int f = 0; f < min(CHUNK, PADDED - first); f += 4) {
                const float4 p = *reinterpret_cast<const float4*>(&warp.user[first + f]);
                const float4 q = *reinterpret_cast<const float4*>(&warp.items[lane][f]);
                sum += p.x * q.x;
                sum += p.y * q.y;
                sum += p.z * q.z;
                sum += p.w * q.w;
            }
        }
        __syncwarp();
    }
    if (item >= 0 && sum > lowest()) return {sum, item};  // NaN never is
    return {lowest(), -1};
}

// item_records: (n_items rounded up to whole tiles, HALVES + 8), as arrange_items writes them. item_rows: (n_items,
// PADDED). Grid: a block for USERS users. Block: THREADS.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    top_items_screened(const int* __restrict__ users, int n_users, const long long* __restrict__ seen_indptr,
                       const int* __restrict__ seen_items, int n_items, const float* __restrict__ user_factors,
                       const half_bits* __restrict__ item_records, const float* __restrict__ item_rows, int k,
                       int* __restrict__ items, float* __restrict__ scores) {
    extern __shared__ __align__(16) float shared[];
    Work& work = *reinterpret_cast<Work*>(shared);
    const int lane = threadIdx.x % 32, number = threadIdx.x / 32;
    Warp& warp = work.warps[number];
    const int first_user = blockIdx.x * USERS + number * USERS_PER_WARP;
    const int n_mine = max(0, min(USERS_PER_WARP, n_users - first_user));
    items += first_user * (long long)k, scores += first_user * (long long)k;

    const int n_tiles = (n_items + TILE - 1) / TILE;

    auto copy = [&](int tile) {
        constexpr int HERE = sizeof(work.tiles[0]) / sizeof(half_bits);
        half_bits* const to = reinterpret_cast<half_bits*>(work.tiles[tile % STAGES]);
#pragma unroll 1
        for (int t = threadIdx.x * 8; tile < n_tiles && t < HERE; t += THREADS * 8)
            copy_async_bypassing_l1(to + t, item_records + tile * (long long)HERE + t);
        copy_commit();
    };
    for (int tile = 0; tile < STAGES - 1; ++tile) copy(tile);
    for (int j = lane; j < n_mine * k; j += 32) items[j] = -1, scores[j] = not_a_score();

    // Of the operand's rows a lane has lane / 4 + 8 r. Those behind the last user reject all items.
    unsigned rows[STEPS][2][4];
    float thresholds[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int user = lane / 4 + 8 * r;
        const bool valid = user < n_mine;
        const float* const from = user_factors + (valid ? users[first_user + user] * (long long)FACTORS : 0);
        double square = 0.0;
#pragma unroll 4
        for (int f = lane % 4; f < FACTORS; f += 4) square += (double)from[f] * from[f];
        square += __shfl_xor_sync(WARP, square, 1);
        square += __shfl_xor_sync(WARP, square, 2);
        const float inverse = inverse_norm(square), scale = valid ? scale_of(inverse) : 0.0f;
#pragma unroll
        for (int t = 0; t < 4 * STEPS; ++t) {
            const int step = t / 4, h = t / 2 % 2, factor = 16 * step + 8 * h + lane % 4 * 2 + t % 2;
            const half_bits half = to_half(from[min(factor, FACTORS - 1)] * (factor < FACTORS ? scale : 0.0f));
            unsigned& pair = rows[step][r / 2][r % 2 + 2 * h];
            pair = t % 2 ? pair | (unsigned)half << 16 : half;
        }
        thresholds[r] = valid ? lowest() * inverse : -lowest();
        if (lane % 4 == 0) warp.inverses[user] = inverse, warp.thresholds[user] = thresholds[r];
    }
    for (int f = FACTORS + lane; f < PADDED; f += 32) warp.user[f] = 0.0f;
    warp.counts[lane] = 0;
    warp.below[lane] = lane < n_mine ? NONE : 0;
    __syncwarp();

    // Scores what is pending of a user, the last 32, by all lanes.
    auto rank = [&](int user) {
        const int pending = warp.counts[user], here = min(pending, 32);
        const int item = lane < here ? warp.pending[user][pending - here + lane] : -1;
        const long long row = users[first_user + user];
        const Entry found = scored(warp, item, user_factors + row * FACTORS, item_rows, [&](int one) {
            return !lane_contains(seen_items, seen_indptr[row], seen_indptr[row + 1], one);
        });
        int* const to_items = items + user * k;
        float* const to_scores = scores + user * k;
        if (k <= 32)
            merge<1>(found, k, to_items, to_scores, warp.last);
        else
            merge<4>(found, k, to_items, to_scores, warp.last);
        if (lane == 0) {
            const float inverse = warp.inverses[user];
            warp.counts[user] = pending - here;
            warp.thresholds[user] = warp.last.score * inverse;
            // Of a row of zeros all scores are zero, or NaN: the list is of the lowest positions.
            if (inverse > 0x1p61f) warp.below[user] = (unsigned)warp.last.item;
        }
        __syncwarp();
    };

    bool full = false, done = n_mine == 0;
    for (int tile = 0;; ++tile) {
        if (lane == 0) work.states[tile % 2][number] = (done ? DONE : 0) | (full ? IS_FULL : 0);
        copy_wait<STAGES - 2>();
        __syncthreads();
        const int state = work.states[tile % 2][lane % WARPS];
        const bool ends = tile == n_tiles || __all_sync(WARP, state & DONE);
        // All warps rank at the same time, as they wait for each other at the next tile.
        if (ends || __any_sync(WARP, state & IS_FULL)) {
            if (ends) copy_wait<0>();  // of tiles that nobody needs
            const int least = ends ? 1 : ENOUGH;
            for (unsigned some; (some = __ballot_sync(WARP, warp.counts[lane] >= least));) rank(__ffs(some) - 1);
            if (ends) break;
            full = false;
#pragma unroll
            for (int r = 0; r < 4; ++r) thresholds[r] = warp.thresholds[lane / 4 + 8 * r];
        }
        copy(tile + STAGES - 1);
        const Item(&tile_items)[TILE] = work.tiles[tile % STAGES];
        if (!done && tile % 8 == 0) {
            bool none = true;
#pragma unroll
            for (int r = 0; r < 4; ++r) none &= thresholds[r] * tile_items[0].inverse - MARGIN > 1.01f;
            done = __all_sync(WARP, none);
        }
        if (done) continue;

        float sums[2][2][4] = {};  // of halves of users and of items
        const half_bits* const right = tile_items[lane / 16 * 8 + lane % 8].factors + lane / 8 % 2 * 8;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            unsigned b[4];
            load_matrix(b, right + 16 * step);
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
                for (int n = 0; n < 2; ++n) multiply_add(sums[m][n], rows[step][m], b[2 * n], b[2 * n + 1]);
        }
        const Item* const mine = &tile_items[lane % 4 * 2];
        unsigned passing = 0;  // bit 8 m + 4 n + c: of sums[m][n][c]
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float inverse = mine[8 * n + j].inverse;
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const int c = r % 2 * 2 + j;
                    const bool less = sums[r / 2][n][c] < thresholds[r] * inverse - MARGIN;
                    passing |= (unsigned)!less << (8 * (r / 2) + 4 * n + c);  // NaN passes
                }
            }
        if (!__any_sync(WARP, passing)) continue;
        for (; passing; passing &= passing - 1) {
            const unsigned bit = __ffs(passing) - 1, user = bit / 8 * 16 + bit % 4 / 2 * 8 + lane / 4;
            const int item = mine[bit / 4 % 2 * 8 + bit % 2].item;
            if ((unsigned)item < warp.below[user]) warp.pending[user][atomicAdd(&warp.counts[user], 1)] = item;
        }
        __syncwarp();
        full = __any_sync(WARP, warp.counts[lane] >= FULL);
    }
}

// inverses: of the norms of items' rows. rows: (n_items, PADDED), their factors padded with zeros. Grid and block: a
// thread an item.
extern "C" __global__ void measure_items(const float* __restrict__ factors, int n_items, float* __restrict__ inverses,
                                         float* __restrict__ rows) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= n_items) return;
    double square = 0.0;
    for (int f = 0; f < PADDED; ++f) {
        const float factor = f < FACTORS ? factors[item * (long long)FACTORS + f] : 0.0f;
        rows[item * (long long)PADDED + f] = factor;
        square += (double)factor * factor;
    }
    inverses[item] = inverse_norm(square);
}

// order: the items as they are visited, inverses ascending and NaN first. records: (width, HALVES + 8), an Item each,
// of which only candidates are in lists. Grid and block: a thread a number of the records.
extern "C" __global__ void arrange_items(const float* __restrict__ rows, const float* __restrict__ inverses,
                                         const int* __restrict__ order, const unsigned char* __restrict__ candidates,
                                         int n_items, int width, half_bits* __restrict__ records) {
    const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const int place = (int)(t / (HALVES + 8)), column = (int)(t % (HALVES + 8));
    if (place >= width) return;
    Item& record = reinterpret_cast<Item*>(records)[place];
    const int item = place < n_items ? order[place] : -1;
    const float inverse = item < 0 ? 1.0f : inverses[item];
    const float factor = item >= 0 && column < PADDED ? rows[item * (long long)PADDED + column] : 0.0f;
    if (column < HALVES) record.factors[column] = to_half(factor * scale_of(inverse));
    if (column == HALVES) {
        record.inverse = inverse, record.item = item >= 0 && candidates[item] ? item : -1;
        record.unused[0] = record.unused[1] = 0;
    }
}

// The geometry of top_items_screened for the host. Grid: 1. Block: 1. Threads and users of a block, items of a tile,
// numbers of a record and of a row, bytes of shared memory of a block.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ users, int* __restrict__ tile,
                                 int* __restrict__ record, int* __restrict__ padded, int* __restrict__ work_bytes) {
    *block = THREADS;
    *users = USERS;
    *tile = TILE;
    *record = sizeof(Item) / sizeof(half_bits);
    *padded = PADDED;
    *work_bytes = sizeof(Work);
}
