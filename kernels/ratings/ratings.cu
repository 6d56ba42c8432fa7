// What a set of ratings is asked for before it is trained on: whether its positions fit, how many ratings each user and
// each item has, their sum and range, and the ratings of each row, by column. CuPy has all of this too, but compiles a
// kernel for every operation when it first meets it, one after another; this file takes a tenth of a second.
//
// The order is that of one sort of plain integers, between `pack_cells` and `take_in_order`: above a rating's cell of
// the matrix, below its position, so that ratings of one cell stay as they are.
#include "common/tree_sum.cuh"

// Grid and block: a thread a rating. counts: zeros before; grows by the number of times that each key comes.
extern "C" __global__ void count_keys(const int* __restrict__ keys, long long n,
                                      unsigned long long* __restrict__ counts) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) atomicAdd(&counts[keys[k]], 1ull);
}

// Grid and block: a thread a key. found: grows by the number of keys outside 0..bound - 1.
extern "C" __global__ void count_outside(const int* __restrict__ keys, long long n, int bound, int* found) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n && (unsigned)keys[k] >= (unsigned)bound) atomicAdd(found, 1);
}

// Grid and block: any. found: (2,), grows by the number of threads that met a rating that comes before the one before
// it: by user and then item, and by item and then user.
extern "C" __global__ void find_descents(const int* __restrict__ users, const int* __restrict__ items, long long n,
                                         int* found) {
    const long long stride = gridDim.x * (long long)blockDim.x;
    bool by_user = false, by_item = false;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x + 1; k < n; k += stride) {
        const int user = users[k], user_before = users[k - 1], item = items[k], item_before = items[k - 1];
        if (user < user_before || (user == user_before && item < item_before)) by_user = true;
        if (item < item_before || (item == item_before && user < user_before)) by_item = true;
        if (by_user && by_item) break;
    }
    if (by_user) atomicAdd(&found[0], 1);
    if (by_item) atomicAdd(&found[1], 1);
}

// Grid: any. Block: at most 1024. bounds: (2, grid), the least and the largest value that each block sees.
extern "C" __global__ void range_of_values(const float* __restrict__ values, long long n, float* __restrict__ bounds) {
    __shared__ float least[1024], largest[1024];
    const int t = threadIdx.x;
    const long long stride = gridDim.x * (long long)blockDim.x, first = blockIdx.x * (long long)blockDim.x + t;
    float low = values[min(first, n - 1)], high = low;
    for (long long k = first; k < n; k += stride) low = min(low, values[k]), high = max(high, values[k]);
    least[t] = low, largest[t] = high;
    __syncthreads();
    if (t > 0) return;
    for (int k = 1; k < (int)blockDim.x; ++k) low = min(low, least[k]), high = max(high, largest[k]);
    bounds[blockIdx.x] = low, bounds[gridDim.x + blockIdx.x] = high;
}

// Grid and block: a thread a rating. left: (n,).
extern "C" __global__ void subtract(const float* __restrict__ values, long long n, float offset,
                                    float* __restrict__ left) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) left[k] = values[k] - offset;
}

// Grid and block: a thread a rating. preferences: (n,), 1 where the rating is above zero, else 0.
extern "C" __global__ void above_zero(const float* __restrict__ values, long long n,
                                      float* __restrict__ preferences) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) preferences[k] = values[k] > 0.0f ? 1.0f : 0.0f;
}

// Grid: any. Block: at most 1024. sums: (grid,); that of all is the sum of the values. The order of the additions is
// fixed by the launch, so the same values give the same bits.
extern "C" __global__ void sum_values(const float* __restrict__ values, long long n, double* __restrict__ sums) {
    __shared__ double of_threads[1024];
    const long long stride = gridDim.x * (long long)blockDim.x;
    double sum = 0.0;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n; k += stride) sum += values[k];
    sum = tree_sum(sum, of_threads);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// The same of their squares, in FP32. Grid and block: as of sum_values.
extern "C" __global__ void sum_squares(const float* __restrict__ values, long long n, double* __restrict__ sums) {
    __shared__ double of_threads[1024];
    const long long stride = gridDim.x * (long long)blockDim.x;
    double sum = 0.0;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n; k += stride)
        sum += values[k] * values[k];
    sum = tree_sum(sum, of_threads);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Grid and block: a thread a rating. keys: (n,), cells in rows of n_columns, shifted by `bits`; the position below.
extern "C" __global__ void pack_cells(const int* __restrict__ rows, const int* __restrict__ columns, long long n,
                                      long long n_columns, int bits, long long* __restrict__ keys) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const long long positions = (1ll << bits) - 1;
    if (k < n) keys[k] = ((rows[k] * n_columns + columns[k]) << bits) | (k & positions);
}

// Grid and block: a thread a rating. order: (n,); the bits of `positions` are the position of a rating.
extern "C" __global__ void take_in_order(const long long* __restrict__ order, long long n, long long positions,
                                         const int* __restrict__ columns, const float* __restrict__ values,
                                         int* __restrict__ ordered_columns, float* __restrict__ ordered_values) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const long long position = order[k] & positions;
    ordered_columns[k] = columns[position];
    ordered_values[k] = values[position];
}

// Grid and block: a thread a key. keys: (n,), of which the bits of `positions` are left.
extern "C" __global__ void keep_positions(long long* keys, long long n, long long positions) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) keys[k] &= positions;
}

// Grid and block: a thread a rating. order: (n,) positions; the others are columns, and what is there in this order.
extern "C" __global__ void take_ratings(const long long* __restrict__ order, long long n, const int* __restrict__ users,
                                        const int* __restrict__ items, const float* __restrict__ values,
                                        int* __restrict__ ordered_users, int* __restrict__ ordered_items,
                                        float* __restrict__ ordered_values) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const long long position = order[k];
    ordered_users[k] = users[position];
    ordered_items[k] = items[position];
    ordered_values[k] = values[position];
}

// Grid and block: a thread a place. found: (n,), what a table has at each place.
extern "C" __global__ void take(const int* __restrict__ table, const int* __restrict__ places, long long n,
                                int* __restrict__ found) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) found[k] = table[places[k]];
}

// The same of positions. Grid and block: a thread a place.
extern "C" __global__ void take_positions(const long long* __restrict__ table, const long long* __restrict__ places,
                                          long long n, long long* __restrict__ found) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) found[k] = table[places[k]];
}
