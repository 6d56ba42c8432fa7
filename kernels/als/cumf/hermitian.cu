// get_hermitian: A = sum w theta theta^T of every row, and b = sum r theta on the way.
// Source: Tan et al. 2018, section 3.
//
// For every row u with ratings r over the columns S, n = |S|, and theta_v the factors of the other side, solve A x = b:
//     A = sum theta_v theta_v^T + lambda n I,  b = sum r theta_v        (lambda I alone if not weighted)
// and for implicit feedback (section 5.6; Hu, Koren, Volinsky 2008), where only ratings r > 0 are preferred,
//     A = G + sum alpha r theta_v theta_v^T + lambda_u I,  b = sum (1 + alpha r) theta_v,
//     G = Theta^T Theta over all v.
// This kernel stops before lambda, which the solvers add: bias.cu computes b alone, as published, direct.cu and cg.cu
// solve the systems.
//
// Bins of 32 theta are staged in shared memory, A is summed in registers, lower triangle only, and written once. LOAD
// is the version of the copy to shared memory (Figure 3):
//   0. coalesced: neighbouring threads read along one theta.
//   1. non-coalesced: each thread of a warp reads a theta of its own, and L1 collects the lines (the source's choice).
//   2. non-coalesced, bypassing L1: what 1 is without the cache.
//
// Changed against the source, and why:
//   - the source gives T x T = 10 x 10 entries to a thread; here 8 x 8, whose operands are four 16-byte loads, and four
//     neighbouring threads have a 16 x 16 tile, so that a warp loads few different words. Where f needs few threads,
//     several groups of threads take ratings in turn and add their sums at the end;
//   - the copies to shared memory are asynchronous: the next bin arrives while one is used;
//   - the ratings are one more column of theta, so that the sums contain b: the source reads theta twice;
//   - long rows are split into segments: an item with 232,944 ratings would keep one block busy for long, and its
//     FP32 sums would lose digits;
//   - A is stored as the 16 x 16 tiles of the lower triangle (matrix.cuh): half the bytes of the full matrix.
// Where the source is silent or slips:
//   - equations 2 to 4 have lambda inside the sum, so that it counts n times, while their right side and inverse are
//     written for one row alone; equation 1 says what is meant, and that is computed here;
//   - FP16 ends at 65504, which a row with many ratings exceeds. A is stored divided by its largest diagonal entry,
//     which bounds every entry of a positive definite matrix; lambda is added in FP32 later;
//   - a row without ratings has no system: its factors are the zero vector.
// The same bits in every run: no sum depends on the order in which blocks or threads arrive.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, all A:
//             seconds  % of roofline  gain
//     LOAD=1  0.0691   58             –
//     LOAD=2  0.0669   60             1.03 x over LOAD=1
//     LOAD=0  0.067    60             1.03 x over LOAD=1
#include "als/cumf/geometry.cuh"
#include "als/cumf/weights.cuh"
#include "common/segments.cuh"

#if !defined(LOAD) || !defined(A_HALF)
#error "compile with -DLOAD=0, 1 or 2, -DA_HALF=0 or 1"
#endif

#if A_HALF
using element = half_bits;
#else
using element = float;
#endif

constexpr int THREADS = HERMITIAN_THREADS;
constexpr int WIDTH = FACTORS % 4 == 0 ? 4 : FACTORS % 2 == 0 ? 2 : 1;  // factors copied at once
constexpr int CHUNKS = FACTORS / WIDTH;                                 // of a theta

// The position of a factor in a staged theta.
__device__ constexpr int place_of(int factor) {
    return factor / 4 % 2 * PLANE + factor / EDGE * 4 + factor % 4;
}

// The patch of a thread. First the whole tiles below the diagonal, four threads a tile, of which two by two read the
// same operands; then the three patches of each tile on the diagonal; then the last row.
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

// A pipeline of bins: ratings of bin s + 3 are read to registers while the theta of bin s + 1 are copied to shared
// memory and those of bin s are multiplied.
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
    int column;  // of this thread's rating, still in registers
    float rating;

    __device__ int ratings_of(int bin) const { return min(BIN, length - bin * BIN); }

    __device__ void read(int bin) {
        const bool valid = (int)threadIdx.x < ratings_of(bin);
        column = valid ? indices[bin * BIN + threadIdx.x] : 0;
        rating = valid ? values[bin * BIN + threadIdx.x] : 0.0f;
    }

    __device__ void store(int bin) {
        if (threadIdx.x >= BIN) return;
        columns[bin % 2][threadIdx.x] = column;
        ratings[bin % 2][threadIdx.x] = rating;
    }

    __device__ void copy(int bin) {
        const int n = ratings_of(bin), slot = bin % 2;
        // Chunk `chunk` of theta t, and the step to the next one without a division.
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
                copy_async_bypassing_l1(to, from);
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
            // The product multiplies it by the weight in A.
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

// Writes a patch to A, its row FACTORS to b, and in tiles on the diagonal its transpose to A.
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

// Grid: a block a segment. Block: HERMITIAN_THREADS, with HERMITIAN_SHARED bytes of dynamic shared memory.
// matrices, scales: A, and with A_HALF its divisor. gram: with IMPLICIT G, in the layout of A in FP32. partial:
// PATCHES * SUMS floats a slot.
extern "C" __global__ void __launch_bounds__(THREADS, HERMITIAN_BLOCKS)
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
    staging.store(0);
    staging.read(1);
    __syncthreads();
    staging.copy(0);
    staging.store(1);
    staging.read(2);
    for (int bin = 0; bin * BIN < segment.length; ++bin) {
        copy_wait<0>();
        __syncthreads();
        staging.copy(bin + 1);
        staging.store(bin + 2);
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
        __syncthreads();  // all bins are read
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
