// cuMF-ALS: get_hermitian, get_bias and solve as kernels of their own, with A in global memory between them.
// Source: Tan et al. 2018, sections 3 to 5.
//
// For every row u with ratings r over columns I, n = |I|, and theta_v the other side's factors, solve A x = b:
//     A = sum theta_v theta_v^T + lambda n E,  b = sum r theta_v        (lambda E alone if not weighted)
// and for implicit feedback (section 5.6; Hu, Koren, Volinsky 2008), where only ratings r > 0 count as seen,
//     A = G + sum alpha r theta_v theta_v^T + lambda E,  b = sum (1 + alpha r) theta_v,
//     G = Theta^T Theta over all v.
//
// get_hermitian   A. Batches of BIN theta are staged in shared memory, A is summed up in registers, lower triangle
//                 only, and written once. LOAD says how theta comes to shared memory (Figure 3): 0 coalesced,
//                 neighbouring threads read along one theta; 1 non-coalesced, each thread of a warp reads from a
//                 theta of its own, and L1 puts the pieces together; 2 the same with L1 bypassed.
// get_bias        b, as a phase of its own.
// solve_lu        A = L U, as a batched LU does that knows nothing of symmetry. Without pivoting: A is symmetric
//                 positive definite, for which elimination in any order of the diagonal is stable.
// solve_cholesky  A = L L^T: half the work and half the memory of LU.
// solve_cg        conjugate gradient (Algorithm 1) from the solution before: an approximation, and O(f^2). It reads A
//                 anew in each step, in FP32 or, with A_HALF, in FP16: half the bytes.
//
// Changed against the source, and why:
//   - the source gives T x T = 10 x 10 entries to a thread; here 8 x 8, whose operands are four 16-byte loads, and
//     threads in fours hold 16 x 16 entries so that a warp's loads meet few words. Where f needs few threads, several
//     groups of threads take ratings in turn and add up at the end;
//   - the copies to shared memory do not wait: the next batch comes while one is used;
//   - the ratings are one more column of theta, so that get_hermitian has b too: the source reads theta twice;
//   - long rows are split into segments, or an item with 232,944 ratings would keep one block busy for long, and its
//     FP32 sums would lose digits;
//   - A is kept as the 16 x 16 tiles of the lower triangle: half the bytes of the full matrix.
// Where the source is silent or slips:
//   - equations 2 to 4 have lambda inside the sum, so that it counts n times, while their right side and inverse are
//     written for one row alone; equation 1 says what is meant, and that is done here;
//   - Algorithm 1, line 5, updates the residual by alpha p; it is alpha a_p;
//   - Algorithm 1 looks at the residual only after a step, and divides 0 by 0 where there is none; here it may end
//     before the first step, and ends where p^T a_p is no normal positive number;
//   - a pivot that FP32 leaves at 0, below, or within rounding of its diagonal entry, as of a row with few ratings and
//     little lambda, counts as infinite in LU and Cholesky: its unknown, which the others make up for, becomes 0;
//   - FP16 ends at 65504, which a row with many ratings exceeds. A is stored divided by its largest diagonal entry,
//     than which no entry of a positive definite matrix is larger; lambda is added in FP32 later;
//   - a row without ratings gets the zero vector.
// The same bits in every run: no sum depends on the order in which blocks or threads arrive.
// What each version gains is measured in book/als_versions.ipynb.
#include "common/group.cuh"
#include "common/segments.cuh"
#include "common/tensor.cuh"

#if !defined(LOAD) || !defined(A_HALF) || !defined(IMPLICIT)
#error "compile with -DLOAD=0, 1 or 2, -DA_HALF=0 or 1, -DIMPLICIT=0 or 1"
#endif

// For a row of several parts: whether this block is the last to come here.
__device__ inline bool last_part(const Segment& segment, int* arrived) {
    __shared__ bool last;
    return last_of_row(segment, arrived, threadIdx.x, last, [] { __syncthreads(); });
}

// A in global memory

constexpr int SIDE = 16;  // of a tile
constexpr int TILE_ROWS = (FACTORS + SIDE - 1) / SIDE;
constexpr int MATRIX = TILE_ROWS * (TILE_ROWS + 1) / 2 * SIDE * SIDE;  // entries; tiles on the diagonal are full

