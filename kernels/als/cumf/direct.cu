// solve_direct: A x = b solved directly, one system a block.
// Source: Tan et al. 2018, section 4 (the batched LU that conjugate gradient replaces).
//
//   1. CHOLESKY=0: A = L U, as a general batched LU that ignores symmetry. Without pivoting: A is symmetric positive
//      definite, for which elimination in any order of the diagonal is stable.
//   2. CHOLESKY=1: A = L L^T: half the work and half the memory of LU.
// Each in two places: with the system in shared memory (IN_GLOBAL=0), or, where a block cannot have that much, in global
// memory (IN_GLOBAL=1).
//
// The system is A with b as row FACTORS, in padded tiles, `lower`; eliminating that row with the others is the forward
// substitution. For LU there is a second set, `upper`, with U transposed: both are then lower triangles, and each is
// updated with the other's tiles. For Cholesky they are the same. Diagonals store reciprocals.
// A pivot that FP32 leaves at 0, below, or within rounding of its diagonal entry, as of a row with few ratings and
// small lambda, counts as infinite: its reciprocal and its unknown are 0, and the other unknowns compensate.
// A row without ratings gets the zero vector.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, all systems:
//                 seconds  % of roofline  gain
//     CHOLESKY=0  0.101    3.5            –
//     CHOLESKY=1  0.0333   10             3.02 x over CHOLESKY=0
#include "als/cumf/geometry.cuh"

#if !defined(CHOLESKY) || !defined(IN_GLOBAL)
#error "compile with -DCHOLESKY=0 or 1, -DIN_GLOBAL=0 or 1"
#endif

// Copies A + ridge I and b to the system's tiles; least = 2^-21 of the diagonal, which pivots have to exceed.
__device__ inline void load_system(float* lower, float* upper, float* least, const float* matrix, const float* bias,
                                   float ridge) {
    for (int i = 0; i < SYSTEM_ROWS; ++i)
        for (int k = threadIdx.x; k < (i + 1) * SIDE * 4; k += DIRECT_THREADS) {
            const int j = k / (SIDE * 4), row = k / 4 % SIDE, column = k % 4 * 4;
            const int r = i * SIDE + row, c = j * SIDE + column;
            float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
            if (r < FACTORS && c < FACTORS)
                four = load4(matrix + tile_number(i, j) * SIDE * SIDE + row * SIDE + column);
            auto entry = [&](float a, int at) {
                const int low = min(r, at), high = max(r, at);
                return high < FACTORS ? a + (low == high ? ridge : 0.0f)
                                      : high == FACTORS && low < FACTORS ? bias[low] : 0.0f;
            };
            four = {entry(four.x, c), entry(four.y, c + 1), entry(four.z, c + 2), entry(four.w, c + 3)};
            const float entries[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (r == c + e && r < FACTORS) least[r] = 0x1p-21f * entries[e];
            const int to = tile_number(i, j) * TILE + row * LINE + column;
            *reinterpret_cast<float4*>(lower + to) = four;
            if (upper != lower) *reinterpret_cast<float4*>(upper + to) = four;
        }
}

// Factors a tile on the diagonal, whose first `columns` columns belong to A: one warp, row r in lane r < 16.
__device__ inline void factor_diagonal(float* lower, float* upper, const float* least, int columns) {
    const int r = threadIdx.x;
    float row[SIDE] = {};
    if (r < SIDE) {
#pragma unroll
        for (int j = 0; j < SIDE; ++j) row[j] = lower[r * LINE + j];
    }
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        if (k >= columns) break;
        const float pivot = __shfl_sync(0xffffffffu, row[k], k);
        const bool sound = pivot > least[k];
        if (CHOLESKY) {
            const float inverse = sound ? 1.0f / sqrtf(pivot) : 0.0f, entry = row[k] * inverse;
#pragma unroll
            for (int j = k + 1; j < SIDE; ++j) row[j] -= entry * __shfl_sync(0xffffffffu, entry, j);
            row[k] = r == k ? inverse : entry;
        } else {
            const float entry = r > k && sound ? row[k] / pivot : 0.0f;
#pragma unroll
            for (int j = k + 1; j < SIDE; ++j) row[j] -= entry * __shfl_sync(0xffffffffu, row[j], k);
            if (r > k) row[k] = entry;
        }
    }
    if (r >= SIDE) return;
#pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        if (CHOLESKY) {
            if (j <= r) lower[r * LINE + j] = row[j];
        } else {
            if (j <= r) lower[r * LINE + j] = j < r ? row[j] : 1.0f;
            if (j >= r && r < columns) upper[j * LINE + r] = j > r ? row[j] : row[j] > least[j] ? 1.0f / row[j] : 0.0f;
        }
    }
}

