// ALS for rows with few ratings: conjugate gradient on A = F_S^T F_S + lambda n I that never forms A.
//
// The same steps from the same start as tensor_core.cu, which forms A: a product with it is F_S^T (F_S p). That takes
// 2 n f operations instead of f^2, and none for A itself, which pays while a row has few ratings.
//
//   - Tensor cores multiply the n gathered rows by vectors. p is two columns of the right operand, its values in FP16
//     and their rounding errors, which together have nearly the digits of FP32. So is F_S p. At the start the ratings r
//     are multiplied too: F_S^T r.
//   - p is multiplied by a power of two that keeps F_S p in range: rows of factors are shorter than 2^10, p than 2^4.
//   - p^T A p is |F_S p|^2 + lambda n |p|^2, known before F_S^T (F_S p) is. |p|^2 follows from the lengths of
//     residuals, which are orthogonal to the directions before them.
//   - A warp has 32 ratings and multiplies them alone. Their tiles stay in its registers as they are; transposed ones
//     are read from shared memory for each product: with both in registers, fewer warps would run at a time.
//   - F_S p does not leave the registers of the warp: shuffles make it the right operand of the next product.
//   - A block is a row at a time, with a warp for each 32 of its ratings. Every warp has all of x, p and the residual,
//     and computes the same: a step has one barrier, for F_S^T (F_S p), which the warps add in their order.
//   - There are as many blocks as run at a time, and each solves one row after another: the indices of the next row
//     arrive meanwhile.
//
// Rows with more ratings than pay are left to tensor_core.cu; see there for what the numbers mean. The same bits in
// every run.
#include "als/half_rows.cuh"
#include "common/segments.cuh"
#include "common/async_mma.cuh"

constexpr int STRIPS = 2, RATINGS = 16 * STRIPS;  // of a warp, which fetches 16 ratings or 32
constexpr int WARPS = LIMIT / RATINGS;            // of a block
constexpr int STRIDE = PADDED + 8;                // halves from row to row: eight rows in different banks
constexpr int CHUNKS = PADDED / 8;                // of 16 bytes, in a row of factors
constexpr int ROW_LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
constexpr int GROUPS = (TILES + 3) / 4, OWN = 2 * GROUPS;  // of four tiles; numbers of a vector that a lane has
constexpr int DIRECTION_EXPONENT = 4;

// Warps that a multiprocessor has registers for: as many on each of its four schedulers.
constexpr int RESIDENT = TILES <= 8 ? 16 : TILES <= 13 ? 12 : 8;
static_assert(RATINGS == 32 && LIMIT % RATINGS == 0 && WARPS <= RESIDENT);

// Where row t begins. Eight halves more in every second eight: rows 0, 8, 2, 10, 4, ... are in different banks, too.
__device__ __forceinline__ int row_at(int t) { return t * STRIDE + t / 8 * 8; }

struct __align__(16) Direction {  // at their place_of
    half_bits values[PADDED], errors[PADDED];

    __device__ void set(int place, float x) {
        const half_bits whole = to_half(x);
        values[place] = whole;
        errors[place] = to_half(x - from_half(whole));
    }
};

struct Head {  // the first bytes of a Segment
    long long begin;
    int length, row;
};

// What a warp has in shared memory.
struct __align__(16) Room {
    half_bits rows[RATINGS * (STRIDE + 1)];  // of factors
    Direction direction;
    Head heads[2];  // of this row and the next, in turn
    float start[OWN][32];
    float ratings[RATINGS];
    float largest;
};

// What the warps of a block give each other: of a step in places 0 and 1 in turn, as a warp may be a step ahead of
// those that still read. Sums are in the order of the warps.
struct __align__(16) Meeting {
    float2 parts[3][WARPS][GROUPS][32];
    float squares[2][WARPS];

    __device__ __forceinline__ void give(int place, int warp, int lane, const float (&from)[OWN]) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) parts[place][warp][g][lane] = {from[2 * g], from[2 * g + 1]};
    }
    __device__ __forceinline__ void take(int place, int lane, float (&to)[OWN]) const {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            float2 sum = parts[place][0][g][lane];
#pragma unroll
            for (int w = 1; w < WARPS; ++w) {
                const float2 part = parts[place][w][g][lane];
                sum = {sum.x + part.x, sum.y + part.y};
            }
            to[2 * g] = sum.x;
            to[2 * g + 1] = sum.y;
        }
    }
    __device__ __forceinline__ float square(int place) const {
        float sum = squares[place][0];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum += squares[place][w];
        return sum;
    }
};