__device__ constexpr int tile_number(int i, int j) { return i * (i + 1) / 2 + j; }

struct Place {
    int i, j;
};

// The place, j <= i, of entry k of a lower triangle, counted row by row.
__device__ inline Place place_in_triangle(int k) {
    const int i = (int)((sqrtf(8.0f * k + 1.0f) - 1.0f) * 0.5f);  // exact: k = i (i + 1) / 2 makes a square
    return {i, k - i * (i + 1) / 2};
}

#if A_HALF
using element = half_bits;

__device__ inline float value_of(element x) { return from_half(x); }

__device__ inline float4 load4(const element* at) {
    const uint2 two = *reinterpret_cast<const uint2*>(at);
    return {from_half((element)two.x), from_half((element)(two.x >> 16)), from_half((element)two.y),
            from_half((element)(two.y >> 16))};
}

__device__ inline void store8(element* at, const float (&x)[8]) {
    auto pair = [&](int k) { return to_half(x[k]) | (unsigned)to_half(x[k + 1]) << 16; };
    *reinterpret_cast<uint4*>(at) = {pair(0), pair(2), pair(4), pair(6)};
}
#else
using element = float;

__device__ inline float value_of(element x) { return x; }
__device__ inline float4 load4(const element* at) { return *reinterpret_cast<const float4*>(at); }

__device__ inline void store8(element* at, const float (&x)[8]) {
    *reinterpret_cast<float4*>(at) = {x[0], x[1], x[2], x[3]};
    *reinterpret_cast<float4*>(at + 4) = {x[4], x[5], x[6], x[7]};
}
#endif

// What a rating weighs in A, and in b. In implicit feedback one that is not positive was not seen, and the smallest
// weight lets the second be the first times a finite number.
__device__ inline float weight_in_a(float rating, float alpha) {
    return IMPLICIT ? rating > 0.0f ? max(alpha * rating, 1e-30f) : 0.0f : 1.0f;
}
__device__ inline float weight_in_b(float rating, float alpha) {
    return IMPLICIT ? rating > 0.0f ? 1.0f + alpha * rating : 0.0f : rating;
}

// get_hermitian

constexpr int BIN = 32;   // ratings staged together
constexpr int EDGE = 8;   // of a patch, the entries of A that a thread sums up
constexpr int PATCH_ROWS = (FACTORS + EDGE) / EDGE;  // of A and, as column FACTORS of theta, the ratings
constexpr int PATCHES = PATCH_ROWS * (PATCH_ROWS + 1) / 2;
constexpr int SUMS = EDGE * EDGE;

__device__ constexpr int whole_warps(int threads) { return (threads + 31) / 32 * 32; }

// Groups of PATCHES threads: as few as give work to four fifths of the threads.
__device__ constexpr int fewest_groups() {
    int groups = 1;
    while (5 * groups * PATCHES < 4 * whole_warps(groups * PATCHES)) ++groups;
    return groups;
}
constexpr int GROUPS = fewest_groups();
constexpr int THREADS = whole_warps(GROUPS * PATCHES);
constexpr int BLOCKS = THREADS > 256 ? 1 : 512 / THREADS;  // to hold on a multiprocessor, by registers

// A theta in shared memory: the first four factors of every patch row, then the second four. Eight threads then read
// 16 bytes each of eight patch rows without meeting a bank twice, and so do eight rows of one patch row.
constexpr int PLANE = PATCH_ROWS * 4;
constexpr int STRIDE = 2 * PLANE + 4;
constexpr int WIDTH = FACTORS % 4 == 0 ? 4 : FACTORS % 2 == 0 ? 2 : 1;  // factors copied at once
constexpr int CHUNKS = FACTORS / WIDTH;                                 // of a theta

__device__ constexpr int place_of(int factor) {
    return factor / 4 % 2 * PLANE + factor / EDGE * 4 + factor % 4;
}

