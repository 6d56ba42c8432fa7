// ALS on implicit feedback with many factors: conjugate gradient, preconditioned by the part that all rows share.
//
// The matrix of row u is A_u = G + lambda_u I + sum of c y y^T over its ratings, G = Y^T Y. The host factors
// G + lambda I = U^T U, lambda the least of all rows, and takes x U^T for x and Y U^-1 for Y. What is left to solve is
//
//     B_u = I + (lambda_u - lambda) K + sum of c z z^T,    K = (U U^T)^-1, z = y U^-1
//
// whose eigenvalues are near 1 but for as many as the row has ratings: few steps solve it, and start from the factors
// before. A product with B_u is, of all rows at once, one product of matrices by cuBLAS, and here a pass over the
// ratings:
//
//   - z is read once for its inner product with p and for the sum; in half precision, |z| <= 1 times 2^15. All else is
//     FP32.
//   - A block processes a row. Its threads have VECTORS chunks of eight factors each, of BATCH ratings at a time, so
//     that 128 bytes a thread are on their way.
//   - A row with more ratings than a segment is summed up in parts by other blocks before: the same bits in every run.
//   - Rows whose residual is small enough are skipped.
//   - G is the sum of products that take its rows in two parts, of TF32 each: where factors are many and lambda is
//     small, what TF32 leaves out of G is more than lambda. Of many factors, Y U^-1 and the solution, of x U^T, are
//     such sums, too: three products of TF32 with U^-1 take the place of a triangular system in FP32.
//
// Bytes of a step: 2 f + 8 for each rating, and six vectors of f numbers for each row.
//
// Measured (make gains): not recorded yet.
#include "common/async_mma.cuh"

#ifndef VECTORS
#error "compile with -DVECTORS=1 or 2, chunks of eight factors of a thread"
#endif

constexpr int OWN = 8 * VECTORS, BATCH = 8 / VECTORS;
constexpr int MAX_WARPS = VECTORS == 1 ? 8 : 16;  // of a block
constexpr int BLOCKS = VECTORS == 1 ? 3 : 1;      // at least, of a multiprocessor, without spills
constexpr unsigned WARP = 0xffffffffu;            // mask of all lanes
constexpr float SCALE = 0x1p15f;                  // of z in half precision

// Of one chunk of rows that are solved.
struct Rows {
    const long long* indptr;
    const int* indices;
    const float* values;
    const uint4* fixed;  // z, `chunks` of eight a row
    int chunks;
    float confidence;
};

// Each thread has chunks threadIdx.x, threadIdx.x + blockDim.x, ...
__device__ inline int chunk_of(int v) { return v * blockDim.x + threadIdx.x; }

__device__ inline void load(const float* row, int chunks, float (&x)[OWN]) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const int place = 2 * chunk_of(v) + k;
            float4 four = {};
            if (place < 2 * chunks) four = reinterpret_cast<const float4*>(row)[place];
            float* const to = x + 8 * v + 4 * k;
            to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
        }
}

__device__ inline void store(float* row, int chunks, const float (&x)[OWN]) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const int place = 2 * chunk_of(v) + k;
            const float* const from = x + 8 * v + 4 * k;
            if (place < 2 * chunks) reinterpret_cast<float4*>(row)[place] = {from[0], from[1], from[2], from[3]};
        }
}

// Sums over the block of n numbers of each thread; lane l gets number l % n. turn: of calls so far, for all threads.
template <int n>
__device__ inline float block_sums(float (&x)[n], int turn) {
    __shared__ float of_warps[2][MAX_WARPS * 8];
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
    for (int half = n / 2; half > 0; half /= 2) {
        const bool upper = lane & half;
#pragma unroll
        for (int k = 0; k < half; ++k) {
            const float given = upper ? x[k] : x[k + half], kept = upper ? x[k + half] : x[k];
            x[k] = kept + __shfl_xor_sync(WARP, given, half);
        }
    }
    float sum = x[0];
#pragma unroll
    for (int offset = n; offset < 32; offset *= 2) sum += __shfl_xor_sync(WARP, sum, offset);
    float* const shared = of_warps[turn % 2];  // slower warps may still read the other
    if (lane < n) shared[threadIdx.x / 32 * n + lane] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = lane / n; w < warps; w += 32 / n) sum += shared[w * n + lane % n];