// A sum over lanes whose numbers differ by a multiple of `first`.
template <int first = 1>
__device__ __forceinline__ float sum_over_lanes(float x) {
#pragma unroll
    for (int offset = 16; offset >= first; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

// Of two numbers, the values or their rounding errors.
__device__ __forceinline__ unsigned halves_of(float low, float high, bool errors) {
    if (errors) {
        const unsigned values = to_halves(low, high);
        low -= from_half(half_bits(values));
        high -= from_half(half_bits(values >> 16));
    }
    return to_halves(low, high);
}

// A right operand, of 16 ratings: even columns are a vector's values, odd ones their rounding errors. Rows are the
// ratings 0, 8, 2, 10, 4, 12, 6, 14, 1, 9, ..., as products leave them.
using Columns = unsigned[2];

// The factors of a warp's ratings.
struct Tiles {
    const half_bits* rows;
    int lane;
    unsigned kept[STRIPS][TILES][4];

    template <int strips>
    __device__ __forceinline__ void keep() {
#pragma unroll
        for (int s = 0; s < strips; ++s)
#pragma unroll
            for (int t = 0; t < TILES; ++t)
                load_matrix(kept[s][t], &rows[row_at(s * 16 + lane % 16) + t * 16 + lane / 16 * 8]);
    }

    // products = F_S p, as right operands; returns the lane's part of its squared length.
    template <int strips>
    __device__ __forceinline__ float multiply(const Direction& direction, Columns (&products)[STRIPS]) const {
        float sums[strips][4] = {};
        const half_bits* const from = (lane / 4 % 2 ? direction.errors : direction.values) + lane % 4 * 4;
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
            const uint2 four = *reinterpret_cast<const uint2*>(&from[t * 16]);
#pragma unroll
            for (int s = 0; s < strips; ++s) multiply_add(sums[s], kept[s][t], four.x, four.y);
        }
        float square = 0.0f;
#pragma unroll
        for (int s = 0; s < strips; ++s) {
            float product[2];  // of ratings lane / 4 and lane / 4 + 8, the same in four lanes
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                product[h] = sums[s][2 * h] + sums[s][2 * h + 1];
                square += product[h] * product[h];
            }
            const unsigned own = halves_of(product[0], product[1], lane % 2);
            const int source = lane % 4 * 8 + lane / 4 % 2;
#pragma unroll
            for (int h = 0; h < 2; ++h) products[s][h] = __shfl_sync(0xffffffffu, own, source + 4 * h);
        }
        return square;
    }

    // result = F_S^T times a vector. Of four tiles each takes two columns: a lane has the sums of one of them.
    template <int strips>
    __device__ __forceinline__ void multiply_transposed(const Columns (&columns)[STRIPS], float (&result)[OWN]) const {
        float sums[GROUPS][4] = {};
        const half_bits* const from = &rows[row_at((lane % 8 & ~1) + lane % 2 * 8 + lane / 16) + lane / 8 % 2 * 8];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const bool taken = lane / 8 == c;
#pragma unroll
            for (int s = 0; s < strips; ++s) {
                const Columns own = {taken ? columns[s][0] : 0, taken ? columns[s][1] : 0};
#pragma unroll
                for (int t = c; t < TILES; t += 4) {
                    unsigned tile[4];
                    load_transposed(tile, &from[row_at(s * 16) + t * 16]);  // its columns in the order of Columns
                    multiply_add(sums[t / 4], tile, own[0], own[1]);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < OWN; ++k) result[k] = sums[k / 2][k % 2 * 2] + sums[k / 2][k % 2 * 2 + 1];
    }
};

// Calls use(Number<n>) for the n strips that have ratings, if any.
template <class Use>
__device__ __forceinline__ void for_strips(int strips, Use use) {
    if (strips == STRIPS) use(Number<STRIPS>{});
    if (strips == 1) use(Number<1>{});
}

// Grid: as many blocks as run at a time, or fewer; a row is a segment by itself. Block: WARPS warps, with dynamic
// shared memory of a Meeting and a Room for each warp. Other arguments are tensor_core.cu's.
extern "C" __global__ void __launch_bounds__(32 * RESIDENT)
    short_rows(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
               const float* __restrict__ values, const half_bits* __restrict__ fixed, const float* __restrict__ unit,
               const float* __restrict__ largest, float* __restrict__ solved, float regularization, int weighted,
               int cg_steps, float cg_tolerance) {
    extern __shared__ __align__(16) float shared[];
    Meeting& meeting = *reinterpret_cast<Meeting*>(shared);
    const int lane = threadIdx.x % 32;
    // Read from lane 0, so that the compiler knows it to be uniform in the warp.
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    Room& room = reinterpret_cast<Room*>(&meeting + 1)[warp];
    const int first = warp * RATINGS;                    // rating of a row that is the warp's
    const int own = place_of(lane % 4 * 16 + lane / 4);  // of the lane's first factor
    auto sync = [] {
        if constexpr (WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    };
    // Calls use(factor, k) for the lane's numbers k of a vector.
    auto for_own = [&](int end, auto use) {
#pragma unroll
        for (int k = 0; k < OWN; ++k)
            if (const int i = (k / 2 * 4 + lane % 4) * 16 + lane / 4 + k % 2 * 8; i < end) use(i, k);
    };
    auto column_of = [&](const Head& head) {  // of the lane's rating
        return first + lane < head.length ? indices[head.begin + first + lane] : 0;
    };
    auto fetch_head = [&](int turn, int number) {
        if (lane == 0 && number < n_segments) copy_async<16>(&room.heads[turn], &segments[number]);
    };
    // Starts to fetch what a row needs; column: column_of its head.
    auto fetch = [&](const Head& head, int column) {
        constexpr int TOGETHER = 32 / ROW_LANES;  // rows
        const int n = head.length - first, chunk = lane % ROW_LANES, mine = lane / ROW_LANES;
        const uint4* const from = reinterpret_cast<const uint4*>(fixed);  // fewer than 2^32: 64 GB
        half_bits* const to = room.rows + row_at(mine) + chunk * 8;
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) {
            if (s * 16 >= n) break;
#pragma unroll
            for (int t = s * 16; t < s * 16 + 16; t += TOGETHER) {
                const unsigned of = __shfl_sync(0xffffffffu, column, t + mine);
                if (chunk < CHUNKS) copy_async(to + row_at(t), &from[of * CHUNKS + chunk], t + mine < n);
            }
        }
        if (lane < n) copy_async<4>(&room.ratings[lane], &values[head.begin + first + lane]);
        const float* const start = solved + head.row * (long long)FACTORS;
        for_own(FACTORS, [&](int i, int k) { copy_async<4>(&room.start[k][lane], &start[i]); });
        if (lane == 0) copy_async<4>(&room.largest, &largest[head.row]);
    };

    fetch_head(0, blockIdx.x);
    fetch_head(1, blockIdx.x + (int)gridDim.x);
    copy_commit();
    copy_wait<0>();
    __syncwarp();
    fetch(room.heads[0], column_of(room.heads[0]));
    copy_commit();
    const float per_unit = unit[1], unit_of_ratings = unit[0];
    int turn = 0;
    for (int number = blockIdx.x; number < n_segments; number += (int)gridDim.x, turn ^= 1) {
        copy_wait<0>();
        __syncwarp();
        const int n = room.heads[turn].length, row = room.heads[turn].row;
        const int strips = max(0, min((n - first + 15) / 16, STRIPS));
        const bool more = number + (int)gridDim.x < n_segments;
        const int column = more ? column_of(room.heads[turn ^ 1]) : 0;

        Tiles tiles;
        tiles.rows = room.rows;
        tiles.lane = lane;
        for_strips(strips, [&](auto count) { tiles.template keep<decltype(count)::value>(); });
        const Scales scales = scales_of<false>(room.largest, 1.0f);
        auto ratings_as_columns = [&](Columns(&columns)[STRIPS]) {
#pragma unroll
            for (int s = 0; s < STRIPS; ++s)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int t = s * 16 + lane % 4 * 2 + h;
                    const float low = first + t < n ? room.ratings[t] * scales.ratings : 0.0f;
                    const float high = first + t + 8 < n ? room.ratings[t + 8] * scales.ratings : 0.0f;
                    columns[s][h] = halves_of(low, high, lane / 4 % 2);
                }
        };
        const float ridge = (weighted ? regularization * (float)n : regularization) * per_unit * per_unit;
        float x[OWN] = {}, p[OWN] = {}, residual[OWN], length = 0.0f;
        const float to_unit = unit_of_ratings * scales.ratings;
        for_own(FACTORS, [&](int, int k) {
            x[k] = p[k] = room.start[k][lane] * to_unit;
            length += x[k] * x[k];
        });
        length = sum_over_lanes(length);

        // q = A p. At the start also right = F_S^T r. Returns |F_S p|^2. All vectors are zero beyond the factors.
        float q[OWN], right[OWN] = {};
        auto multiply = [&](auto start, int place) {
            constexpr bool at_start = decltype(start)::value;
            const int exponent = DIRECTION_EXPONENT - ((exponent_of(length) + 1) >> 1);
            const float scale = power_of_two(exponent), back = power_of_two(-exponent);
            for_own(PADDED, [&](int, int k) { room.direction.set(own + k / 2 * 64 + k % 2 * 2, p[k] * scale); });
            __syncwarp();
            float square = 0.0f;
#pragma unroll
            for (int k = 0; k < OWN; ++k) q[k] = 0.0f;
            for_strips(strips, [&](auto count) {
                constexpr int of = decltype(count)::value;
                Columns columns[STRIPS];
                square = tiles.template multiply<of>(room.direction, columns);
                tiles.template multiply_transposed<of>(columns, q);
                if constexpr (at_start) {
                    ratings_as_columns(columns);
                    tiles.template multiply_transposed<of>(columns, right);
                }
            });
            square = sum_over_lanes<4>(square);
            if constexpr (WARPS > 1) {
                meeting.give(place, warp, lane, q);
                if constexpr (at_start) meeting.give(2, warp, lane, right);
                if (lane == 0) meeting.squares[place][warp] = square;
            }
            sync();  // with one warp, because the direction has been read
            if constexpr (WARPS > 1) {
                meeting.take(place, lane, q);
                if constexpr (at_start) meeting.take(2, lane, right);
                square = meeting.square(place);
            }
#pragma unroll
            for (int k = 0; k < OWN; ++k) q[k] = ridge * p[k] + q[k] * back;
            return square * back * back;
        };

        float square = 0.0f, enough = 0.0f;
        multiply(Number<true>{}, 0);
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            residual[k] = right[k] - q[k];
            square += residual[k] * residual[k];
            enough += right[k] * right[k];
        }
        square = sum_over_lanes(square);
        const float whole = sum_over_lanes(enough);
        enough = cg_tolerance * cg_tolerance * whole;
        if (!(square <= whole) || n == 0) {  // start from zero; a right side of zero ends here
#pragma unroll
            for (int k = 0; k < OWN; ++k) x[k] = 0.0f, residual[k] = right[k];
            square = whole;
        }
#pragma unroll
        for (int k = 0; k < OWN; ++k) p[k] = residual[k];
        length = square;
        for (int step = 1; step <= cg_steps && !(square <= enough); ++step) {
            const float product = multiply(Number<false>{}, step % 2) + ridge * length;
            if (!(product > 1e-37f)) break;
            const float alpha = __fdividef(square, product), old = square;
            square = 0.0f;
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                x[k] += alpha * p[k];
                residual[k] -= alpha * q[k];
                square += residual[k] * residual[k];
            }
            square = sum_over_lanes(square);
            const float beta = __fdividef(square, old);
#pragma unroll
            for (int k = 0; k < OWN; ++k) p[k] = residual[k] + beta * p[k];
            length = square + beta * beta * length;
        }
        // What the warp had in its room for this row has been read before the last sum over the warps.
        if (more) fetch(room.heads[turn ^ 1], column);
        fetch_head(turn, number + 2 * (int)gridDim.x);
        copy_commit();
        if (warp == 0) {
            const float from_unit = per_unit * power_of_two(-scales.exponent);
            float* const solution = solved + row * (long long)FACTORS;
            for_own(FACTORS, [&](int i, int k) { solution[i] = x[k] * from_unit; });
        }
        sync();  // what the warps gave each other has been read
    }
}

// The geometry for the host. Grid: 1. Block: 1. Warps of a block, and those that a multiprocessor has registers for;
// bytes of shared memory of a block.
extern "C" __global__ void shape(int* __restrict__ warps, int* __restrict__ resident, int* __restrict__ bytes) {
    *warps = WARPS;
    *resident = RESIDENT;
    *bytes = sizeof(Meeting) + WARPS * sizeof(Room);
}
