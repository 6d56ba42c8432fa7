// The best items of each user, and how many of them are test items.
//
//   1. top_items: for each user of a list the k items with the largest p_u . q_i, best first, among the candidates that
//      the user has not seen.
//      For few users the items are cut into parts, for as many blocks as fill the GPU, and merge_lists joins the lists.
//      For many users screened.cu finds the same lists faster.
//   2. top_scores: the same of scores that are given.
//   3. ranking_metrics: precision, recall, average precision and normalized discounted cumulative gain of each of those
//      lists against the user's test items.
//
// The scores are a matrix product that never reaches global memory:
//   - a block processes USERS users and all items, a tile at a time, so that an item's factors are read from L2 once
//     for all of them. The users' factors stay in shared memory; the items' pass through it, CHUNK factors of a tile at
//     a time, and are copied two chunks ahead, across tiles. The host transposes and pads them, for whole copies;
//   - a lane computes the scores of ITEMS items for USERS_PER_WARP users in registers: 64 multiply-adds for 4 reads of
//     16 bytes;
//   - a user's scores are all in one warp, which has that user's list, sorted, in shared memory. A vote finds the
//     scores above the k-th; only for those a binary search checks that the user has not seen the item. In random order
//     the list changes about k ln(n / k) times;
//   - items come in ascending order and equal scores are rejected, so the lower position wins a tie, as in a stable
//     sort, and two runs give the same bits.
#include "common/async_mma.cuh"
#include "metrics/sorted.cuh"

#if !defined(FACTORS) || !defined(WARPS)
#error "compile with -DFACTORS=f and -DWARPS=4, or 2 for less shared memory"
#endif

constexpr int USERS_PER_WARP = 8, USERS = WARPS * USERS_PER_WARP;
constexpr int ITEMS = 8, TILE = 32 * ITEMS;  // items of a lane, of a tile
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = 8, CHUNKS = (FACTORS + CHUNK - 1) / CHUNK, PADDED = CHUNKS * CHUNK;  // factors
constexpr int AHEAD = 2;  // chunks being copied while one is used

// As `contains`, for a value that all lanes of the warp look for: each round reads 32 places at once, for the latency.
__device__ inline bool warp_contains(const int* sorted, long long begin, long long end, int value) {
    const int lane = threadIdx.x % 32;
    while (end - begin > 32) {
        const long long step = (end - begin + 31) / 32, at = begin + lane * step;
        const int parts = __popc(__ballot_sync(WARP, at < end && sorted[at] <= value));  // that begin at or below it
        if (parts == 0) return false;
        begin += (parts - 1) * step;
        end = min(end, begin + step);
    }
    return __any_sync(WARP, begin + lane < end && sorted[begin + lane] == value);
}

// Inserts an entry into a sorted list of k, behind equal scores; the last entry is dropped.
__device__ inline void insert(Entry* list, int k, Entry entry) {
    for (int first = (k - 1) / 32 * 32; first >= 0; first -= 32) {
        const int j = first + (int)threadIdx.x % 32;
        Entry here = entry, before = entry;
        if (j < k) here = list[j];
        if (j < k && j > 0) before = list[j - 1];
        __syncwarp();
        if (here.score < entry.score) list[j] = before.score < entry.score ? before : entry;
        __syncwarp();
    }
}

// Inserts those of a lane's four scores, of the items first_item + 4 lane .. + 3, that may enter; returns the list's last
// score.
template <class Open>
__device__ inline float enter(Entry* list, int k, const float (&scores)[4], int first_item, Open open) {
    float last = list[k - 1].score;
    unsigned mine = 0;  // bit j: score j may enter
#pragma unroll
    for (int j = 0; j < 4; ++j) mine |= (unsigned)(scores[j] > last) << j;
    for (unsigned lanes = __ballot_sync(WARP, mine); lanes; lanes &= lanes - 1) {
        const int source = __ffs(lanes) - 1;
        for (unsigned places = __shfl_sync(WARP, mine, source); places; places &= places - 1) {
            const int j = __ffs(places) - 1;
            const float score = j == 0 ? scores[0] : j == 1 ? scores[1] : j == 2 ? scores[2] : scores[3];
            const Entry entry = {__shfl_sync(WARP, score, source), first_item + 4 * source + j};
            if (!(entry.score > last) || !open(entry.item)) continue;
            insert(list, k, entry);
            last = list[k - 1].score;
        }
    }
    return last;
}

