// ALS on the tensor cores: gather in half precision, multiply, and solve, without the matrix leaving the chip.
//
// For every row with ratings r over columns S, solve (F_S^T F_S + lambda n I) x = F_S^T r as in als/thesis.cu.
// With IMPLICIT (Hu, Koren and Volinsky 2008; cumf, section 5.6): (F^T F + sum w f f^T + lambda I) x = sum (1 + w) f
// with w = alpha r over the ratings above zero, and F^T F, over all columns, from the kernel `gram`.
//
// Version tensor_core: what it changes against thesis_shared and cumf's kernels, and why.
//   - The other side's factors are gathered as FP16 rows, half the bytes, by copies that do not wait.
//   - F_S^T F_S is a matrix product over the ratings: tensor cores make it, 16 ratings at a time, FP32 sums in
//     registers. A tile of F loaded transposed is at once the left operand of its tile row and the right one of its
//     tile column; each warp has a compact patch of tiles on and below the diagonal, so that it loads few for many.
//     Which ones is known when the kernel is compiled: between two products there is no branch.
//   - F_S^T r is one more product with the left operands that are there: r and the rest that half precision leaves of
//     it are two columns of its right operand.
//   - A team of warps works on a segment of a row. Long rows have many segments: each leaves its sums in global memory
//     and the last one to arrive adds them, in order, so that a popular item does not keep one team busy while the
//     rest of the GPU is idle. The segments come longest first.
//   - Half precision is a matter of digits, never of range. The factors of the other side are divided by the power of
//     two that brings the largest near the top, and a row's ratings by one of their own. With IMPLICIT both operands of
//     A are multiplied by sqrt(w), and the right side, which then has factors (1 + w) / sqrt(w), is made from the same
//     rounded numbers: what is solved is an exact normal system of factors that are off by 2^-11, however far apart the
//     weights of a row are. All is divided by a power of four from the row's largest weight, F^T F in FP32.
//   - The system is solved where it is made (cumf, section 4: conjugate gradient, few steps, from the last epoch's
//     solution), with the matrix in the registers in which the tensor cores have left it: a lane multiplies its
//     entries by the vector, once as they are and once transposed, and sums over lanes and warps follow. Where zero
//     leaves a smaller residual than the solution before, it starts from zero.
// The same bits in every run: no sum depends on the order in which teams arrive.
// What it gains is measured in book/als_versions.ipynb.
#include "common/segments.cuh"
#include "common/tensor.cuh"

#if !defined(FACTORS) || !defined(IMPLICIT) || !defined(STAGE_ROWS)
#error "compile with -DFACTORS=f, -DIMPLICIT=0 or 1, -DSTAGE_ROWS=64, or 32 for less shared memory"
#endif

constexpr int TILES = (FACTORS + 15) / 16;
constexpr int PADDED = TILES * 16;           // columns of a row of factors in half precision
constexpr int ALL = TILES * (TILES + 1) / 2;  // tiles on and below the diagonal

// At most nine tiles a warp, for its registers, and a thread a factor.
constexpr int WARPS = (ALL + 8) / 9 > (PADDED + 31) / 32 ? (ALL + 8) / 9 : (PADDED + 31) / 32;
constexpr int THREADS = 32 * WARPS;         // of a team
constexpr int TEAMS = WARPS == 1 ? 4 : 1;   // in a block, each on its own: a multiprocessor holds few blocks
constexpr int MOST = (ALL + WARPS - 1) / WARPS;  // tiles of a warp

constexpr int STAGE = WARPS == 1 ? 32 : STAGE_ROWS;  // ratings fetched together
constexpr int AHEAD = 1;                     // stages under way while one is used
constexpr int STAGES = AHEAD + 2;
constexpr int STRIDE = PADDED + 8;  // halves from row to row of a stage: eight rows meet no bank twice
constexpr int CHUNKS = PADDED / 8;  // of 16 bytes, in a row of factors
constexpr int ROW_LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
constexpr int ROWS = THREADS / ROW_LANES;              // copied at a time
constexpr int COPIES = (STAGE + ROWS - 1) / ROWS;  // rows, one after another, of which a thread copies a chunk each
constexpr int READS = (STAGE + THREADS - 1) / THREADS;

// Numbers that are types, for loops of which every round is compiled on its own.
template <int n>
struct Number {
    static constexpr int value = n;
};
template <int n, int k = 0, class Use>
__device__ __forceinline__ void for_each(Use use) {
    if constexpr (k < n) {
        use(Number<k>{});
        for_each<n, k + 1>(use);
    }
}

