// The best items of each user, and how many of them are test items.
//
//   1. top_items: for each user of a list the k items with the largest p_u . q_i, best first, among the candidates that
//      the user has not seen.
//   2. ranking_metrics: precision, recall, average precision and normalized discounted cumulative gain of each of those
//      lists against the user's test items.
//
// The scores are a matrix product that never reaches global memory:
//   - a block processes USERS users and all items, a tile at a time, so that an item's factors are read from L2 once
//     for all of them; a lane computes the scores of ITEMS items for USERS_PER_WARP users in registers;
//   - a user's scores are all in one warp, which has that user's list, sorted, in shared memory. A ballot finds the
//     scores above the k-th; only for those a binary search checks that the user has not seen the item. In random order
//     the list changes about k ln(n / k) times;
//   - items come in ascending order and equal scores are rejected, so the lower position wins a tie, as in a stable
//     sort, and two runs give the same bits.
#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

constexpr int WARPS = 4, USERS_PER_WARP = 8, USERS = WARPS * USERS_PER_WARP;
constexpr int ITEMS = 4, TILE = 32 * ITEMS;  // items of a lane, of a tile
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = FACTORS < 16 ? FACTORS : 16;  // factors in shared memory at a time

// Minus infinity, below every score.
__device__ inline float lowest() { return __uint_as_float(0xff800000u); }

struct Entry {
    float score;
    int item;  // -1 where there is none
};

// Binary search of a value in a sorted range.
__device__ inline bool contains(const int* sorted, long long begin, long long end, int value) {
    while (begin < end) {
        const long long middle = (begin + end) / 2;
        if (sorted[middle] < value)
            begin = middle + 1;
        else if (sorted[middle] > value)
            end = middle;
        else
            return true;
    }
    return false;
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

// Inserts the scores of 32 items, a lane each, that the user has not seen; returns the list's last score.
template <class Seen>
__device__ inline float enter(Entry* list, int k, float score, int first_item, bool candidate, Seen seen) {
    float last = list[k - 1].score;
    unsigned better = __ballot_sync(0xffffffffu, candidate && score > last);
    for (; better; better &= better - 1) {
        const int source = __ffs(better) - 1;
        const Entry entry = {__shfl_sync(0xffffffffu, score, source), first_item + source};
        if (!(entry.score > last) || seen(entry.item)) continue;
        insert(list, k, entry);
        last = list[k - 1].score;
    }
    return last;
}

// tile = the rows first, first + 1, ... of a matrix, CHUNK factors from `begin` on, transposed; zeros beyond its end.
template <int rows, int stride>
__device__ inline void load_tile(float (*tile)[stride], const float* matrix, const int* chosen, int first, int n,
                                 int begin) {
    for (int t = threadIdx.x; t < rows * CHUNK; t += THREADS) {
        const int row = first + t / CHUNK, factor = begin + t % CHUNK;
        float x = 0.0f;
        if (row < n && factor < FACTORS) x = matrix[(chosen ? chosen[row] : row) * (long long)FACTORS + factor];
        tile[t % CHUNK][t / CHUNK] = x;
    }
}

// Grid: a block for USERS users. Block: THREADS, with dynamic shared memory of k entries for each user.
extern "C" __global__ void __launch_bounds__(THREADS)
    top_items(const int* __restrict__ users, int n_users, const long long* __restrict__ seen_indptr,
              const int* __restrict__ seen_items, const unsigned char* __restrict__ candidates, int n_items,
              const float* __restrict__ user_factors, const float* __restrict__ item_factors, int k,
              int* __restrict__ items, float* __restrict__ scores) {
    extern __shared__ float shared[];
    __shared__ __align__(16) float p[CHUNK][USERS + 4];  // rows of whole float4 that start in different banks
    __shared__ float q[CHUNK][TILE + 1];

    const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * USERS_PER_WARP;  // of the block's users
    const int first_user = blockIdx.x * USERS;
    Entry* const lists = reinterpret_cast<Entry*>(shared) + mine * k;
    for (int j = lane; j < USERS_PER_WARP * k; j += 32) lists[j] = {lowest(), -1};  // a tile's barriers follow
    float worst[USERS_PER_WARP];  // of those in the list
#pragma unroll
    for (int u = 0; u < USERS_PER_WARP; ++u) worst[u] = lowest();

    for (int tile = 0; tile < n_items; tile += TILE) {
        float sums[USERS_PER_WARP][ITEMS] = {};
        for (int begin = 0; begin < FACTORS; begin += CHUNK) {
            __syncthreads();
            load_tile<USERS>(p, user_factors, users, first_user, n_users, begin);
            load_tile<TILE>(q, item_factors, nullptr, tile, n_items, begin);
            __syncthreads();
#pragma unroll
            for (int f = 0; f < CHUNK; ++f) {
                float item[ITEMS], user[USERS_PER_WARP];
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) item[i] = q[f][lane + 32 * i];
#pragma unroll
                for (int u = 0; u < USERS_PER_WARP; u += 4) {
                    const float4 four = *reinterpret_cast<const float4*>(&p[f][mine + u]);
                    user[u] = four.x, user[u + 1] = four.y, user[u + 2] = four.z, user[u + 3] = four.w;
                }
#pragma unroll
                for (int u = 0; u < USERS_PER_WARP; ++u)
#pragma unroll
                    for (int i = 0; i < ITEMS; ++i) sums[u][i] += user[u] * item[i];
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int item = tile + 32 * i;
            const bool candidate = item + lane < n_items && candidates[item + lane];
            unsigned changing = 0;  // bit u: user u has a score that may enter
#pragma unroll
            for (int u = 0; u < USERS_PER_WARP; ++u)
                changing |= (unsigned)__any_sync(0xffffffffu, candidate && sums[u][i] > worst[u]) << u;
            for (; changing; changing &= changing - 1) {
                // Selects the registers of user u by comparison: registers have no run-time index.
                const int u = __ffs(changing) - 1, place = first_user + mine + u;
                if (place >= n_users) break;
                float score = 0.0f;
#pragma unroll
                for (int v = 0; v < USERS_PER_WARP; ++v)
                    if (v == u) score = sums[v][i];
                const float last = enter(lists + u * k, k, score, item, candidate, [&](int item) {
                    return contains(seen_items, seen_indptr[users[place]], seen_indptr[users[place] + 1], item);
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
        scores[place * (long long)k + j % k] = lists[j].score;
    }
}

// The sum over the warp, the same bits on every lane.
__device__ inline double warp_sum(double x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
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
        const unsigned found = __ballot_sync(0xffffffffu, hit);
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
