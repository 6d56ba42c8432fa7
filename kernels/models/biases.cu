// Damped biases of users or items, and products of what they leave with vectors, as gpumf.ratings.damped: a warp a row.
// A row of r ratings takes r / 32 steps; the order of the additions is fixed, so that two runs give the same bits. Each
// launch reads 8 bytes a rating once, and what it gathers from the cache.
#include "common/random.cuh"

__device__ inline long long row_of_warp() { return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; }

__device__ inline double warp_sum(double x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset, 32);
    return x;
}

// made: (n_rows,), the sums of r - mean - fixed by their numbers and `damping`. fixed: biases of the columns. Grid and
// block: a warp a row.
extern "C" __global__ void row_biases(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                      const float* __restrict__ values, int n_rows, double mean,
                                      const float* __restrict__ fixed, double damping, float* __restrict__ made) {
    const long long row = row_of_warp();
    if (row >= n_rows) return;
    const int lane = threadIdx.x % 32;
    const long long begin = indptr[row], end = indptr[row + 1];
    double sum = 0.0;
    for (long long t = begin + lane; t < end; t += 32) sum += values[t] - mean - fixed[indices[t]];
    sum = warp_sum(sum);
    if (lane == 0) made[row] = (float)(sum / (end - begin + damping));
}

// made: (n_rows, 2), the products of rows and two vectors, for the second with a random sign of each entry, drawn by its
// row and column, or by its column and row where the rows are `transposed`. Grid and block: a warp a row.
extern "C" __global__ void row_products(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                        const float* __restrict__ values, int n_rows,
                                        const float2* __restrict__ vectors, int transposed,
                                        double* __restrict__ made) {
    const long long row = row_of_warp();
    if (row >= n_rows) return;
    const int lane = threadIdx.x % 32;
    const long long begin = indptr[row], end = indptr[row + 1];
    double plain = 0.0, with_signs = 0.0;
    for (long long t = begin + lane; t < end; t += 32) {
        const long long column = indices[t], cell = transposed ? (column << 32) + row : (row << 32) + column;
        const float2 of_column = vectors[column];
        const double product = values[t] * (double)of_column.y;
        plain += values[t] * (double)of_column.x;
        with_signs += splitmix64(cell) & 1 ? -product : product;
    }
    plain = warp_sum(plain);
    with_signs = warp_sum(with_signs);
    if (lane == 0) made[2 * row] = plain, made[2 * row + 1] = with_signs;
}

// left: (n,), (r - mean - b_row - b_column) / unit of each rating. Grid and block: a thread a rating.
extern "C" __global__ void left_of_pairs(const int* __restrict__ rows, const int* __restrict__ columns,
                                         const float* __restrict__ values, long long n, double mean,
                                         const float* __restrict__ of_row, const float* __restrict__ of_column,
                                         double unit, float* __restrict__ left) {
    const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t < n) left[t] = (float)((values[t] - mean - of_row[rows[t]] - of_column[columns[t]]) / unit);
}

// The same of ratings by row. Grid and block: a warp a row.
extern "C" __global__ void left_of_rows(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                        const float* __restrict__ values, int n_rows, double mean,
                                        const float* __restrict__ of_row, const float* __restrict__ of_column,
                                        double unit, float* __restrict__ made) {
    const long long row = row_of_warp();
    if (row >= n_rows) return;
    const double base = mean + of_row[row];
    const long long end = indptr[row + 1];
    for (long long t = indptr[row] + threadIdx.x % 32; t < end; t += 32)
        made[t] = (float)((values[t] - base - of_column[indices[t]]) / unit);
}

// factors: (n,), those of rows of `width` numbers, the last two of which are biases, times `scale`. Grid and block: a
// thread a factor.
extern "C" __global__ void without_biases(const float* __restrict__ rows, long long n, int width, float scale,
                                          float* __restrict__ factors) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) factors[k] = rows[k / (width - 2) * width + k % (width - 2)] * scale;
}

// The way back: rows (n / width, width) with the biases of `start`, of the same shape. Grid and block: a thread a number
// of the rows.
extern "C" __global__ void with_biases(const float* __restrict__ factors, const float* __restrict__ start, long long n,
                                       int width, float scale, float* __restrict__ rows) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int place = (int)(k % width);
    rows[k] = place < width - 2 ? factors[k / width * (width - 2) + place] * scale : start[k];
}

// found: (n,), the numbers of rows in a column. Grid and block: a thread a row.
extern "C" __global__ void take_column(const float* __restrict__ rows, long long n, int width, int column,
                                       float* __restrict__ found) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) found[k] = rows[k * width + column];
}
