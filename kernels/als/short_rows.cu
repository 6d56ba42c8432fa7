// ALS for rows with few ratings: conjugate gradient on A = F_S^T F_S + lambda n I that never forms A.
//
// The same steps from the same start as tensor_core.cu, which forms A: a product with it is F_S^T (F_S p). That takes
// 2 n f operations instead of f^2, and none for A itself, which pays while a row has few ratings.
//
//   - The n gathered rows of factors stay in shared memory for all products.
//   - Tensor cores multiply them by vectors. p is two columns of the right operand, its values in FP16 and their
//     rounding errors, which together have nearly the digits of FP32. So is F_S p. At the start r is two columns more:
//     one pass gives F_S^T (F_S x) and F_S^T r.
//   - p is multiplied by a power of two that keeps F_S p in range: rows of factors are shorter than 2^10, p than 2^4.
//   - p^T A p is |F_S p|^2 + lambda n |p|^2, known before F_S^T (F_S p) is. |p|^2 follows from the lengths of residuals,
//     which are orthogonal to the directions before them. So a step waits for one sum over the block.
//   - A block is a row, with a warp for each 32 ratings: the fewer warps share a row, the fewer sums and barriers.
//
// Rows with more ratings than pay are left to tensor_core.cu; see there for what the numbers mean. The same bits in every
// run.
//
// Milliseconds, H100, ratings of Netflix's shape, all users with so many ratings, by tensor_core.cu and by this kernel;
// with 64 factors or fewer the launches cost what the solutions gain:
//
//     ratings      users     100 factors    128 factors    200 factors    256 factors
//     up to 32     39,520     0.63  0.20     0.82  0.22     2.81  0.36     2.67  0.49
//     33 to 64     84,701     1.42  0.81     1.86  0.85     6.42  1.53     6.22  1.75
//     65 to 128   127,422     2.50  2.35     3.23  2.58    10.96  4.95    10.87  4.89
//     129 to 256  118,163     2.87  4.79     3.65  4.81    12.18  13.1    12.74  12.7   not taken
//
// What is left: every product reads the rows twice from shared memory, whose bandwidth is 74 to 85 % used with 100 factors
// (58 to 77 with 256, where few rows fit at a time).
#include "als/half_rows.cuh"
#include "common/segments.cuh"
#include "common/async_mma.cuh"

constexpr int STRIDE = PADDED + 8;  // halves from row to row: eight rows in different banks
constexpr int CHUNKS = PADDED / 8;  // of 16 bytes, in a row of factors
constexpr int DIRECTION_EXPONENT = 4;

using Row = half_bits[STRIDE];

template <int n>
struct __align__(16) Halves {  // at their place_of
    half_bits values[n], errors[n];

    __device__ void set(int place, float x) {
        const half_bits whole = to_half(x);
        values[place] = whole;
        errors[place] = to_half(x - from_half(whole));
    }
};

// The right operand of numbers k to k + 15 of one vector or two, in as many pairs of columns; the others are zero.
template <int vectors, int n>
__device__ __forceinline__ void load_columns(unsigned (&to)[2], const Halves<n>* from, int k, int lane) {
    to[0] = to[1] = 0;
    if (lane >= 8 * vectors) return;
    const half_bits* const column = lane / 4 % 2 ? from[lane / 8].errors : from[lane / 8].values;
    const uint2 four = *reinterpret_cast<const uint2*>(&column[k + lane % 4 * 4]);
    to[0] = four.x;
    to[1] = four.y;
}

// The exponent of a power of two that makes a vector shorter than 2^DIRECTION_EXPONENT. square: its squared length.
__device__ __forceinline__ int direction_exponent(float square) {
    return DIRECTION_EXPONENT - ((exponent_of(square) + 1) >> 1);
}

constexpr int STRIPS = 2;  // of 16 ratings, for each warp: products that do not wait for each other

// A team of WARPS warps, which is a block, for a row of up to 32 ratings a warp.
template <int WARPS>
struct Team {
    static constexpr int THREADS = 32 * WARPS, RATINGS = 16 * STRIPS * WARPS;
    static constexpr int OWN = (PADDED + THREADS - 1) / THREADS;   // numbers of a vector that a thread has
    static constexpr int OWN_TILES = (TILES + WARPS - 1) / WARPS;  // of 16 factors, of a warp
    static constexpr int ROW_LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;

    // What is in shared memory before the rows of factors.
    struct __align__(16) Vectors {
        Halves<PADDED> direction;
        Halves<RATINGS> products[2];  // F_S p, and the ratings
        float sums[2][PADDED];        // F_S^T times these
        float parts[3][WARPS];        // of sums over the block
        int columns[RATINGS];
    };

    Vectors& vectors;
    Row* const rows;
    const int thread, lane, warp;