// Who has what: tiles ALL w / WARPS to ALL (w + 1) / WARPS - 1 are warp w's, and done in that order.
struct Plan {
    int row[ALL], column[ALL];               // of a tile
    bool new_row[ALL], new_column[ALL];      // the warp has had no earlier tile in that row, in that column,
    bool known_row[ALL], known_column[ALL];  // but has met these factors as those of a column, of a row
    bool last_row[ALL], last_column[ALL];    // no later tiles in that row, in that column off the diagonal
    int right_warp[TILES], right_place[TILES];  // that multiplies these factors by the ratings; where its sums are
    int rights;                                 // of the warp that has the most
};
__device__ constexpr int first_tile(int warp) { return ALL * warp / WARPS; }
__device__ constexpr int n_tiles(int warp) { return first_tile(warp + 1) - first_tile(warp); }

__device__ constexpr Plan make_plan() {
    Plan plan = {};
    // Down one pair of columns, up the next: tiles next to each other share rows and columns.
    int k = 0;
    for (int first = 0; first < TILES; first += 2)
        for (int step = 0; step < TILES - first; ++step) {
            const int row = first / 2 % 2 ? TILES - 1 - step : first + step;
            for (int column = first; column < first + 2 && column <= row; ++column) {
                plan.row[k] = row;
                plan.column[k++] = column;
            }
        }
    bool rows[WARPS][TILES] = {}, columns[WARPS][TILES] = {};
    for (int w = 0; w < WARPS; ++w)
        for (k = first_tile(w); k < first_tile(w + 1); ++k) {
            const int row = plan.row[k], column = plan.column[k];
            plan.new_row[k] = !rows[w][row];
            plan.known_row[k] = columns[w][row];
            rows[w][row] = true;
            plan.new_column[k] = !columns[w][column];
            plan.known_column[k] = rows[w][column];
            columns[w][column] = true;
            plan.last_row[k] = true;
            plan.last_column[k] = row != column;
            for (int j = k + 1; j < first_tile(w + 1); ++j) {
                if (plan.row[j] == row) plan.last_row[k] = false;
                if (plan.column[j] == column && plan.row[j] != column) plan.last_column[k] = false;
            }
        }
    // The products with the ratings go to warps that have the factors as left operands, to each about as many.
    int n[WARPS] = {};
    for (int t = 0; t < TILES; ++t) {
        int chosen = -1;
        for (int w = 0; w < WARPS; ++w)
            if (rows[w][t] && (chosen < 0 || n[w] < n[chosen])) chosen = w;
        plan.right_warp[t] = chosen;
        plan.right_place[t] = n[chosen]++;
        if (n[chosen] > plan.rights) plan.rights = n[chosen];
    }
    return plan;
}
constexpr Plan PLAN = make_plan();

// Calls use(Number<w>) for this thread's warp w of the team.
template <int w = 0, class Use>
__device__ __forceinline__ void as_warp(int warp, Use use) {
    if constexpr (w + 1 < WARPS)
        if (warp != w) return as_warp<w + 1>(warp, use);
    use(Number<w>{});
}

// What a thread holds of the sums, in quads as the tensor cores make them: lane's share of the warp's 16 x 16 tiles, two
// of 16 x 8 each; then of F_S^T r, 16 x 8 of which two columns are used.
constexpr int TILE_QUADS = 2 * MOST, QUADS = TILE_QUADS + PLAN.rights;
using Sums = float[QUADS][4];
using Quads = float4[QUADS][THREADS];  // the sums of a team in global memory

// About what a thread needs besides, when the products are made: operands, addresses. On Hopper teams of one warp are
// faster with fewer, since more of them run; on other architectures they would spill.
#if __CUDA_ARCH__ == 900
constexpr int BESIDES = WARPS == 1 ? 48 : 64;
#else
constexpr int BESIDES = 64;
#endif
constexpr int REGISTERS = 4 * QUADS + BESIDES + 16 * IMPLICIT;
constexpr int BLOCKS = REGISTERS * THREADS * TEAMS < 65536 ? 65536 / (REGISTERS * THREADS * TEAMS) : 1;

// Shared memory of a team.