// row = x with x T^T = row, T the triangle of a tile on the diagonal.
__device__ inline void substitute(float* row, const float* triangle) {
    float x[SIDE];
#pragma unroll
    for (int k = 0; k < SIDE; k += 4) {
        const float4 four = *reinterpret_cast<const float4*>(row + k);
        x[k] = four.x, x[k + 1] = four.y, x[k + 2] = four.z, x[k + 3] = four.w;
    }
#pragma unroll
    for (int k = 0; k < SIDE; ++k) {
        x[k] *= triangle[k * LINE + k];
#pragma unroll
        for (int j = k + 1; j < SIDE; ++j) x[j] -= x[k] * triangle[j * LINE + k];
    }
#pragma unroll
    for (int k = 0; k < SIDE; k += 4) *reinterpret_cast<float4*>(row + k) = {x[k], x[k + 1], x[k + 2], x[k + 3]};
}

// c -= a b^T for tiles: half a warp, 4 x 4 entries a thread.
__device__ inline void update(float* c, const float* a, const float* b) {
    const int row = threadIdx.x / 4 % 4, column = threadIdx.x % 4;
    float sums[4][4] = {};
#pragma unroll
    for (int k = 0; k < SIDE; k += 4) {
        float4 left[4], right[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            left[e] = *reinterpret_cast<const float4*>(a + (row + 4 * e) * LINE + k);
            right[e] = *reinterpret_cast<const float4*>(b + (column + 4 * e) * LINE + k);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                sums[e][g] += left[e].x * right[g].x;
                sums[e][g] += left[e].y * right[g].y;
                sums[e][g] += left[e].z * right[g].z;
                sums[e][g] += left[e].w * right[g].w;
            }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int g = 0; g < 4; ++g) c[(row + 4 * e) * LINE + column + 4 * g] -= sums[e][g];
}

// Factors the system in place, tile column by tile column.
__device__ inline void factor_system(float* lower, float* upper, const float* least) {
    constexpr int sides = CHOLESKY ? 1 : 2;
    auto tile = [&](int side, int i, int j) { return (side == 0 ? lower : upper) + tile_number(i, j) * TILE; };
    for (int k = 0; k < TILE_ROWS; ++k) {
        if (threadIdx.x < 32)
            factor_diagonal(tile(0, k, k), tile(1, k, k), least + k * SIDE, FACTORS - k * SIDE);
        __syncthreads();
        const int rows = (SYSTEM_ROWS - 1 - k) * SIDE;
        for (int t = threadIdx.x; t < rows * sides; t += DIRECT_THREADS) {
            const int side = t / rows, row = t % rows;
            substitute(tile(side, k + 1 + row / SIDE, k) + row % SIDE * LINE, tile(1 - side, k, k));
        }
        __syncthreads();
        const int tiles = rows / SIDE, pairs = tiles * (tiles + 1) / 2;
        for (int t = threadIdx.x / SIDE; t < pairs * sides; t += DIRECT_THREADS / SIDE) {
            const int side = t / pairs;
            const Place pair = place_in_triangle(t % pairs);
            const int i = k + 1 + pair.i, j = k + 1 + pair.j;
            if (side == 0 || i > j) update(tile(side, i, j), tile(side, i, k), tile(1 - side, j, k));
        }
        __syncthreads();
    }
}