// Which patch a thread sums up. Four threads in a row have the patches of a tile, as far as there are whole tiles
// below the diagonal: two by two they read the same operands. Then the three of each tile on the diagonal, and the
// last row.
__device__ inline Place patch_of(int thread) {
    constexpr int tiles = PATCH_ROWS / 2, below = tiles * (tiles - 1) / 2 * 4;
    if (thread < below) {
        const Place tile = place_in_triangle(thread / 4);
        return {2 * (tile.i + 1) + thread / 2 % 2, 2 * tile.j + thread % 2};
    }
    const int rest = thread - below;
    if (rest < 3 * tiles) return {rest / 3 * 2 + (rest % 3 > 0), rest / 3 * 2 + (rest % 3 > 1)};
    return {PATCH_ROWS - 1, rest - 3 * tiles};
}

// The ratings of a segment on their way to the registers: those of bin s + 3 are read while the theta of bin s + 1
// are copied and those of bin s are used.
struct Staging {
    const int* indices;
    const float* values;
    const float* fixed;
    int length;
    float alpha;
    float (*bins)[BIN][STRIDE];
    int (*columns)[BIN];
    float (*ratings)[BIN];
    float (*weights)[BIN];
    int column;  // of this thread's rating, read but not yet kept
    float rating;

    __device__ int ratings_of(int bin) const { return min(BIN, length - bin * BIN); }

    __device__ void read(int bin) {
        const bool valid = (int)threadIdx.x < ratings_of(bin);
        column = valid ? indices[bin * BIN + threadIdx.x] : 0;
        rating = valid ? values[bin * BIN + threadIdx.x] : 0.0f;
    }

    __device__ void keep(int bin) {
        if (threadIdx.x >= BIN) return;
        columns[bin % 2][threadIdx.x] = column;
        ratings[bin % 2][threadIdx.x] = rating;
    }

    __device__ void copy(int bin) {
        const int n = ratings_of(bin), slot = bin % 2;
        // Which chunk of which theta, and how far on to the next, without a division for each.
        constexpr int next_t = LOAD == 0 ? THREADS / CHUNKS : 0;
        constexpr int next_chunk = LOAD == 0 ? THREADS % CHUNKS : THREADS / BIN;
        int t = LOAD == 0 ? threadIdx.x / CHUNKS : threadIdx.x % BIN;
        int chunk = LOAD == 0 ? threadIdx.x % CHUNKS : threadIdx.x / BIN;
        while (t < n && chunk < CHUNKS) {
            const float* from = fixed + columns[slot][t] * (long long)FACTORS + chunk * WIDTH;
            float* to = bins[slot][t] + place_of(chunk * WIDTH);
            if (LOAD < 2)
                copy_async<4 * WIDTH>(to, from);
            else if (WIDTH == 4)
                copy_async_past_l1(to, from);
            else
                for (int w = 0; w < WIDTH; ++w) to[w] = __ldcg(from + w);
            t += next_t;
            chunk += next_chunk;
            if (LOAD == 0 && chunk >= CHUNKS) {
                chunk -= CHUNKS;
                ++t;
            }
        }
        if ((int)threadIdx.x < n) {
            const float r = ratings[slot][threadIdx.x], weight = weight_in_a(r, alpha);
            // In the product it is multiplied by the weight in A.
            bins[slot][threadIdx.x][place_of(FACTORS)] = weight > 0.0f ? weight_in_b(r, alpha) / weight : 0.0f;
            if (IMPLICIT) weights[slot][threadIdx.x] = weight;
        }
        copy_commit();
    }

    __device__ void clear_padding() {
        constexpr int padding = PATCH_ROWS * EDGE - FACTORS - 1;
        for (int k = threadIdx.x; k < 2 * BIN * padding; k += THREADS)
            bins[k % 2][k / 2 % BIN][place_of(FACTORS + 1 + k / (2 * BIN))] = 0.0f;
    }
};

__device__ inline void load_operand(float (&out)[EDGE], const float* theta, int patch_row) {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
        const float4 four = *reinterpret_cast<const float4*>(theta + plane * PLANE + patch_row * 4);
        out[4 * plane] = four.x, out[4 * plane + 1] = four.y;
        out[4 * plane + 2] = four.z, out[4 * plane + 3] = four.w;
    }
}