using Stage = half_bits[STAGE][STRIDE];
struct Ratings {  // of a stage
    half_bits right[2][STAGE];  // the right side's values, and the rest of them
#if IMPLICIT
    half_bits roots[STAGE];  // of the weights
#endif
    int columns[STAGE];
};
struct __align__(16) Buffers {
    Stage stages[STAGES];
    Ratings ratings[STAGES + 1];  // those of the next stage but one are written while a slow warp has not used its last
};
struct Solver {
    float direction[PADDED];
    float right[PADDED];
    float parts[2][WARPS][PADDED];  // of a product, by rows and by columns of the warps' tiles
    float sums[2][WARPS];
};
union __align__(16) Work {
    Buffers buffers;
    Solver solver;  // when the stages have been used up
};

struct Team {
    Work& work;
    bool& last;
    int thread, warp, lane;

    __device__ static Team here() {
        extern __shared__ __align__(16) float shared[];
        __shared__ bool last[TEAMS];
        const int team = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
        // Read from lane 0, the warp is known to be one number for all lanes: branches on it need no care.
        const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
        return {reinterpret_cast<Work*>(shared)[team], last[team], thread, warp, (int)threadIdx.x % 32};
    }

    __device__ static int index() { return blockIdx.x * TEAMS + threadIdx.x / THREADS; }

    __device__ void sync() const {
        if (WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    }
};

// Powers of two.
__device__ __forceinline__ float power_of_two(int exponent) { return __uint_as_float((unsigned)(127 + exponent) << 23); }
// The least e >= -100 with x < 2^e, for x >= 0.
__device__ __forceinline__ int exponent_of(float x) { return max((int)(__float_as_uint(x) >> 23) - 126, -100); }

// Rounded factors are below 2^6, scaled ratings below 2^8, square roots of scaled weights below 2^4: the products of two
// fit half precision, and the dot products of the solver FP32, for rows of millions of ratings.
constexpr int FACTOR_EXPONENT = 6, RATING_EXPONENT = IMPLICIT ? 4 : 8;

// The columns and values of a row's ratings, and the factors that the columns point to.
struct Rows {
    const int* indices;
    const float* values;
    const half_bits* fixed;
    float scale;  // of the ratings; IMPLICIT: of their square roots, to those of the scaled weights
    float root;   // IMPLICIT: of what the pair of row and column weighs without a rating, scaled alike
};

// The ratings of a segment on their way to the tensor cores, a stage after another: the ratings of stage s + AHEAD + 2
// are read while the factors of stage s + AHEAD are copied and those of stage s are multiplied.
struct Pipeline {
    const Team& team;
    const Rows& rows;
    long long begin;
    int length;
    int column[READS];  // of this thread's ratings, read but not yet used
    float value[READS];

    __device__ Stage& stage(int s) const { return team.work.buffers.stages[s % STAGES]; }
    __device__ Ratings& ratings(int s) const { return team.work.buffers.ratings[s % (STAGES + 1)]; }

    __device__ void read(int s) {
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = team.thread + k * THREADS, rating = s * STAGE + t;
            const bool valid = t < STAGE && rating < length;
            column[k] = valid ? rows.indices[begin + rating] : 0;
            value[k] = valid ? rows.values[begin + rating] : 0.0f;
        }
    }

    __device__ void keep(int s) {
        Ratings& to = ratings(s);
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = team.thread + k * THREADS;
            if (t >= STAGE) break;
            float right = value[k];
#if IMPLICIT
            // A weight below 2^-12 counts as 2^-12, beside the 1 that it is added to, so that its factors keep digits.
            const float scaled = rows.scale * rows.scale * max(value[k], 0.0f);  // alpha r, scaled
            const float least = max(rows.root * 0x1p-6f, 0x1p-24f);
            const bool seen = value[k] > 0.0f;
            const half_bits root = to_half(max(scaled * rsqrtf(max(scaled, 0x1p-100f)), least));
            to.roots[t] = seen ? root : 0;
            right = seen ? __fdividef(rows.root * rows.root + scaled, from_half(root)) : 0.0f;
#else
            right *= rows.scale;
#endif
            const half_bits whole = to_half(right);
            to.columns[t] = column[k];
            to.right[0][t] = whole;
            to.right[1][t] = to_half(right - from_half(whole));
        }
    }

    __device__ void copy(int s) {
        const int chunk = team.thread % ROW_LANES, first = team.thread / ROW_LANES * COPIES;
        const int left = min(STAGE, length - s * STAGE);
        if (chunk < CHUNKS && first < STAGE) {
            const char* const from = reinterpret_cast<const char*>(rows.fixed) + chunk * 16;
            half_bits* const row = stage(s)[first] + chunk * 8;
            const int* const columns = ratings(s).columns + first;
            auto copy_row = [&](int k, bool valid) {
                copy_async(row + k * STRIDE, from + columns[k] * (long long)(2 * PADDED), valid);
            };
            if (first + COPIES <= left) {
#pragma unroll
                for (int k = 0; k < COPIES; ++k) copy_row(k, true);
            } else {
                const int end = min(COPIES, (left + 15) / 16 * 16 - first);  // of what is multiplied, zeros at its end
                for (int k = 0; k < end; ++k) copy_row(k, first + k < left);
            }
        }
        copy_commit();
    }

    __device__ void finish() {
        copy_wait<AHEAD>();
        team.sync();
    }
};