#pragma unroll
    for (int offset = n; offset < 32; offset *= 2) sum += __shfl_xor_sync(WARP, sum, offset);
    return sum;
}

__device__ inline float inner(const float (&x)[OWN], const float (&y)[OWN]) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < OWN; ++k) sum += x[k] * y[k];
    return sum;
}

// Eight numbers in half precision.
__device__ inline void unpack(const uint4& from, float (&x)[8]) {
    const unsigned pairs[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = from_half((half_bits)(pairs[k / 2] >> (k % 2 ? 16 : 0)));
}

// Adds c z (z . p) of the ratings begin .. end - 1 to sum. START: adds what is left of the right side, b - c z (z . p),
// instead, and b to right.
template <bool START>
__device__ inline void add_ratings(const Rows& rows, long long begin, long long end, const float (&p)[OWN],
                                   float (&sum)[OWN], float (&right)[OWN], int& turn) {
    const int lane = threadIdx.x % 32;
    int column = 0;  // of rating lane % BATCH of a batch
    float value = 0.0f;
    const auto read = [&](long long first) {
        const long long mine = first + lane % BATCH;
        const bool there = mine < end;
        column = there ? rows.indices[mine] : 0;
        value = there ? rows.values[mine] : 0.0f;
    };
    read(begin);
    for (long long t = begin; t < end; t += BATCH) {
        uint4 z[BATCH][VECTORS];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const uint4* const row = rows.fixed + __shfl_sync(WARP, column, b) * (long long)rows.chunks;
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                z[b][v] = {};
                if (chunk_of(v) < rows.chunks) z[b][v] = row[chunk_of(v)];
            }
        }
        const float weight = rows.confidence * fabsf(value), target = value > 0.0f ? 1.0f + weight : 0.0f;
        read(t + BATCH);
        float products[BATCH] = {};
#pragma unroll
        for (int b = 0; b < BATCH; ++b)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                float eight[8];
                unpack(z[b][v], eight);
#pragma unroll
                for (int k = 0; k < 8; ++k) products[b] += eight[k] * p[8 * v + k];
            }
        const float product = weight * block_sums(products, turn++) / SCALE;
        const float mine = (START ? target - product : product) / SCALE;
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const float factor = __shfl_sync(WARP, mine, b), of_right = START ? __shfl_sync(WARP, target, b) / SCALE : 0.0f;
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                float eight[8];
                unpack(z[b][v], eight);
#pragma unroll
                for (int k = 0; k < 8; ++k) {
                    sum[8 * v + k] += factor * eight[k];
                    if (START) right[8 * v + k] += of_right * eight[k];
                }
            }
        }
    }
}

// Adds the parts of a row that has several, or its ratings.
template <bool START>
__device__ inline void add_row(const Rows& rows, int row, const int* slots, const float* parts, const float* rights,
                               const float (&p)[OWN], float (&sum)[OWN], float (&right)[OWN], int& turn) {
    const int first = slots[row], end = slots[row + 1];
    for (int slot = first; slot < end; ++slot) {
        float part[OWN];
        load(parts + slot * 8LL * rows.chunks, rows.chunks, part);
#pragma unroll
        for (int k = 0; k < OWN; ++k) sum[k] += part[k];
        if (!START) continue;
        load(rights + slot * 8LL * rows.chunks, rows.chunks, part);
#pragma unroll
        for (int k = 0; k < OWN; ++k) right[k] += part[k];
    }
    if (first == end) add_ratings<START>(rows, rows.indptr[row], rows.indptr[row + 1], p, sum, right, turn);
}

template <bool START>
__device__ inline void sum_part(const Rows& rows, const int* long_rows, const int* slots, const float* vectors,
                                float* parts, float* rights) {
    const int slot = blockIdx.x, row = long_rows[slot], part = slot - slots[row], n = slots[row + 1] - slots[row];
    const long long begin = rows.indptr[row], count = rows.indptr[row + 1] - begin;
    float p[OWN], sum[OWN] = {}, right[OWN] = {};
    int turn = 0;
    load(vectors + row * 8LL * rows.chunks, rows.chunks, p);
    add_ratings<START>(rows, begin + part * count / n, begin + (part + 1) * count / n, p, sum, right, turn);
    store(parts + slot * 8LL * rows.chunks, rows.chunks, sum);
    if (START) store(rights + slot * 8LL * rows.chunks, rows.chunks, right);
}