template <class Use>
__device__ inline void for_each_sum(float (&sums)[EDGE][EDGE], Use use) {
#pragma unroll
    for (int k = 0; k < SUMS; ++k) use(k, sums[k / EDGE][k % EDGE]);
}

// Writes a patch to A and what belongs to the ratings to b. In a tile on the diagonal the mirror image too.
__device__ inline void store_patch(const float (&sums)[EDGE][EDGE], Place patch, element* matrix, float* bias,
                                   float factor) {
    element* const tile = matrix + tile_number(patch.i / 2, patch.j / 2) * SIDE * SIDE;
    const int row = patch.i % 2 * EDGE, column = patch.j % 2 * EDGE;
#pragma unroll
    for (int a = 0; a < EDGE; ++a) {
        if (patch.i * EDGE + a == FACTORS) {
#pragma unroll
            for (int b = 0; b < EDGE; ++b)
                if (patch.j * EDGE + b < FACTORS) bias[patch.j * EDGE + b] = sums[a][b];
        }
        float line[EDGE];
#pragma unroll
        for (int b = 0; b < EDGE; ++b) line[b] = sums[a][b] * factor;
        if (patch.i * EDGE + a < FACTORS) store8(tile + (row + a) * SIDE + column, line);
    }
    if (patch.i == patch.j || patch.i / 2 != patch.j / 2) return;
#pragma unroll
    for (int b = 0; b < EDGE; ++b) {
        float line[EDGE];
#pragma unroll
        for (int a = 0; a < EDGE; ++a) line[a] = sums[a][b] * factor;
        if (patch.i * EDGE < FACTORS) store8(tile + (column + b) * SIDE + row, line);
    }
}