// Adds the products of ratings k to k + 15 of a stage to the sums of a warp.
template <int warp>
__device__ __forceinline__ void multiply(Number<warp>, Sums& sums, const Stage& stage, const Ratings& given, int k,
                                         int lane) {
    // The same four 8 x 8 parts, in the order in which left and in which right operands want them in registers.
    const half_bits* as_left = &stage[k + lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];
    const half_bits* as_right = &stage[k + lane % 16][lane / 16 * 8];
    unsigned ratings[2] = {};
    for (int h = 0; h < 2 && lane < 8; ++h)
        ratings[h] = *reinterpret_cast<const unsigned*>(&given.right[lane / 4][k + h * 8 + lane % 4 * 2]);
#if IMPLICIT
    unsigned roots[2];
    for (int h = 0; h < 2; ++h)
        roots[h] = *reinterpret_cast<const unsigned*>(&given.roots[k + h * 8 + lane % 4 * 2]);
#endif
    unsigned left[TILES][4], right[TILES][4];
    // `step`: from one of a tile's four registers to the next with the same ratings.
    auto load = [&](unsigned (&to)[4], const half_bits* from, auto step) {
        load_transposed(to, from);
#if IMPLICIT
#pragma unroll
        for (int j = 0; j < 4; ++j) to[j] = multiply_halves(to[j], roots[step.value == 1 ? j / 2 : j % 2]);
#endif
    };
    auto reorder = [](unsigned (&to)[4], const unsigned (&from)[4]) {
        to[0] = from[0], to[1] = from[2], to[2] = from[1], to[3] = from[3];
    };
    for_each<n_tiles(warp)>([&](auto n) {
        constexpr int tile = first_tile(warp) + n.value, row = PLAN.row[tile], column = PLAN.column[tile];
        if constexpr (PLAN.new_row[tile]) {
            if constexpr (PLAN.known_row[tile])
                reorder(left[row], right[row]);
            else
                load(left[row], as_left + row * 16, Number<1>{});
            constexpr int place = TILE_QUADS + PLAN.right_place[row];
            if constexpr (PLAN.right_warp[row] == warp) multiply_add(sums[place], left[row], ratings[0], ratings[1]);
        }
        if constexpr (PLAN.new_column[tile]) {
            if constexpr (PLAN.known_column[tile])
                reorder(right[column], left[column]);
            else
                load(right[column], as_right + column * 16, Number<2>{});
        }
        multiply_add(sums[2 * n.value], left[row], right[column][0], right[column][1]);
        multiply_add(sums[2 * n.value + 1], left[row], right[column][2], right[column][3]);
    });
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int k = 0; k < QUADS * 4; ++k) sums[k / 4][k % 4] = 0.0f;
}

__device__ __forceinline__ void add(float (&quad)[4], float4 more) {
    quad[0] += more.x;
    quad[1] += more.y;
    quad[2] += more.z;
    quad[3] += more.w;
}