    __device__ static Team here() {
        extern __shared__ __align__(16) float shared[];
        Vectors& vectors = *reinterpret_cast<Vectors*>(shared);
        const int i = threadIdx.x;
        // Read from lane 0, so that the compiler knows it to be uniform in the warp.
        const int warp = __shfl_sync(0xffffffffu, i / 32, 0);
        return {vectors, reinterpret_cast<Row*>(&vectors + 1), i, i % 32, warp};
    }

    __device__ static void sync() {
        if constexpr (WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    }

    // A sum over the team: give_sum, a barrier, take_sum.
    __device__ float give_sum(float x, int place) const {
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
        if (WARPS > 1 && lane == 0) vectors.parts[place][warp] = x;
        return x;
    }
    __device__ float take_sum(float x, int place) const {
        if constexpr (WARPS == 1) return x;
        x = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) x += vectors.parts[place][w];
        return x;
    }

    // vectors.products[0] = F_S p; returns the lane's part of its squared length.
    __device__ float multiply(int strips) const {
        float sums[STRIPS][4] = {};
        // Without branches between tiles, so that several are loaded ahead.
        auto multiply_strips = [&](auto count) {
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
                unsigned columns[2];
                load_columns<1>(columns, &vectors.direction, t * 16, lane);
#pragma unroll
                for (int s = 0; s < decltype(count)::value; ++s) {
                    unsigned tile[4];
                    load_matrix(tile, &rows[(s * WARPS + warp) * 16 + lane % 16][t * 16 + lane / 16 * 8]);
                    multiply_add(sums[s], tile, columns[0], columns[1]);
                }
            }
        };
        if (WARPS + warp < strips)
            multiply_strips(Number<2>{});
        else if (warp < strips)
            multiply_strips(Number<1>{});
        float square = 0.0f;
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) {
            const int strip = s * WARPS + warp;
            if (strip >= strips) break;
            if (lane % 4 == 0)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const float product = sums[s][2 * h] + sums[s][2 * h + 1];
                    vectors.products[0].set(place_of(strip * 16 + lane / 4 + h * 8), product);
                    square += product * product;
                }
        }
        return square;
    }

    // vectors.sums[v] = F_S^T vectors.products[v], of so many vectors.
    template <int count>
    __device__ void multiply_transposed(int strips) const {
        float sums[OWN_TILES][4] = {};
#pragma unroll 2
        for (int strip = 0; strip < strips; ++strip) {
            unsigned columns[2];
            load_columns<count>(columns, vectors.products, strip * 16, lane);
#pragma unroll
            for (int k = 0; k < OWN_TILES; ++k) {
                const int t = k * WARPS + warp;
                if ((k + 1) * WARPS > TILES && t >= TILES) break;
                unsigned tile[4];
                load_transposed(tile, &rows[strip * 16 + lane % 8 + lane / 16 * 8][t * 16 + lane / 8 % 2 * 8]);
                multiply_add(sums[k], tile, columns[0], columns[1]);
            }
        }
#pragma unroll
        for (int k = 0; k < OWN_TILES; ++k) {
            const int t = k * WARPS + warp;
            if ((k + 1) * WARPS > TILES && t >= TILES) break;
            if (lane % 4 < count)
#pragma unroll
                for (int h = 0; h < 2; ++h)
                    vectors.sums[lane % 4][t * 16 + lane / 4 + h * 8] = sums[k][2 * h] + sums[k][2 * h + 1];
        }
    }
};

struct Given {  // to a kernel, as to tensor_core.cu's
    const Segment* segments;
    const int* indices;
    const float* values;
    const half_bits* fixed;
    const float* unit;
    const float* largest;
    float* solved;
    float regularization;
    int weighted, cg_steps;
    float cg_tolerance;
};