// A block a segment. `scales`: with A_HALF what A is divided by. `gram`: with IMPLICIT G, as this kernel writes A.
// `partial`: PATCHES * SUMS floats a slot. Dynamic shared memory: the bins, then in the same place the groups' sums.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    get_hermitian(const Segment* __restrict__ segments, const int* __restrict__ indices,
                  const float* __restrict__ values, const float* __restrict__ fixed, const float* __restrict__ gram,
                  element* __restrict__ matrices, float* __restrict__ scales, float* __restrict__ biases,
                  float* __restrict__ partial, int* __restrict__ arrived, float alpha) {
    extern __shared__ __align__(16) float shared[];
    __shared__ int columns[2][BIN];
    __shared__ float ratings[2][BIN], weights[IMPLICIT ? 2 : 1][BIN], largest[PATCH_ROWS];

    const Segment segment = segments[blockIdx.x];
    if (segment.count == 0) return;
    const int thread = threadIdx.x % PATCHES, group = threadIdx.x / PATCHES;
    const Place patch = patch_of(thread);
    float sums[EDGE][EDGE] = {};

    Staging staging = {indices + segment.begin,
                       values + segment.begin,
                       fixed,
                       segment.length,
                       alpha,
                       reinterpret_cast<float(*)[BIN][STRIDE]>(shared),
                       columns,
                       ratings,
                       weights};
    staging.clear_padding();
    staging.read(0);
    staging.keep(0);
    staging.read(1);
    __syncthreads();
    staging.copy(0);
    staging.keep(1);
    staging.read(2);
    for (int bin = 0; bin * BIN < segment.length; ++bin) {
        copy_wait<0>();
        __syncthreads();
        staging.copy(bin + 1);
        staging.keep(bin + 2);
        staging.read(bin + 3);
        const int n = staging.ratings_of(bin);
#pragma unroll 2
        for (int t = group; t < n; t += GROUPS) {
            float left[EDGE], right[EDGE];
            load_operand(left, staging.bins[bin % 2][t], patch.i);
            load_operand(right, staging.bins[bin % 2][t], patch.j);
            if (IMPLICIT) {
                const float weight = weights[bin % 2][t];
#pragma unroll
                for (int a = 0; a < EDGE; ++a) left[a] *= weight;
            }
#pragma unroll
            for (int a = 0; a < EDGE; ++a)
#pragma unroll
                for (int b = 0; b < EDGE; ++b) sums[a][b] += left[a] * right[b];
        }
    }

    const bool first_group = threadIdx.x < PATCHES;
    if (GROUPS > 1) {
        __syncthreads();  // the bins have been used up
        auto at = [&](int g, int k) -> float& { return shared[((g - 1) * SUMS + k) * PATCHES + thread]; };
        if (group > 0 && group < GROUPS) for_each_sum(sums, [&](int k, float& sum) { at(group, k) = sum; });
        __syncthreads();
        if (first_group)
            for (int g = 1; g < GROUPS; ++g) for_each_sum(sums, [&](int k, float& sum) { sum += at(g, k); });
    }
    if (segment.parts > 1) {
        auto of = [&](int part) { return partial + (segment.slot + part) * (long long)(SUMS * PATCHES) + thread; };
        if (first_group) {
            float* const mine = of(segment.part);
            for_each_sum(sums, [&](int k, float& sum) { mine[k * PATCHES] = sum; });
        }
        if (!last_part(segment, arrived)) return;
        for_each_sum(sums, [&](int, float& sum) { sum = 0.0f; });
        if (first_group)
            for (int part = 0; part < segment.parts; ++part)
                for_each_sum(sums, [&](int k, float& sum) { sum += __ldcg(&of(part)[k * PATCHES]); });
    }
    if (IMPLICIT && first_group) {
        const float* const tile = gram + tile_number(patch.i / 2, patch.j / 2) * SIDE * SIDE;
        const int row = patch.i % 2 * EDGE, column = patch.j % 2 * EDGE;
        for_each_sum(sums, [&](int k, float& sum) {
            const int i = k / EDGE, j = k % EDGE;
            const bool inside = patch.i * EDGE + i < FACTORS && patch.j * EDGE + j < FACTORS;
            if (inside) sum += tile[(row + i) * SIDE + column + j];
        });
    }

    float factor = 1.0f;
    if (A_HALF) {
        if (first_group && patch.i == patch.j) {
            float most = 0.0f;
#pragma unroll
            for (int k = 0; k < EDGE; ++k)
                if (patch.i * EDGE + k < FACTORS) most = max(most, sums[k][k]);
            largest[patch.i] = most;
        }
        __syncthreads();
        float most = 0.0f;
        for (int k = 0; k < PATCH_ROWS; ++k) most = max(most, largest[k]);
        if (most > 0.0f) factor = 1.0f / most;
        if (threadIdx.x == 0) scales[segment.row] = most;
    }
    if (first_group)
        store_patch(sums, patch, matrices + segment.row * (long long)MATRIX,
                    biases + segment.row * (long long)FACTORS, factor);
}

// get_bias

constexpr int BIAS_GROUPS = 128 / LANES;

// A block of 128 threads a segment; a group of lanes a rating. `partial`: FACTORS floats a slot.
extern "C" __global__ void __launch_bounds__(128)
    get_bias(const Segment* __restrict__ segments, const int* __restrict__ indices, const float* __restrict__ values,
             const float* __restrict__ fixed, float* __restrict__ biases, float* __restrict__ partial,
             int* __restrict__ arrived, float alpha) {
    __shared__ float of_groups[BIAS_GROUPS][FACTORS];
    const Segment segment = segments[blockIdx.x];
    if (segment.count == 0) return;
    const int group = threadIdx.x / LANES;
    float sums[FACTORS_PER_LANE] = {};
#pragma unroll 4
    for (int t = group; t < segment.length; t += BIAS_GROUPS) {
        const float weight = weight_in_b(values[segment.begin + t], alpha);
        float theta[FACTORS_PER_LANE];
        load_factors(theta, fixed, indices[segment.begin + t]);
#pragma unroll
        for (int k = 0; k < FACTORS_PER_LANE; ++k) sums[k] += weight * theta[k];
    }
    store_factors(of_groups[0], group, sums);
    __syncthreads();
    float* const bias = biases + segment.row * (long long)FACTORS;
    float* const parts = partial + segment.slot * (long long)FACTORS;
    for (int k = threadIdx.x; k < FACTORS; k += 128) {
        float sum = 0.0f;
        for (int g = 0; g < BIAS_GROUPS; ++g) sum += of_groups[g][k];
        (segment.parts > 1 ? parts + segment.part * FACTORS : bias)[k] = sum;
    }
    if (segment.parts == 1 || !last_part(segment, arrived)) return;
    for (int k = threadIdx.x; k < FACTORS; k += 128) {
        float sum = 0.0f;
        for (int part = 0; part < segment.parts; ++part) sum += __ldcg(&parts[part * FACTORS + k]);
        bias[k] = sum;
    }
}