// Sums up the segment's products, and those of the row's other segments if it has several: then only the last team to
// arrive returns true, and has them all.
__device__ __forceinline__ bool sum_products(Sums& sums, const Team& team, const Segment& segment, const Rows& rows,
                                    Quads* partial, int* arrived) {
    clear(sums);
    const int n_stages = (segment.length + STAGE - 1) / STAGE;
    Pipeline pipeline = {team, rows, segment.begin, segment.length};
#pragma unroll
    for (int s = 0; s <= AHEAD; ++s) {
        pipeline.read(s);
        pipeline.keep(s);
    }
    pipeline.read(AHEAD + 1);
    team.sync();
#pragma unroll
    for (int s = 0; s < AHEAD; ++s) pipeline.copy(s);
    for (int s = 0; s < n_stages; ++s) {
        pipeline.copy(s + AHEAD);
        pipeline.keep(s + AHEAD + 1);
        pipeline.read(s + AHEAD + 2);
        pipeline.finish();
        const Stage& stage = pipeline.stage(s);
        const Ratings& given = pipeline.ratings(s);
        const int here = min(STAGE, segment.length - s * STAGE);
        as_warp(team.warp, [&](auto warp) {
#pragma unroll 1  // the next round's operands would not fit into the registers
            for (int k = 0; k < here; k += 16) multiply(warp, sums, stage, given, k, team.lane);
        });
    }
    copy_wait<0>();
    team.sync();
    if (segment.parts == 1) return true;

    Quads* const parts = partial + segment.slot;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) parts[segment.part][q][team.thread] = {sums[q][0], sums[q][1], sums[q][2], sums[q][3]};
    if (!last_of_row(segment, arrived, team.thread, team.last, [&] { team.sync(); })) return false;
    clear(sums);
#pragma unroll
    for (int first = 0; first < QUADS; first += 4)  // as many as a thread has registers for on their way
        for (int part = 0; part < segment.parts; ++part)
#pragma unroll
            for (int q = first; q < first + 4 && q < QUADS; ++q) add(sums[q], __ldcg(&parts[part][q][team.thread]));
    return true;
}

// A warp's part of F_S^T r to where the team sees it.
template <int warp>
__device__ __forceinline__ void store_right(Number<warp>, const Sums& sums, Solver& solver, int lane) {
    for_each<TILES>([&](auto t) {
        constexpr int place = PLAN.right_place[t.value];
        if constexpr (PLAN.right_warp[t.value] == warp) {
            const float(&right)[4] = sums[TILE_QUADS + place];
            for (int h = 0; h < 2; ++h)
                if (lane % 4 == 0)
                    solver.right[t.value * 16 + lane / 4 + h * 8] = right[2 * h] + right[2 * h + 1];
        }
    });
}

// A sum over lanes of which the even ones by `bit` are to have that of the first, the others of the second number.
__device__ __forceinline__ float exchange(float first, float second, int lane, int bit) {
    const float given = lane & bit ? first : second;
    return (lane & bit ? second : first) + __shfl_xor_sync(0xffffffffu, given, bit);
}

// What a warp's tiles and their mirror images make of the direction: to `parts`.
template <int warp>
__device__ __forceinline__ void multiply_vector(Number<warp>, const Sums& sums, Solver& solver, int lane) {
    float of_row[TILES][2], of_column[TILES][4];  // of the direction, as a lane's entries of a tile lie in it
    float by_row[TILES][2], by_column[TILES][4];
    for_each<n_tiles(warp)>([&](auto n) {
        constexpr int tile = first_tile(warp) + n.value, row = PLAN.row[tile], column = PLAN.column[tile];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if constexpr (PLAN.new_row[tile]) {
                of_row[row][h] = solver.direction[row * 16 + h * 8 + lane / 4];
                by_row[row][h] = 0.0f;
            }
            if constexpr (PLAN.new_column[tile]) {
                const float* const from = &solver.direction[column * 16 + h * 8 + lane % 4 * 2];
                const float2 two = *reinterpret_cast<const float2*>(from);
                of_column[column][2 * h] = two.x;
                of_column[column][2 * h + 1] = two.y;
                by_column[column][2 * h] = by_column[column][2 * h + 1] = 0.0f;
            }
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float entry = sums[2 * n.value + e / 4][e % 4];
            const int i = e / 2 % 2, j = e / 4 * 2 + e % 2;
            by_row[row][i] += entry * of_column[column][j];
            if constexpr (row != column) by_column[column][j] += entry * of_row[row][i];
        }
        if constexpr (PLAN.last_row[tile]) {
            float sum = exchange(by_row[row][0], by_row[row][1], lane, 2);
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            if (lane % 2 == 0) solver.parts[0][warp][row * 16 + lane / 4 + lane / 2 % 2 * 8] = sum;
        }
        if constexpr (PLAN.last_column[tile]) {
            const float(&y)[4] = by_column[column];
            float sum = exchange(exchange(y[0], y[2], lane, 16), exchange(y[1], y[3], lane, 16), lane, 8);
            sum += __shfl_xor_sync(0xffffffffu, sum, 4);
            if (lane / 4 % 2 == 0)
                solver.parts[1][warp][column * 16 + lane % 4 * 2 + lane / 16 * 8 + lane / 8 % 2] = sum;
        }
    });
}

