// What a set of ratings is asked for before it is trained on: how many each user and each item has, their sum, and the
// ratings of each row, by column.
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