// The exact solvers. The system is A with b as row FACTORS, in tiles of its own, `lower`; what happens to that row is
// the forward substitution. For LU there is a second set, `upper`, with U transposed: both are then lower triangles
// and treated alike, each by the other's tiles. For Cholesky they are the same. Diagonals hold reciprocals, 0 for
// pivots that are nothing but rounding.

constexpr int SYSTEM_ROWS = FACTORS / SIDE + 1;  // of tiles
constexpr int LINE = SIDE + 4;                   // floats from row to row of a tile: four rows meet no bank twice
constexpr int TILE = SIDE * LINE;
constexpr int SYSTEM = SYSTEM_ROWS * (SYSTEM_ROWS + 1) / 2 * TILE;
constexpr int SOLVERS = SYSTEM_ROWS <= 2 ? 32 : SYSTEM_ROWS <= 4 ? 64 : SYSTEM_ROWS <= 8 ? 128 : 256;  // threads

// `diagonal` is for what pivots have to exceed.
__device__ inline void load_system(float* lower, float* upper, float* diagonal, const element* matrix, float scale,
                                   const float* bias, float ridge) {
    for (int i = 0; i < SYSTEM_ROWS; ++i)
        for (int k = threadIdx.x; k < (i + 1) * SIDE * 4; k += SOLVERS) {
            const int j = k / (SIDE * 4), row = k / 4 % SIDE, column = k % 4 * 4;
            const int r = i * SIDE + row, c = j * SIDE + column;
            float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
            if (r < FACTORS && c < FACTORS) four = load4(matrix + tile_number(i, j) * SIDE * SIDE + row * SIDE + column);
            auto entry = [&](float a, int at) {
                const int low = min(r, at), high = max(r, at);
                return high < FACTORS ? a * scale + (low == high ? ridge : 0.0f)
                                      : high == FACTORS && low < FACTORS ? bias[low] : 0.0f;
            };
            four = {entry(four.x, c), entry(four.y, c + 1), entry(four.z, c + 2), entry(four.w, c + 3)};
            const float entries[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (r == c + e && r < FACTORS) diagonal[r] = 0x1p-21f * entries[e];
            const int to = tile_number(i, j) * TILE + row * LINE + column;
            *reinterpret_cast<float4*>(lower + to) = four;
            if (upper != lower) *reinterpret_cast<float4*>(upper + to) = four;
        }
}

// Factors a tile on the diagonal, of which this many columns belong to A; one warp, lane r < 16 with row r.
template <bool CHOLESKY>
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

// Solves x T^T = row in place, T the triangle of a tile on the diagonal.
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

// c -= a b^T for tiles, by half a warp, a thread 4 x 4 entries.
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

// Replaces the system by its factors, a tile column after another.
template <bool CHOLESKY>
__device__ inline void factor_system(float* lower, float* upper, const float* least) {
    constexpr int sides = CHOLESKY ? 1 : 2;
    auto tile = [&](int side, int i, int j) { return (side == 0 ? lower : upper) + tile_number(i, j) * TILE; };
    for (int k = 0; k < TILE_ROWS; ++k) {
        if (threadIdx.x < 32) factor_diagonal<CHOLESKY>(tile(0, k, k), tile(1, k, k), least + k * SIDE, FACTORS - k * SIDE);
        __syncthreads();
        const int rows = (SYSTEM_ROWS - 1 - k) * SIDE;
        for (int t = threadIdx.x; t < rows * sides; t += SOLVERS) {
            const int side = t / rows, row = t % rows;
            substitute(tile(side, k + 1 + row / SIDE, k) + row % SIDE * LINE, tile(1 - side, k, k));
        }
        __syncthreads();
        const int tiles = rows / SIDE, pairs = tiles * (tiles + 1) / 2;
        for (int t = threadIdx.x / SIDE; t < pairs * sides; t += SOLVERS / SIDE) {
            const int side = t / pairs;
            const Place pair = place_in_triangle(t % pairs);
            const int i = k + 1 + pair.i, j = k + 1 + pair.j;
            if (side == 0 || i > j) update(tile(side, i, j), tile(side, i, k), tile(1 - side, j, k));
        }
        __syncthreads();
    }
}

// Solves T^T x = y, y the row FACTORS of the triangle, from its last tile to its first.
__device__ inline void substitute_back(const float* triangle, float* x) {
    for (int k = threadIdx.x; k < TILE_ROWS * SIDE; k += SOLVERS)
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
        for (int c = threadIdx.x; c < i * SIDE; c += SOLVERS) {
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

// The systems of the rows, a block after another; `lower` and `upper` are the block's own.
template <bool CHOLESKY>
__device__ inline void solve_exactly(float* lower, float* upper, const element* matrices, const float* scales,
                                     const float* biases, const long long* indptr, float* solved, int n_rows,
                                     float regularization, int weighted) {
    __shared__ float x[TILE_ROWS * SIDE];
    for (int row = blockIdx.x; row < n_rows; row += gridDim.x) {
        float* const solution = solved + row * (long long)FACTORS;
        const int count = (int)(indptr[row + 1] - indptr[row]);
        if (count == 0) {
            for (int k = threadIdx.x; k < FACTORS; k += SOLVERS) solution[k] = 0.0f;
            continue;
        }
        // x holds what the pivots have to exceed until the solution takes its place.
        load_system(lower, upper, x, matrices + row * (long long)MATRIX, A_HALF ? scales[row] : 1.0f,
                    biases + row * (long long)FACTORS, weighted ? regularization * (float)count : regularization);
        __syncthreads();
        factor_system<CHOLESKY>(lower, upper, x);
        substitute_back(upper, x);
        for (int k = threadIdx.x; k < FACTORS; k += SOLVERS) solution[k] = x[k];
        __syncthreads();
    }
}

// LU and Cholesky, each with its systems in dynamic shared memory (2 SYSTEM and SYSTEM floats), or, where that is more
// than a block can have, in `workspace`, as many floats for each block.
extern "C" __global__ void __launch_bounds__(SOLVERS)
    solve_lu(const element* __restrict__ matrices, const float* __restrict__ scales, const float* __restrict__ biases,
             const long long* __restrict__ indptr, float* __restrict__ solved, int n_rows, float regularization,
             int weighted) {
    extern __shared__ __align__(16) float shared[];
    solve_exactly<false>(shared, shared + SYSTEM, matrices, scales, biases, indptr, solved, n_rows, regularization,
                         weighted);
}

extern "C" __global__ void __launch_bounds__(SOLVERS)
    solve_cholesky(const element* __restrict__ matrices, const float* __restrict__ scales,
                   const float* __restrict__ biases, const long long* __restrict__ indptr, float* __restrict__ solved,
                   int n_rows, float regularization, int weighted) {
    extern __shared__ __align__(16) float shared[];
    solve_exactly<true>(shared, shared, matrices, scales, biases, indptr, solved, n_rows, regularization, weighted);
}

extern "C" __global__ void __launch_bounds__(SOLVERS)
    solve_lu_in_global(const element* __restrict__ matrices, const float* __restrict__ scales,
                       const float* __restrict__ biases, const long long* __restrict__ indptr,
                       float* __restrict__ solved, int n_rows, float regularization, int weighted, float* workspace) {
    float* const lower = workspace + blockIdx.x * (long long)(2 * SYSTEM);
    solve_exactly<false>(lower, lower + SYSTEM, matrices, scales, biases, indptr, solved, n_rows, regularization,
                         weighted);
}

extern "C" __global__ void __launch_bounds__(SOLVERS)
    solve_cholesky_in_global(const element* __restrict__ matrices, const float* __restrict__ scales,
                             const float* __restrict__ biases, const long long* __restrict__ indptr,
                             float* __restrict__ solved, int n_rows, float regularization, int weighted,
                             float* workspace) {
    float* const lower = workspace + blockIdx.x * (long long)SYSTEM;
    solve_exactly<true>(lower, lower, matrices, scales, biases, indptr, solved, n_rows, regularization, weighted);
}

// Conjugate gradient

constexpr int CG_WARPS = (TILE_ROWS + 1) / 2;

// The sum over the block, the same bits on every thread. `scratch` has CG_WARPS floats that nobody reads any more.
__device__ inline float block_sum(float x, float* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (CG_WARPS == 1) {
        __syncwarp();  // as the barrier below: what was read before may be overwritten
        return x;
    }
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < CG_WARPS; ++w) total += scratch[w];
    return total;
}

// Row i of A times p: the row of the tiles to the left of the diagonal and on it, the column of those below it.
__device__ inline float times_row(const element* matrix, int i, const float* p) {
    const int tile_row = i / SIDE, inside = i % SIDE;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < TILE_ROWS; ++j) {
        if (j <= tile_row) {
            const element* const row = matrix + tile_number(tile_row, j) * SIDE * SIDE + inside * SIDE;
#pragma unroll
            for (int k = 0; k < SIDE; k += 4) {
                const int at = j * SIDE + k;
                if (at >= FACTORS) break;
                const float4 four = load4(row + k);
                sum += four.x * p[at];
                if (at + 1 < FACTORS) sum += four.y * p[at + 1];
                if (at + 2 < FACTORS) sum += four.z * p[at + 2];
                if (at + 3 < FACTORS) sum += four.w * p[at + 3];
            }
        } else {
            const element* const column = matrix + tile_number(j, tile_row) * SIDE * SIDE + inside;
#pragma unroll
            for (int k = 0; k < SIDE; ++k)
                if (j * SIDE + k < FACTORS) sum += value_of(column[k * SIDE]) * p[j * SIDE + k];
        }
    }
    return sum;
}

// A block a row, a thread a factor. From what `solved` holds; at most cg_steps, until the residual's length is below
// cg_tolerance.
extern "C" __global__ void __launch_bounds__(32 * CG_WARPS)
    solve_cg(const element* __restrict__ matrices, const float* __restrict__ scales, const float* __restrict__ biases,
             const long long* __restrict__ indptr, float* __restrict__ solved, int n_rows, float regularization,
             int weighted, int cg_steps, float cg_tolerance) {
    __shared__ float direction[TILE_ROWS * SIDE];
    __shared__ float scratch[2][CG_WARPS];
    const int row = blockIdx.x, i = threadIdx.x;
    const bool mine = i < FACTORS;
    float* const solution = solved + row * (long long)FACTORS;
    const int count = (int)(indptr[row + 1] - indptr[row]);
    if (count == 0) {
        if (mine) solution[i] = 0.0f;
        return;
    }
    const element* const matrix = matrices + row * (long long)MATRIX;
    const float scale = A_HALF ? scales[row] : 1.0f;
    const float ridge = weighted ? regularization * (float)count : regularization;
    auto times_a = [&](float p) {
        if (mine) direction[i] = p;
        __syncthreads();
        return mine ? scale * times_row(matrix, i, direction) + ridge * p : 0.0f;
    };

    float x = mine ? solution[i] : 0.0f;
    const float ax = times_a(x);
    float residual = mine ? biases[row * (long long)FACTORS + i] - ax : 0.0f;
    float p = residual, square = block_sum(residual * residual, scratch[0]);
    for (int step = 0; step < cg_steps && sqrtf(square) >= cg_tolerance; ++step) {
        const float ap = times_a(p), curvature = block_sum(p * ap, scratch[1]);
        if (!(curvature > 1e-37f)) break;
        const float step_length = square / curvature;
        x += step_length * p;
        residual -= step_length * ap;
        const float before = square;
        square = block_sum(residual * residual, scratch[0]);
        p = residual + square / before * p;
    }
    if (mine) solution[i] = x;
}
