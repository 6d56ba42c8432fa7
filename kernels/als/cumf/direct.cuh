// A symmetric positive definite system factored and solved by the threads of a block, or of a team in it, by tiles, LU or
// Cholesky.
//
// The system is A with b as row FACTORS, in padded tiles, `lower`; eliminating that row with the others is the forward
// substitution. For LU there is a second set, `upper`, with U transposed: both are then lower triangles, and each is
// updated with the other's tiles. For Cholesky they are the same. Diagonals store reciprocals.
// A pivot that FP32 leaves at 0, below, or within rounding of its diagonal entry, as of a row with few ratings and
// small lambda, counts as infinite: its reciprocal and its unknown are 0, and the other unknowns compensate.
#pragma once
#include "als/cumf/geometry.cuh"

#ifndef CHOLESKY
#error "compile with -DCHOLESKY=0 or 1"
#endif

// Whether b has tiles of its own, of which it is the first row and nothing else is used; the rows of tiles else.
constexpr bool B_APART = FACTORS % SIDE == 0;
constexpr int WITH_TILES = SYSTEM_ROWS - B_APART;

// What the functions below are told of the threads that share a system: this one's number among them, and their barrier.
struct WholeBlock {
    int thread;
    __device__ static WholeBlock here() { return {(int)threadIdx.x}; }
    __device__ static void sync() { __syncthreads(); }
};

// Copies A and b, each with what is added to it, to the system's tiles; least = 2^-21 of the diagonal, which pivots
// have to exceed. added(i, j), j <= i: to A, and with i = FACTORS to b. rated: else A and b are zero, and not read.
template <class Added>
__device__ inline void load_system(float* lower, float* upper, float* least, const float* matrix, const float* bias,
                                   bool rated, Added added) {
    for (int i = 0; i < SYSTEM_ROWS; ++i)
        for (int k = threadIdx.x; k < (i + 1) * SIDE * 4; k += DIRECT_THREADS) {
            const int j = k / (SIDE * 4), row = k / 4 % SIDE, column = k % 4 * 4;
            const int r = i * SIDE + row, c = j * SIDE + column;
            float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
            if (rated && r < FACTORS && c < FACTORS)
                four = load4(matrix + tile_number(i, j) * SIDE * SIDE + row * SIDE + column);
            auto entry = [&](float a, int at) {
                const int low = min(r, at), high = max(r, at);
                if (high > FACTORS || low == FACTORS) return 0.0f;
                return (high < FACTORS ? a : rated ? bias[low] : 0.0f) + added(high, low);
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
__device__ inline void factor_diagonal(int r, float* lower, float* upper, const float* least, int columns) {
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

// Factors the system in place, tile column by tile column. Team: of so many threads, whole warps, as WholeBlock.
template <int threads, class Team>
__device__ inline void factor_system(float* lower, float* upper, const float* least, const Team& team) {
    constexpr int sides = CHOLESKY ? 1 : 2;
    auto tile = [&](int side, int i, int j) { return (side == 0 ? lower : upper) + tile_number(i, j) * TILE; };
    for (int k = 0; k < TILE_ROWS; ++k) {
        if (team.thread < 32)
            factor_diagonal(team.thread, tile(0, k, k), tile(1, k, k), least + k * SIDE, FACTORS - k * SIDE);
        team.sync();
        const int tiles = WITH_TILES - 1 - k, rows = tiles * SIDE + B_APART;
        for (int t = team.thread; t < rows * sides; t += threads) {
            const int side = t / rows, row = t % rows;
            substitute(tile(side, k + 1 + row / SIDE, k) + row % SIDE * LINE, tile(1 - side, k, k));
        }
        team.sync();
        const int pairs = tiles * (tiles + 1) / 2;
        for (int t = team.thread / SIDE; t < pairs * sides; t += threads / SIDE) {
            const int side = t / pairs;
            const Place pair = place_in_triangle(t % pairs);
            const int i = k + 1 + pair.i, j = k + 1 + pair.j;
            if (side == 0 || i > j) update(tile(side, i, j), tile(side, i, k), tile(1 - side, j, k));
        }
        for (int t = team.thread; B_APART && t < tiles * SIDE * sides; t += threads) {
            const int side = t / (tiles * SIDE), j = k + 1 + t / SIDE % tiles, column = t % SIDE;
            const float* const y = tile(side, TILE_ROWS, k);
            const float* const row = tile(1 - side, j, k) + column * LINE;
            float sum = 0.0f;
#pragma unroll
            for (int e = 0; e < SIDE; ++e) sum += y[e] * row[e];
            tile(side, TILE_ROWS, j)[column] -= sum;
        }
        team.sync();
    }
}

// x with T^T x = y + noise(k), y = row FACTORS of the triangle, from the last tile to the first.
template <int threads, class Team, class Noise>
__device__ inline void substitute_back(const float* triangle, float* x, const Team& team, Noise noise) {
    const float* const y = triangle + FACTORS % SIDE * LINE;
    for (int k = team.thread; k < TILE_ROWS * SIDE; k += threads)
        x[k] = k < FACTORS ? y[tile_number(FACTORS / SIDE, k / SIDE) * TILE + k % SIDE] + noise(k) : 0.0f;
    team.sync();
    for (int i = TILE_ROWS - 1; i >= 0; --i) {
        if (team.thread < 32) {
            const int lane = team.thread;
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
        team.sync();
        for (int c = team.thread; c < i * SIDE; c += threads) {
            const float* const column = triangle + tile_number(i, c / SIDE) * TILE + c % SIDE;
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < SIDE; ++k)
                if (i * SIDE + k < FACTORS) sum += column[k * LINE] * x[i * SIDE + k];
            x[c] -= sum;
        }
        team.sync();
    }
}
