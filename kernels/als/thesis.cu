// ALS-CUDA: half a sweep of alternating least squares, one half-warp a row (one warp above 16 factors).
// Source: Kampffmeyer 2015, Algorithms 5.2 and 5.3, equations 5.1 to 5.16.
//
// For every row r, with S its rated columns and n = |S|, solve
//     (F_S^T F_S + lambda n I) x_r = F_S^T ratings_S            (lambda I alone if not weighted)
// where F are the factors of the other side. The user update and the item update are this kernel with the sides swapped.
//
// One factor vector is read at a time, coalesced, and stored in shared memory, where every lane computes at most
// ceil((f + 1) / 2) products with it. Each lane adds to entries of its own, so nothing is atomic and the result is the
// same bits in every run and every version. A group has two symmetric matrices of f (f + 1) / 2 words, the sum and its
// decomposition; the versions differ in where they are:
//   1. thesis_shared: both in shared memory (section 6.4, Figure 6.7), which then limits the blocks of a
//      multiprocessor.
//   2. thesis_global: both in global memory (section 6.4, Figure 6.9). Shared memory limits nothing; every product is a
//      read and a write of global memory.
//   3. thesis_hybrid: the sum in global, the decomposition in shared memory (section 7.1, future work): half the shared
//      memory, and short latency in the substitutions, whose steps depend on each other.
//
// Where the source is silent or slips:
//   - a running FP32 sum over a popular item's 100,000 ratings loses four digits; here it is a sum of sums, whose total
//     is then decomposed in place;
//   - equation 5.9 lacks the division by D_jj with which L D L^T = A; the code has it;
//   - a D_jj that FP32 leaves at 0, below, or within rounding of A_jj, as of a row with few ratings and small lambda,
//     counts as infinite: its unknown becomes 0, and the other unknowns compensate;
//   - a row without ratings has the system 0 = 0 and gets the zero vector.
// Measured (make gains), NVIDIA H200, Douban (synthetic), 16 factors, an iteration:
//                    seconds  % of roofline  gain
//     thesis_shared  0.0286   0.73           –
//     thesis_global  0.0702   0.3            0.407 x over thesis_shared
//     thesis_hybrid  0.0736   0.28           0.955 x over thesis_global
#include "common/group.cuh"

static_assert(FACTORS <= 32, "one group holds one factor a lane");

constexpr int PACKED = FACTORS * (FACTORS + 1) / 2;
constexpr int PRODUCTS = (FACTORS + 2) / 2;  // ceil((f + 1) / 2), equation 5.4
constexpr int CHUNK = 1024;                  // ratings of a partial sum

// Entry (i, j) of a symmetric matrix in a packed upper triangle, row by row (equation 5.5, counted from 0).
__device__ inline int packed(int i, int j) {
    const int row = min(i, j), col = max(i, j);
    return row * FACTORS - row * (row - 1) / 2 + col - row;
}

struct Workspace {  // of one group
    float* symmetric;   // PACKED
    float* decomposed;  // PACKED; finally D on the diagonal, L below it (stored above, by symmetry)
    float* column;      // LANES
};

// decomposed += symmetric; symmetric = 0.
__device__ inline void move_sums(const Workspace& work) {
    for (int k = group_lane(); k < PACKED; k += LANES) {
        work.decomposed[k] += work.symmetric[k];
        work.symmetric[k] = 0.0f;
    }
}

// Algorithm 5.2: decomposed = sum v v^T; returns this lane's entry of sum r v.
__device__ inline float multiply(const Workspace& work, const int* indices, const float* values, long long begin,
                                 long long end, const float* fixed) {
    const int lane = group_lane();
    const unsigned mask = group_mask();

    for (int k = lane; k < PACKED; k += LANES) work.symmetric[k] = work.decomposed[k] = 0.0f;

    float right_side = 0.0f, right_side_total = 0.0f;
    for (long long p = begin; p < end; ++p) {
        if (p > begin && (p - begin) % CHUNK == 0) {
            __syncwarp(mask);
            move_sums(work);
            right_side_total += right_side;
            right_side = 0.0f;
        }
        float mine[1];
        load_factors(mine, fixed, indices[p]);
        __syncwarp(mask);  // the previous column is read, the zeros are written
        work.column[lane] = mine[0];
        __syncwarp(mask);
        right_side += values[p] * mine[0];
        if (lane < FACTORS) {
#pragma unroll
            for (int product = 0; product < PRODUCTS; ++product) {
                // Where (f + 1) / 2 is no integer, the last round has only half of the products.
                if (product * FACTORS + lane < PACKED) {
                    const int other = (product + lane) % FACTORS;
                    work.symmetric[packed(lane, other)] += mine[0] * work.column[other];
                }
            }
        }
    }
    __syncwarp(mask);
    move_sums(work);
    __syncwarp(mask);
    return right_side_total + right_side;
}