// Parts of long rows, for start_rows. Grid: a block for each. Block: whole warps with all chunks.
// long_rows: the row of each part, in order; slots: (rows + 1), where those of each row begin.
extern "C" __global__ void __launch_bounds__(32 * MAX_WARPS, VECTORS == 1 ? 2 : 1)
    start_parts(const long long* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ values,
                const uint4* __restrict__ fixed, int chunks, float confidence, const int* __restrict__ long_rows,
                const int* __restrict__ slots, const float* __restrict__ x, float* __restrict__ parts,
                float* __restrict__ rights) {
    sum_part<true>({indptr, indices, values, fixed, chunks, confidence}, long_rows, slots, x, parts, rights);
}

// The same for step_rows. Grid and block as of start_parts.
extern "C" __global__ void __launch_bounds__(32 * MAX_WARPS, BLOCKS)
    step_parts(const long long* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ values,
               const uint4* __restrict__ fixed, int chunks, float confidence, const int* __restrict__ long_rows,
               const int* __restrict__ slots, const float* __restrict__ direction, const float* __restrict__ squares,
               const float* __restrict__ least, float* __restrict__ parts) {
    const int row = long_rows[blockIdx.x];
    if (squares[row] <= least[row]) return;
    sum_part<false>({indptr, indices, values, fixed, chunks, confidence}, long_rows, slots, direction, parts, nullptr);
}

// The residual b - B x, which is the first direction, and its squared length; least: the one at which a row is solved.
// Rows without a positive rating have the solution zero. product: x K. Grid: a block for each row, longest first.
// Block: whole warps with all chunks.
extern "C" __global__ void __launch_bounds__(32 * MAX_WARPS, VECTORS == 1 ? 2 : 1)
    start_rows(const int* __restrict__ order, const long long* __restrict__ indptr, const int* __restrict__ indices,
               const float* __restrict__ values, const uint4* __restrict__ fixed, int chunks, float confidence,
               const int* __restrict__ slots, const float* __restrict__ parts, const float* __restrict__ rights,
               const float* __restrict__ ridges, const float* __restrict__ shared_ridge, float tolerance,
               const float* __restrict__ product, float* __restrict__ x, float* __restrict__ residual,
               float* __restrict__ direction, float* __restrict__ squares, float* __restrict__ least) {
    const int row = order[blockIdx.x];
    const long long place = row * 8LL * chunks;
    float own[OWN], left[OWN] = {}, right[OWN] = {}, other[OWN];
    int turn = 0;
    load(x + place, chunks, own);
    add_row<true>({indptr, indices, values, fixed, chunks, confidence}, row, slots, parts, rights, own, left, right, turn);
    load(product + place, chunks, other);
    const float more = ridges[row] - *shared_ridge;
#pragma unroll
    for (int k = 0; k < OWN; ++k) left[k] -= own[k] + more * other[k];
    float lengths[2] = {inner(left, left), inner(right, right)};
    const float length = block_sums(lengths, turn++), of_right = __shfl_sync(WARP, length, 1);
    if (of_right == 0.0f) {
#pragma unroll
        for (int k = 0; k < OWN; ++k) own[k] = left[k] = 0.0f;
        store(x + place, chunks, own);
    }
    store(residual + place, chunks, left);
    store(direction + place, chunks, left);
    if (threadIdx.x == 0) {
        squares[row] = of_right == 0.0f ? 0.0f : length;
        least[row] = tolerance * tolerance * of_right;
    }
}