// Dynamic shared memory of a block; the users' lists, k entries each, follow.
struct __align__(16) Work {
    float users[PADDED][USERS + 4];  // rows of whole float4 that start in different banks
    float items[AHEAD + 1][CHUNK][TILE];
};

// item_columns: (PADDED, n_tiles * TILE), the items' factors transposed, zeros beyond FACTORS and n_items.
// Grid: a block for USERS users, a layer for every part_tiles tiles, each with lists of its own. Block: THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
    top_items(const int* __restrict__ users, int n_users, const long long* __restrict__ seen_indptr,
              const int* __restrict__ seen_items, const unsigned char* __restrict__ candidates, int n_items,
              int n_tiles, int part_tiles, const float* __restrict__ user_factors,
              const float* __restrict__ item_columns, int k, int* __restrict__ items, float* __restrict__ scores) {
    extern __shared__ __align__(16) float shared[];
    Work& work = *reinterpret_cast<Work*>(shared);
    const int first_tile = blockIdx.y * part_tiles, end_tile = min(first_tile + part_tiles, n_tiles);
    items += blockIdx.y * (long long)n_users * k;
    scores += blockIdx.y * (long long)n_users * k;

    const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * USERS_PER_WARP;  // of the block's users
    const int first_user = blockIdx.x * USERS;
    Entry* const lists = reinterpret_cast<Entry*>(&work + 1) + mine * k;
    for (int j = lane; j < USERS_PER_WARP * k; j += 32) lists[j] = {lowest(), -1};  // barriers follow
    for (int t = threadIdx.x; t < USERS * PADDED; t += THREADS) {
        const int user = t / PADDED, factor = t % PADDED, place = first_user + user;
        const bool valid = place < n_users && factor < FACTORS;
        work.users[factor][user] = valid ? user_factors[users[place] * (long long)FACTORS + factor] : 0.0f;
    }
    auto copy = [&](int c) {  // chunk c % CHUNKS of tile c / CHUNKS
        const float* const from = item_columns + (c % CHUNKS * CHUNK * (long long)n_tiles + c / CHUNKS) * TILE;
        for (int t = threadIdx.x; c < end_tile * CHUNKS && t < CHUNK * TILE / 4; t += THREADS) {
            const int row = t / (TILE / 4), column = t % (TILE / 4) * 4;
            copy_async<16>(&work.items[c % (AHEAD + 1)][row][column], from + row * (long long)n_tiles * TILE + column);
        }
        copy_commit();
    };
    float worst[USERS_PER_WARP];  // of those in the list
#pragma unroll
    for (int u = 0; u < USERS_PER_WARP; ++u) worst[u] = lowest();

#pragma unroll
    for (int c = 0; c < AHEAD; ++c) copy(first_tile * CHUNKS + c);
    for (int tile = first_tile; tile < end_tile; ++tile) {
        float sums[USERS_PER_WARP][ITEMS] = {};
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            const int c = tile * CHUNKS + chunk;
            copy_wait<AHEAD - 1>();
            __syncthreads();
            copy(c + AHEAD);
            const float(&q)[CHUNK][TILE] = work.items[c % (AHEAD + 1)];
#pragma unroll
            for (int f = 0; f < CHUNK; ++f) {
                float item[ITEMS], user[USERS_PER_WARP];
#pragma unroll
                for (int i = 0; i < ITEMS; i += 4) {
                    const float4 four = *reinterpret_cast<const float4*>(&q[f][32 * i + 4 * lane]);
                    item[i] = four.x, item[i + 1] = four.y, item[i + 2] = four.z, item[i + 3] = four.w;
                }
#pragma unroll
                for (int u = 0; u < USERS_PER_WARP; u += 4) {
                    const float4 four = *reinterpret_cast<const float4*>(&work.users[chunk * CHUNK + f][mine + u]);
                    user[u] = four.x, user[u + 1] = four.y, user[u + 2] = four.z, user[u + 3] = four.w;
                }
#pragma unroll
                for (int u = 0; u < USERS_PER_WARP; ++u)
#pragma unroll
                    for (int i = 0; i < ITEMS; ++i) sums[u][i] += user[u] * item[i];
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i += 4) {
            unsigned changing = 0;  // bit u: user u has a score that may enter
#pragma unroll
            for (int u = 0; u < USERS_PER_WARP; ++u) {
                bool better = false;
#pragma unroll
                for (int j = 0; j < 4; ++j) better |= sums[u][i + j] > worst[u];
                changing |= (unsigned)__any_sync(WARP, better) << u;
            }
            for (; changing; changing &= changing - 1) {
                // Selects the registers of user u by comparison: registers have no run-time index.
                const int u = __ffs(changing) - 1, place = first_user + mine + u;
                if (place >= n_users) break;
                float four[4] = {};
#pragma unroll
                for (int v = 0; v < USERS_PER_WARP; ++v)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        if (v == u) four[j] = sums[v][i + j];
                const long long begin = seen_indptr[users[place]], end = seen_indptr[users[place] + 1];
                const float last = enter(lists + u * k, k, four, tile * TILE + 32 * i, [&](int item) {
                    return item < n_items && candidates[item] && !warp_contains(seen_items, begin, end, item);
                });
#pragma unroll
                for (int v = 0; v < USERS_PER_WARP; ++v)
                    if (v == u) worst[v] = last;
            }
        }
    }
    for (int j = lane; j < USERS_PER_WARP * k; j += 32) {
        const int place = first_user + mine + j / k;
        if (place >= n_users) break;
        items[place * (long long)k + j % k] = lists[j].item;
        scores[place * (long long)k + j % k] = lists[j].item < 0 ? not_a_score() : lists[j].score;
    }
}