// Equations 5.6 to 5.9: A = L D L^T in place, column by column, lane i on row i. An infinite D_jj is stored as 0.
__device__ inline void decompose(float* matrix, float ridge) {
    const int lane = group_lane();
    const unsigned mask = group_mask();

    for (int j = 0; j < FACTORS; ++j) {
        float entry = 0.0f;
        if (lane >= j && lane < FACTORS) {
            const float whole = entry = matrix[packed(lane, j)] + (lane == j ? ridge : 0.0f);
            for (int k = 0; k < j; ++k)
                entry -= matrix[packed(lane, k)] * matrix[packed(k, k)] * matrix[packed(j, k)];
            if (lane == j && !(entry > 0x1p-21f * whole)) entry = 0.0f;
        }
        const float pivot = __shfl_sync(mask, entry, j, LANES);
        if (lane >= j && lane < FACTORS) matrix[packed(lane, j)] = lane == j ? pivot : pivot > 0.0f ? entry / pivot : 0.0f;
        __syncwarp(mask);
    }
}

// Equations 5.10 to 5.16: forward substitution, scaling, backward substitution; lane i holds x_i.
__device__ inline float substitute(const float* decomposed, float x) {
    const int lane = group_lane();
    const unsigned mask = group_mask();

    for (int k = 0; k < FACTORS; ++k) {
        const float solved = __shfl_sync(mask, x, k, LANES);
        if (lane > k && lane < FACTORS) x -= decomposed[packed(lane, k)] * solved;
    }
    if (lane < FACTORS) {
        const float pivot = decomposed[packed(lane, lane)];
        x = pivot > 0.0f ? x / pivot : 0.0f;
    }
    for (int k = FACTORS - 1; k >= 0; --k) {
        const float solved = __shfl_sync(mask, x, k, LANES);
        if (lane < k) x -= decomposed[packed(k, lane)] * solved;
    }
    return x;
}

constexpr int MAX_THREADS = 128;  // of a block

// Resident blocks of so many threads on a multiprocessor, by registers: 12 of the global version, as in the thesis
// (section 6.4), 16 of the hybrid (section 7.1), fewer on architectures with fewer threads.
#if __CUDA_ARCH__ == 750
constexpr int GLOBAL_BLOCKS = 8, HYBRID_BLOCKS = 8;
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
constexpr int GLOBAL_BLOCKS = 12, HYBRID_BLOCKS = 12;
#else
constexpr int GLOBAL_BLOCKS = 12, HYBRID_BLOCKS = 16;
#endif

// Algorithm 5.3.
__device__ inline void solve_rows(const Workspace& work, const long long* indptr, const int* indices,
                                  const float* values, const float* fixed, float* solved, int n_rows,
                                  float regularization, int weighted) {
    for (long long row = group_index(); row < n_rows; row += group_count()) {
        const long long begin = indptr[row], end = indptr[row + 1];
        float x[1] = {0.0f};
        if (begin < end) {
            x[0] = multiply(work, indices, values, begin, end, fixed);
            decompose(work.decomposed, weighted ? regularization * (float)(end - begin) : regularization);
            x[0] = substitute(work.decomposed, x[0]);
        }
        store_factors(solved, (int)row, x);
    }
}

// The three kernels. Grid: any; a group of lanes a row. Block: MAX_THREADS, or fewer in whole groups.

// Dynamic shared memory: two matrices and a column for each group of the block.
extern "C" __global__ void thesis_shared(const long long* __restrict__ indptr, const int* __restrict__ indices,
                                         const float* __restrict__ values, const float* __restrict__ fixed,
                                         float* __restrict__ solved, int n_rows, float regularization,
                                         int weighted) {
    extern __shared__ float shared[];
    float* const mine = shared + threadIdx.x / LANES * (2 * PACKED + LANES);
    const Workspace work = {mine, mine + PACKED, mine + 2 * PACKED};
    solve_rows(work, indptr, indices, values, fixed, solved, n_rows, regularization, weighted);
}

// Dynamic shared memory: a matrix and a column for each group of the block. matrices: one for each of the grid.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, HYBRID_BLOCKS)
    thesis_hybrid(const long long* __restrict__ indptr, const int* __restrict__ indices,
                  const float* __restrict__ values, const float* __restrict__ fixed, float* __restrict__ solved,
                  int n_rows, float regularization, int weighted, float* __restrict__ matrices) {
    extern __shared__ float shared[];
    float* const mine = shared + threadIdx.x / LANES * (PACKED + LANES);
    const Workspace work = {matrices + group_index() * PACKED, mine, mine + PACKED};
    solve_rows(work, indptr, indices, values, fixed, solved, n_rows, regularization, weighted);
}

// Dynamic shared memory: a column for each group of the block. matrices: two for each of the grid.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, GLOBAL_BLOCKS)
    thesis_global(const long long* __restrict__ indptr, const int* __restrict__ indices,
                  const float* __restrict__ values, const float* __restrict__ fixed, float* __restrict__ solved,
                  int n_rows, float regularization, int weighted, float* __restrict__ matrices) {
    extern __shared__ float shared[];
    float* const mine = matrices + group_index() * 2 * PACKED;
    const Workspace work = {mine, mine + PACKED, shared + threadIdx.x / LANES * LANES};
    solve_rows(work, indptr, indices, values, fixed, solved, n_rows, regularization, weighted);
}

// The geometry of the three for the host. Grid: 1. Block: 1. Lanes of a group, the most threads of a block, words of a
// matrix and of a column.
extern "C" __global__ void shape(int* __restrict__ lanes, int* __restrict__ max_threads, int* __restrict__ matrix,
                                 int* __restrict__ column) {
    *lanes = LANES;
    *max_threads = MAX_THREADS;
    *matrix = PACKED;
    *column = LANES;
}