// A step of conjugate gradient. product: p K, of the direction p. Grid and block as of start_rows.
extern "C" __global__ void __launch_bounds__(32 * MAX_WARPS, BLOCKS)
    step_rows(const int* __restrict__ order, const long long* __restrict__ indptr, const int* __restrict__ indices,
              const float* __restrict__ values, const uint4* __restrict__ fixed, int chunks, float confidence,
              const int* __restrict__ slots, const float* __restrict__ parts, const float* __restrict__ ridges,
              const float* __restrict__ shared_ridge, const float* __restrict__ product, float* __restrict__ x,
              float* __restrict__ residual, float* __restrict__ direction, float* __restrict__ squares,
              const float* __restrict__ least) {
    const int row = order[blockIdx.x];
    const long long place = row * 8LL * chunks;
    const float square = squares[row];
    if (square <= least[row]) return;
    float p[OWN], sum[OWN] = {}, own[OWN];
    int turn = 0;
    load(direction + place, chunks, p);
    add_row<false>({indptr, indices, values, fixed, chunks, confidence}, row, slots, parts, nullptr, p, sum, own, turn);
    load(product + place, chunks, own);
    const float more = ridges[row] - *shared_ridge;
#pragma unroll
    for (int k = 0; k < OWN; ++k) sum[k] += p[k] + more * own[k];
    float curvature[1] = {inner(p, sum)};
    const float step = square / block_sums(curvature, turn++);
    load(x + place, chunks, own);
#pragma unroll
    for (int k = 0; k < OWN; ++k) own[k] += step * p[k];
    store(x + place, chunks, own);
    load(residual + place, chunks, own);
#pragma unroll
    for (int k = 0; k < OWN; ++k) own[k] -= step * sum[k];
    store(residual + place, chunks, own);
    float length[1] = {inner(own, own)};
    const float next = block_sums(length, turn++);
#pragma unroll
    for (int k = 0; k < OWN; ++k) own[k] += next / square * p[k];
    store(direction + place, chunks, own);
    if (threadIdx.x == 0) squares[row] = next;
}

// Rows with other numbers of columns: new ones are zero, others are left out. Grid and block: a thread a number of `made`.
extern "C" __global__ void copy_columns(const float* __restrict__ rows, int columns, long long n, int made_columns,
                                        float* __restrict__ made) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int column = (int)(k % made_columns);
    made[k] = column < columns ? rows[k / made_columns * columns + column] : 0.0f;
}

// Rows z, times SCALE, in half precision. Grid and block: a thread a pair of numbers.
extern "C" __global__ void round_rows(const float2* __restrict__ rows, long long n, unsigned* __restrict__ made) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) made[k] = to_half(rows[k].x * SCALE) | (unsigned)to_half(rows[k].y * SCALE) << 16;
}

// rows without their last 13 bits, as products have them in TF32, and what that leaves out. Grid and block: a thread a
// number.
extern "C" __global__ void split_rows(float* __restrict__ rows, long long n, float* __restrict__ low) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const float whole = rows[k], high = __uint_as_float(__float_as_uint(whole) & 0xffffe000u);
    rows[k] = high;
    low[k] = whole - high;
}

// gram += cross + cross^T, square matrices, in the upper triangle. Grid and block: a thread an entry.
extern "C" __global__ void add_both(float* __restrict__ gram, const float* __restrict__ cross, int width) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const long long row = k / width, column = k % width;
    if (row < width && column >= row) gram[k] += cross[k] + cross[column * width + row];
}

// G + ridge I, and ones on the diagonal behind `factors`. Of the trace, a ridge has to be large enough for FP32; it is
// left in shared_ridge. Grid: 1. Block: 256.
extern "C" __global__ void regularize(float* __restrict__ gram, int width, int factors, float ridge,
                                      float* __restrict__ shared_ridge) {
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int k = threadIdx.x; k < factors; k += 256) sum += gram[k * (width + 1LL)];
    sums[threadIdx.x] = sum;
    __syncthreads();
    float trace = 0.0f;
    for (int k = 0; k < 256; ++k) trace += sums[k];
    ridge = max(ridge, trace * 0x1p-18f);
    for (int k = threadIdx.x; k < width; k += 256) gram[k * (width + 1LL)] = k < factors ? gram[k * (width + 1LL)] + ridge : 1.0f;
    if (threadIdx.x == 0) *shared_ridge = ridge;
}

// Zeros below the diagonal of `upper`; and the identity. Grid and block: a thread an entry.
extern "C" __global__ void clear_lower(float* __restrict__ upper, int width, float* __restrict__ identity) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= (long long)width * width) return;
    const int row = (int)(k / width), column = (int)(k % width);
    if (column < row) upper[k] = 0.0f;
    identity[k] = row == column;
}
