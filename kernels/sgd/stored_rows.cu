// Rows of factors as sgd/fast.cu stores them, in FP16 or FP32 and padded to whole quads, from the model's and back.
//
// Where users and items change places, so do their two columns of biases, the last ones: `exchanged`.
#include "common/async_mma.cuh"

__device__ inline void store(half_bits& to, float x) { to = to_half(x); }
__device__ inline void store(float& to, float x) { to = x; }
__device__ inline float load(half_bits from) { return from_half(from); }
__device__ inline float load(float from) { return from; }

// Where a column's number comes from.
__device__ inline int source_of(int column, int columns, int exchanged) {
    return exchanged && column >= columns - 2 ? 2 * columns - 3 - column : column;
}

template <class Stored>
__device__ void pad(const float* factors, int n_rows, int columns, int width, int exchanged, Stored* rows) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n_rows * (long long)width) return;
    const long long row = k / width;
    const int column = (int)(k % width);
    store(rows[k], column < columns ? factors[row * columns + source_of(column, columns, exchanged)] : 0.0f);
}

template <class Stored>
__device__ void unpad(const Stored* rows, int n_rows, int columns, int width, int exchanged, float* factors) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n_rows * (long long)columns) return;
    factors[k] = load(rows[k / columns * width + source_of((int)(k % columns), columns, exchanged)]);
}

// factors: (n_rows, columns). rows: (n_rows, width), zeros beyond the columns. Grid and block: a thread a number of the
// rows.
extern "C" __global__ void pad_half(const float* __restrict__ factors, int n_rows, int columns, int width,
                                    int exchanged, half_bits* __restrict__ rows) {
    pad(factors, n_rows, columns, width, exchanged, rows);
}

// Grid and block: as of pad_half.
extern "C" __global__ void pad_float(const float* __restrict__ factors, int n_rows, int columns, int width,
                                     int exchanged, float* __restrict__ rows) {
    pad(factors, n_rows, columns, width, exchanged, rows);
}

// The other way round. Grid and block: a thread a factor.
extern "C" __global__ void unpad_half(const half_bits* __restrict__ rows, int n_rows, int columns, int width,
                                      int exchanged, float* __restrict__ factors) {
    unpad(rows, n_rows, columns, width, exchanged, factors);
}

// Grid and block: as of unpad_half.
extern "C" __global__ void unpad_float(const float* __restrict__ rows, int n_rows, int columns, int width,
                                       int exchanged, float* __restrict__ factors) {
    unpad(rows, n_rows, columns, width, exchanged, factors);
}

template <class Stored>
__device__ void multiply(Stored* rows, int n_rows, int width, const float* by) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n_rows * (long long)width) store(rows[k], load(rows[k]) * by[k / width]);
}

// by: (n_rows,), what each row is multiplied by. Grid and block: a thread a number of the rows.
extern "C" __global__ void multiply_half(half_bits* rows, int n_rows, int width, const float* __restrict__ by) {
    multiply(rows, n_rows, width, by);
}

// Grid and block: as of multiply_half.
extern "C" __global__ void multiply_float(float* rows, int n_rows, int width, const float* __restrict__ by) {
    multiply(rows, n_rows, width, by);
}