// The sum over the team, the same bits on every thread. `scratch` is nobody's yet.
__device__ __forceinline__ float team_sum(float x, const Team& team, float (&scratch)[WARPS]) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (WARPS == 1) return x;
    if (team.lane == 0) scratch[team.warp] = x;
    team.sync();
    x = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) x += scratch[w];
    return x;
}

// Conjugate gradient from x on the matrix in the sums; thread i has x_i and returns it.
__device__ __forceinline__ float solve(Sums& sums, const Team& team, float x, float ridge, int steps, float tolerance) {
    Solver& solver = team.work.solver;
    const int i = team.thread;
    for (int k = i; k < 2 * WARPS * PADDED; k += THREADS) (&solver.parts[0][0][0])[k] = 0.0f;  // some stay so
    as_warp(team.warp, [&](auto warp) { store_right(warp, sums, solver, team.lane); });
    // The first product is with x itself, for the residual; each later one makes a step. All vectors are zero beyond the
    // factors, as the sums are.
    float p = x, residual = 0.0f, square = 0.0f, enough = 0.0f;
    for (int step = 0; step <= steps; ++step) {
        if (i < PADDED) solver.direction[i] = p;
        team.sync();
        as_warp(team.warp, [&](auto warp) { multiply_vector(warp, sums, solver, team.lane); });
        team.sync();
        float q = ridge * p;
        if (i < PADDED) {
#pragma unroll
            for (int w = 0; w < WARPS; ++w) q += solver.parts[0][w][i] + solver.parts[1][w][i];
        }
        const float b = i < FACTORS ? solver.right[i] : 0.0f;
        const float product = team_sum(step == 0 ? b * b : p * q, team, solver.sums[0]);
        if (step == 0) {
            residual = b - q;
            enough = tolerance * tolerance * product;
        } else {
            if (!(product > 1e-37f)) break;
            const float alpha = square / product;
            x += alpha * p;
            residual -= alpha * q;
        }
        const float old = square;
        square = team_sum(residual * residual, team, solver.sums[1]);
        if (step == 0 && !(square <= product)) {  // from zero then, which a right side of zero ends with
            x = 0.0f;
            residual = b;
            square = product;
        }
        if (square <= enough) break;
        p = residual + (step == 0 ? 0.0f : square / old * p);
    }
    return x;
}

// A team a segment. Dynamic shared memory: Work for each team of the block. `largest` has for each row the magnitude
// of its largest rating (IMPLICIT: its largest, or 0), `unit` the power of two that `fixed` is divided by, and its
// reciprocal. The last argument is for IMPLICIT.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, BLOCKS)
    tensor_core(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
                const float* __restrict__ values, const half_bits* __restrict__ fixed, const float* __restrict__ unit,
                const float* __restrict__ largest, float* __restrict__ solved, Quads* __restrict__ partial,
                int* __restrict__ arrived, float regularization, int weighted, int cg_steps, float cg_tolerance,
                float root_of_alpha, const Quads* __restrict__ gram) {
    if (Team::index() >= n_segments) return;
    const Team team = Team::here();
    const Segment segment = segments[Team::index()];
    const int i = team.thread;
    const bool mine = i < FACTORS;
    // Read long before it is used.
    float x = mine && segment.count > 0 ? solved[segment.row * (long long)FACTORS + i] : 0.0f;
#if IMPLICIT
    const int exponent = RATING_EXPONENT - max(exponent_of(root_of_alpha * sqrtf(largest[segment.row])), 0);
    const float root = power_of_two(exponent);
    const Rows rows = {indices, values, fixed, root_of_alpha * root, root};
#else
    const int exponent = RATING_EXPONENT - exponent_of(largest[segment.row]);
    const Rows rows = {indices, values, fixed, power_of_two(exponent), 1.0f};
#endif
    Sums sums;
    if (!sum_products(sums, team, segment, rows, partial, arrived)) return;
    const float per_unit = unit[1], ratings = IMPLICIT ? 1.0f : power_of_two(exponent);
    float ridge = weighted ? regularization * (float)segment.count : regularization;
    ridge = ridge * per_unit * per_unit * (rows.root * rows.root);
#if IMPLICIT
#pragma unroll
    for (int q = 0; q < TILE_QUADS; ++q) {
        const float4 all = (*gram)[q][i];
        const float scale = root * root;
        add(sums[q], {scale * all.x, scale * all.y, scale * all.z, scale * all.w});
    }
#endif
    if (segment.count > 0) {
        x = solve(sums, team, x * unit[0] * ratings, ridge, cg_steps, cg_tolerance);
        x = x * per_unit * (IMPLICIT ? 1.0f : power_of_two(-exponent));
    }
    if (mine) solved[segment.row * (long long)FACTORS + i] = x;
}