// A warp writes the k best of n candidates to the list of user `place`: number j scores score_of(j), enters where
// open(j), and is item_of(j). shared: k entries for each warp of the block.
template <class Score, class Open, class Item>
__device__ void best_of(float* shared, int n, int k, long long place, Score score_of, Open open, Item item_of,
                        int* items, float* scores) {
    const int lane = threadIdx.x % 32;
    Entry* const list = reinterpret_cast<Entry*>(shared) + threadIdx.x / 32 * k;
    for (int j = lane; j < k; j += 32) list[j] = {lowest(), -1};
    __syncwarp();
    float last = lowest();
    for (int first = 0; first < n; first += 128) {
        float four[4];
        bool better = false;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int number = first + 4 * lane + j;
            four[j] = number < n ? score_of(number) : lowest();
            better |= four[j] > last;  // NaN never is
        }
        if (__any_sync(WARP, better)) last = enter(list, k, four, first, open);
    }
    for (int j = lane; j < k; j += 32) {
        const int number = list[j].item;
        items[place * k + j] = number < 0 ? -1 : item_of(number);
        scores[place * k + j] = number < 0 ? not_a_score() : list[j].score;
    }
}

// The best k of each user's lists of all parts of the items, (parts, n_users, k). Grid and block: a warp a user, with k
// entries of dynamic shared memory each.
extern "C" __global__ void merge_lists(const int* __restrict__ part_items, const float* __restrict__ part_scores,
                                       int parts, int n_users, int k, int* __restrict__ items,
                                       float* __restrict__ scores) {
    extern __shared__ __align__(16) float shared[];
    const long long place = blockIdx.x * (long long)(blockDim.x / 32) + threadIdx.x / 32;
    if (place >= n_users) return;
    // Entry j of part p is number p k + j: in ascending order of the items where scores are equal.
    const auto at = [&](int number) { return (number / k * (long long)n_users + place) * k + number % k; };
    best_of(
        shared, parts * k, k, place, [&](int number) { return part_scores[at(number)]; }, [](int) { return true; },
        [&](int number) { return part_items[at(number)]; }, items, scores);
}