// x with T^T x = y, y = row FACTORS of the triangle, from the last tile to the first.
__device__ inline void substitute_back(const float* triangle, float* x) {
    for (int k = threadIdx.x; k < TILE_ROWS * SIDE; k += DIRECT_THREADS)
        x[k] = k < FACTORS ? triangle[tile_number(FACTORS / SIDE, k / SIDE) * TILE + FACTORS % SIDE * LINE + k % SIDE]
                           : 0.0f;
    __syncthreads();
    for (int i = TILE_ROWS - 1; i >= 0; --i) {
        if (threadIdx.x < 32) {
            const int lane = threadIdx.x;
            const float* const diagonal = triangle + tile_number(i, i) * TILE;
            float mine = lane < SIDE ? x[i * SIDE + lane] : 0.0f;
#pragma unroll
            for (int k = SIDE - 1; k >= 0; --k) {
                if (i * SIDE + k >= FACTORS) continue;
                const float solved = __shfl_sync(0xffffffffu, mine, k) * diagonal[k * LINE + k];
                if (lane < k) mine -= solved * diagonal[k * LINE + lane];
                if (lane == k) mine = solved;
            }
            if (lane < SIDE) x[i * SIDE + lane] = mine;
        }
        __syncthreads();
        for (int c = threadIdx.x; c < i * SIDE; c += DIRECT_THREADS) {
            const float* const column = triangle + tile_number(i, c / SIDE) * TILE + c % SIDE;
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < SIDE; ++k)
                if (i * SIDE + k < FACTORS) sum += column[k * LINE] * x[i * SIDE + k];
            x[c] -= sum;
        }
        __syncthreads();
    }
}

// Solves the systems of rows blockIdx.x, blockIdx.x + gridDim.x, ... in this block's own `lower` and `upper`.
__device__ inline void solve_rows(float* lower, float* upper, const float* matrices, const float* biases,
                                  const long long* indptr, const float* ridges, float* solved, int n_rows) {
    __shared__ float x[TILE_ROWS * SIDE];
    for (int row = blockIdx.x; row < n_rows; row += gridDim.x) {
        float* const solution = solved + row * (long long)FACTORS;
        const int count = (int)(indptr[row + 1] - indptr[row]);
        if (count == 0) {
            for (int k = threadIdx.x; k < FACTORS; k += DIRECT_THREADS) solution[k] = 0.0f;
            continue;
        }
        // x stores the least pivots until the solution replaces them.
        load_system(lower, upper, x, matrices + row * (long long)MATRIX, biases + row * (long long)FACTORS,
                    ridges[row]);
        __syncthreads();
        factor_system(lower, upper, x);
        substitute_back(upper, x);
        for (int k = threadIdx.x; k < FACTORS; k += DIRECT_THREADS) solution[k] = x[k];
        __syncthreads();
    }
}

// Grid: a block a row, or, with the system in global memory, any. Block: DIRECT_THREADS. In dynamic shared memory, or in
// `workspace` for each block: 2 SYSTEM floats for LU, SYSTEM floats for Cholesky.
extern "C" __global__ void __launch_bounds__(DIRECT_THREADS)
    solve_direct(const float* __restrict__ matrices, const float* __restrict__ biases,
                 const long long* __restrict__ indptr, const float* __restrict__ ridges, float* __restrict__ solved,
                 int n_rows, float* workspace) {
    extern __shared__ __align__(16) float shared[];
    constexpr int sets = CHOLESKY ? 1 : 2;
    float* const lower = IN_GLOBAL ? workspace + blockIdx.x * (long long)(sets * SYSTEM) : shared;
    solve_rows(lower, lower + (sets - 1) * SYSTEM, matrices, biases, indptr, ridges, solved, n_rows);
}