// F^T F in the order in which the teams' threads want it, from a row of all columns with ratings of 1.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, 1)
    gram(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
         const float* __restrict__ values, const half_bits* __restrict__ fixed, Quads* __restrict__ partial,
         int* __restrict__ arrived, Quads* __restrict__ product) {
    if (Team::index() >= n_segments) return;
    const Team team = Team::here();
    const Rows rows = {indices, values, fixed, 1.0f, 1.0f};  // a weight of 1 changes no bit
    Sums sums;
    if (!sum_products(sums, team, segments[Team::index()], rows, partial, arrived)) return;
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
        (*product)[q][team.thread] = {sums[q][0], sums[q][1], sums[q][2], sums[q][3]};
}

// The largest of what the block's threads give, to all of them.
__device__ inline float block_max(float x) {
    __shared__ float of_warps[32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) x = max(x, of_warps[w]);
    return x;
}

// For each row the magnitude of its largest rating, or with IMPLICIT its largest rating, where `largest` was 0. A warp
// a segment.
extern "C" __global__ void largest_ratings(const Segment* __restrict__ segments, int n_segments,
                                           const float* __restrict__ values, unsigned* __restrict__ largest) {
    const int warp = (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    if (warp >= n_segments) return;
    const Segment segment = segments[warp];
    float most = 0.0f;
    for (int t = threadIdx.x % 32; t < segment.length; t += 32) {
        const float value = values[segment.begin + t];
        most = max(most, IMPLICIT ? value : fabsf(value));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, offset));
    // Of numbers that are not negative the bits have the same order.
    if (threadIdx.x % 32 == 0) atomicMax(&largest[segment.row], __float_as_uint(most));
}

// For each block the magnitude of the largest factor that it came across.
extern "C" __global__ void largest_factors(const float* __restrict__ factors, int n_rows, float* __restrict__ largest) {
    float most = 0.0f;
    const long long step = gridDim.x * (long long)blockDim.x;
#pragma unroll 4
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n_rows * (long long)FACTORS; k += step)
        most = max(most, fabsf(factors[k]));
    most = block_max(most);
    if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

// FP32 rows, divided by the power of two in `unit`, to padded rows of halves, zeros in the padding. `unit` brings the
// largest factor, which is among the n in `largest`, near the top, unless all are so small against lambda that FP32
// would not hold their ratio.
extern "C" __global__ void round_factors(const float* __restrict__ factors, half_bits* __restrict__ rounded, int n_rows,
                                         const float* __restrict__ largest, int n, float regularization,
                                         float* __restrict__ unit) {
    float most = 0.0f;
    for (int k = threadIdx.x; k < n; k += blockDim.x) most = max(most, largest[k]);
    const int least = (exponent_of(regularization) - 24) / 2;
    const int exponent = max(exponent_of(block_max(most)) - FACTOR_EXPONENT, least);
    const float scale = power_of_two(-exponent);
    const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    if (first == 0) unit[0] = power_of_two(exponent), unit[1] = scale;
#pragma unroll 4
    for (long long k = first; k < n_rows * (long long)PADDED; k += step) {
        const int column = (int)(k % PADDED);
        rounded[k] = column < FACTORS ? to_half(scale * factors[k / PADDED * FACTORS + column]) : 0;
    }
}

// What the launcher has to know: threads and teams of a block, bytes of a team, PADDED, bytes of a part's sums.
extern "C" __global__ void shape(int* __restrict__ numbers) {
    numbers[0] = THREADS * TEAMS;
    numbers[1] = TEAMS;
    numbers[2] = sizeof(Work);
    numbers[3] = PADDED;
    numbers[4] = sizeof(Quads);
}