// As top_items, of given scores (n_users, n_items). Grid and block: a warp a user, with k entries of dynamic shared memory
// each.
extern "C" __global__ void top_scores(const int* __restrict__ users, int n_users,
                                      const long long* __restrict__ seen_indptr, const int* __restrict__ seen_items,
                                      const unsigned char* __restrict__ candidates, int n_items,
                                      const float* __restrict__ given, int k, int* __restrict__ items,
                                      float* __restrict__ scores) {
    extern __shared__ __align__(16) float shared[];
    const long long place = blockIdx.x * (long long)(blockDim.x / 32) + threadIdx.x / 32;
    if (place >= n_users) return;
    const long long begin = seen_indptr[users[place]], end = seen_indptr[users[place] + 1];
    best_of(
        shared, n_items, k, place, [&](int item) { return given[place * n_items + item]; },
        [&](int item) { return candidates[item] && !warp_contains(seen_items, begin, end, item); },
        [](int item) { return item; }, items, scores);
}

// The sum over the warp, the same bits on every lane.
__device__ inline double warp_sum(double x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(WARP, x, offset);
    return x;
}

// Grid and block: a warp a user. metrics: (n_users, 4). A user without test items gets zeros.
extern "C" __global__ void ranking_metrics(const int* __restrict__ users, int n_users,
                                           const long long* __restrict__ test_indptr,
                                           const int* __restrict__ test_items, const int* __restrict__ items, int k,
                                           double* __restrict__ metrics) {
    const int lane = threadIdx.x % 32;
    const int place = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (place >= n_users) return;
    const long long begin = test_indptr[users[place]], end = test_indptr[users[place] + 1];
    const int most = (int)min(end - begin, (long long)k);  // possible hits

    int hits = 0;
    double precisions = 0.0, gain = 0.0, ideal = 0.0;
    for (int first = 0; first < k; first += 32) {
        const int rank = first + lane;  // from 0
        const bool hit = rank < k && contains(test_items, begin, end, items[place * (long long)k + rank]);
        const unsigned found = __ballot_sync(WARP, hit);
        const double discounted = 1.0 / log2(rank + 2.0);
        if (hit) precisions += (hits + __popc(found << (31 - lane))) / (rank + 1.0);
        if (hit) gain += discounted;
        if (rank < most) ideal += discounted;
        hits += __popc(found);
    }
    precisions = warp_sum(precisions), gain = warp_sum(gain), ideal = warp_sum(ideal);
    if (lane == 0) {
        double* const row = metrics + 4 * (long long)place;
        row[0] = (double)hits / k;
        row[1] = most ? (double)hits / (end - begin) : 0.0;
        row[2] = most ? precisions / most : 0.0;
        row[3] = most ? gain / ideal : 0.0;
    }
}

// columns: (PADDED, width), as top_items takes the items' factors, (n_items, FACTORS). Grid and block: a thread an entry.
extern "C" __global__ void transpose_items(const float* __restrict__ factors, int n_items, int width,
                                           float* __restrict__ columns) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= (long long)PADDED * width) return;
    const int factor = (int)(k / width), item = (int)(k % width);
    columns[k] = factor < FACTORS && item < n_items ? factors[item * (long long)FACTORS + factor] : 0.0f;
}

// The geometry of top_items for the host. Grid: 1. Block: 1. Threads and users of a block, items of a tile, PADDED, bytes
// of shared memory of a block without its lists, of an entry of a list.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ users, int* __restrict__ tile,
                                 int* __restrict__ padded, int* __restrict__ work_bytes, int* __restrict__ entry_bytes) {
    *block = THREADS;
    *users = USERS;
    *tile = TILE;
    *padded = PADDED;
    *work_bytes = sizeof(Work);
    *entry_bytes = sizeof(Entry);
}