template <int WARPS>
__device__ __forceinline__ void solve_row(const Given& given) {
    using Team = Team<WARPS>;
    constexpr int OWN = Team::OWN, THREADS = Team::THREADS;
    const Team team = Team::here();
    auto& vectors = team.vectors;
    const Segment segment = given.segments[blockIdx.x];
    const int n = segment.length, strips = (n + 15) / 16;
    float* const solution = given.solved + segment.row * (long long)FACTORS;
    // Calls use(factor, its number among the thread's).
    auto for_own = [&](int end, auto use) {
#pragma unroll
        for (int k = 0; k < OWN; ++k)
            if (const int i = team.thread + k * THREADS; i < end) use(i, k);
    };
    if (n == 0) {
        for_own(FACTORS, [&](int i, int) { solution[i] = 0.0f; });
        return;
    }

    const Scales scales = scales_of<false>(given.largest[segment.row], 1.0f);
    for (int t = team.thread; t < 16 * strips; t += THREADS) {
        const bool valid = t < n;
        vectors.columns[t] = valid ? given.indices[segment.begin + t] : 0;
        vectors.products[1].set(place_of(t), valid ? given.values[segment.begin + t] * scales.ratings : 0.0f);
    }
    const float per_unit = given.unit[1], to_unit = given.unit[0] * scales.ratings;
    const float ridge = (given.weighted ? given.regularization * (float)n : given.regularization) * per_unit * per_unit;
    float x[OWN] = {}, p[OWN], residual[OWN] = {}, q[OWN] = {}, length = 0.0f;
    for_own(FACTORS, [&](int i, int k) {
        x[k] = solution[i] * to_unit;
        length += x[k] * x[k];
    });
    length = team.give_sum(length, 0);
    team.sync();
    const int chunk = team.thread % Team::ROW_LANES;
    if (chunk < CHUNKS)
#pragma unroll 4
        for (int t = team.thread / Team::ROW_LANES; t < 16 * strips; t += THREADS / Team::ROW_LANES) {
            const half_bits* const from = given.fixed + vectors.columns[t] * (long long)PADDED;
            copy_async(&team.rows[t][chunk * 8], from + chunk * 8, t < n);
        }
    copy_commit();
    length = team.take_sum(length, 0);

    // The first product is A x, for the residual; each later one is a step. All vectors are zero beyond the factors.
#pragma unroll
    for (int k = 0; k < OWN; ++k) p[k] = x[k];
    float square = 0.0f, enough = 0.0f;
    copy_wait<0>();
    for (int step = 0; step <= given.cg_steps; ++step) {
        const int exponent = direction_exponent(length);
        const float scale = power_of_two(exponent), back = power_of_two(-exponent);
        for_own(PADDED, [&](int i, int k) { vectors.direction.set(place_of(i), p[k] * scale); });
        team.sync();
        const float products = team.give_sum(team.multiply(strips), 0);
        team.sync();
        if (step == 0)
            team.template multiply_transposed<2>(strips);
        else
            team.template multiply_transposed<1>(strips);
        team.sync();
        for_own(PADDED, [&](int i, int k) { q[k] = ridge * p[k] + vectors.sums[0][i] * back; });
        float right[OWN] = {}, whole = 0.0f, left = 0.0f;
        if (step == 0) {
            for_own(PADDED, [&](int i, int k) {
                right[k] = vectors.sums[1][i];
                residual[k] = right[k] - q[k];
                whole += right[k] * right[k];
            });
            whole = team.give_sum(whole, 2);
        } else {
            const float product = team.take_sum(products, 0) * back * back + ridge * length;
            if (!(product > 1e-37f)) break;
            const float alpha = square / product;
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                x[k] += alpha * p[k];
                residual[k] -= alpha * q[k];
            }
        }
#pragma unroll
        for (int k = 0; k < OWN; ++k) left += residual[k] * residual[k];
        left = team.give_sum(left, 1);
        team.sync();
        const float old = square;
        square = team.take_sum(left, 1);
        float beta = square / old;
        if (step == 0) {
            beta = 0.0f;
            whole = team.take_sum(whole, 2);
            enough = given.cg_tolerance * given.cg_tolerance * whole;
            if (!(square <= whole)) {  // start from zero; a right side of zero ends here
#pragma unroll
                for (int k = 0; k < OWN; ++k) x[k] = 0.0f, residual[k] = right[k];
                square = whole;
            }
            length = 0.0f;
        }
        if (square <= enough) break;
#pragma unroll
        for (int k = 0; k < OWN; ++k) p[k] = residual[k] + beta * p[k];
        length = square + beta * beta * length;
    }
    const float from_unit = per_unit * power_of_two(-scales.exponent);
    for_own(FACTORS, [&](int i, int k) { solution[i] = x[k] * from_unit; });
}

// Grid: a block a row, which is a segment by itself. Block: as many threads as the longest row may have ratings, with
// dynamic shared memory of a team's Vectors and as many Rows. The arguments are those of tensor_core.cu.
extern "C" __global__ void __launch_bounds__(LIMIT)
    short_rows(const Segment* __restrict__ segments, const int* __restrict__ indices, const float* __restrict__ values,
               const half_bits* __restrict__ fixed, const float* __restrict__ unit, const float* __restrict__ largest,
               float* __restrict__ solved, float regularization, int weighted, int cg_steps, float cg_tolerance) {
    solve_row<LIMIT / 32>({segments, indices, values, fixed, unit, largest, solved, regularization, weighted, cg_steps,
                           cg_tolerance});
}

// The geometry for the host. Grid: 1. Block: 1. Bytes of shared memory for each rating, and for the team.
extern "C" __global__ void shape(int* __restrict__ row_bytes, int* __restrict__ team_bytes) {
    *row_bytes = sizeof(Row);
    *team_bytes = sizeof(Team<LIMIT / 32>::Vectors);
}
