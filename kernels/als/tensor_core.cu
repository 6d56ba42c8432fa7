// ALS on the tensor cores: gather in half precision, multiply, and solve, without the matrix leaving the chip.
//
// For every row with ratings r over columns S, solve (F_S^T F_S + lambda n I) x = F_S^T r as in als/thesis.cu.
// With IMPLICIT (Hu, Koren and Volinsky 2008; cumf, section 5.6): (F^T F + sum w f f^T + ridge I) x = sum (1 + w) f
// with w = alpha |r|, on the right over the ratings above zero, and F^T F, over all columns, from the kernel `gram`.
//
// What it changes against thesis_shared and cumf's kernels, and why:
//   - The other side's factors are gathered as FP16 rows, half the bytes, by asynchronous copies.
//   - F_S^T F_S is a matrix product over the ratings, computed by tensor cores, 16 ratings at a time, with FP32 sums in
//     registers. A tile of F loaded transposed serves both as the left operand of its tile row and as the right operand
//     of its tile column; each warp has a compact patch of tiles on and below the diagonal (plan.cuh), so that it loads
//     few operands for many products. The plan is a compile-time constant: between two products there is no branch.
//   - F_S^T r is one more product with left operands that are loaded anyway: r in FP16 and its rounding error are two
//     columns of the right operand.
//   - A team of warps takes a segment of a row. Long rows have many segments: each stores its sums in global memory and
//     the last one to arrive adds them, in order, so that a popular item does not occupy one team while the rest of the
//     GPU is idle. The segments are sorted, longest first.
//   - Half precision limits digits, not range (half_rows.cuh). With IMPLICIT both operands of A are multiplied by
//     sqrt(w), and the right side, with weights (1 + w) / sqrt(w), is computed from the same rounded numbers: the system
//     is the exact normal system of factors with relative errors of 2^-11, however different the weights of a row are.
//     All is divided by a power of four from the row's largest weight, F^T F in FP32.
//   - The system is solved in the registers where the tensor cores leave it (cumf, section 4: conjugate gradient, few
//     steps, from the solution of the last epoch): a lane multiplies its entries by the vector, also transposed, and
//     sums over lanes and warps follow. Where zero has a smaller residual than that solution, it starts from zero.
//   - A block that has a multiprocessor for itself (from 193 factors on) takes segments one after another and fetches the
//     next one's first stages while it solves.
// The same bits in every run: no sum depends on the order in which teams arrive.
// What it gains over cumf's kernels is measured in book/gpumf/als_versions.ipynb. An iteration of explicit ALS, ratings of
// Netflix's shape, H100, medians of 10 in milliseconds; % of roofline is of reading a row of factors in half precision
// for each rating, in the order of the ratings:
//
//     factors                                              64    100    128    200    256
//     all of the above                                    8.6   18.2   22.8   70.4   81.0
//     columns of all copies loaded before the first       8.4   17.7   21.6   66.4   74.2
//     rows of up to 128 ratings left to short_rows.cu       -   16.9   20.0   54.7   62.6
//     % of roofline                                        59     47     39     31     30
//
// What is left: instructions. Two to four warps a scheduler wait for each other's conjugate gradient and copies; tensor
// pipes are a third busy, shared memory three quarters at 100 factors, global memory a quarter.
#include "als/plan.cuh"
#include "common/segments.cuh"
#include "common/async_mma.cuh"

#if !defined(FACTORS) || !defined(IMPLICIT) || !defined(STAGE_ROWS)
#error "compile with -DFACTORS=f, -DIMPLICIT=0 or 1, -DSTAGE_ROWS=64, or 32 for less shared memory"
#endif

// A block that has a multiprocessor for itself takes segments one after another, and fetches the next one's ratings and
// factors while it solves: no other block would meanwhile.
constexpr bool PERSISTENT = BLOCKED;

constexpr int THREADS = 32 * WARPS;         // of a team
constexpr int TEAMS = WARPS == 1 ? 4 : 1;   // independent teams of a block: the number of resident blocks is limited

constexpr int STAGE = WARPS == 1 ? 32 : STAGE_ROWS;  // ratings fetched together
// Stages being copied while one is used; where blocks are PERSISTENT, while a row is solved too.
#if __CUDA_ARCH__ < 800 && defined(__CUDA_ARCH__)  // copies are not asynchronous
constexpr int AHEAD = 1;
#else
constexpr int AHEAD = PERSISTENT ? 3 : 1;
#endif
constexpr int STAGES = AHEAD + 2;
constexpr int CHUNKS = PADDED / 8;  // of 16 bytes, in a row of factors
constexpr int ROW_LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
constexpr int ROWS = THREADS / ROW_LANES;              // copied at a time
constexpr int COPIES = (STAGE + ROWS - 1) / ROWS;  // consecutive rows of which a thread copies a chunk
constexpr int READS = (STAGE + THREADS - 1) / THREADS;

// A thread's sums, in quads as the tensor cores distribute them: the lane's share of the warp's 16 x 16 tiles, two of
// 16 x 8 each; then of F_S^T r, 16 x 8 of which two columns are used.
constexpr int QUADS = PLAN.quads;
using Sums = float[QUADS][4];
using Quads = float4[QUADS][THREADS];  // the sums of a team in global memory

// Registers of a thread in addition to its sums: operands, addresses. On Hopper teams of one warp are faster with
// fewer, since more of them are resident; on other architectures they would spill.
#if __CUDA_ARCH__ == 900
constexpr int OTHER_REGISTERS = WARPS == 1 ? 48 : TILES == 12 ? 56 : 64;
#else
constexpr int OTHER_REGISTERS = 64;
#endif
constexpr int REGISTERS = 4 * QUADS + OTHER_REGISTERS + 16 * IMPLICIT;
constexpr int BLOCKS = REGISTERS * THREADS * TEAMS < 65536 ? 65536 / (REGISTERS * THREADS * TEAMS) : 1;

// Shared memory of a team.

using Stage = half_bits[STAGE][PADDED + 8];  // eight rows in different banks
struct Ratings {  // of a stage
    half_bits right[2][STAGE];  // the right side's values in FP16, and their rounding errors
#if IMPLICIT
    half_bits roots[STAGE];  // of the weights
#endif
    int columns[STAGE];
};
struct __align__(16) Buffers {
    Stage stages[STAGES];
    Ratings ratings[STAGES + 1];  // one more: written while a slow warp still reads its last stage
};
struct Solver {
    float direction[PADDED];
    float right[PADDED];
    float parts[PARTS][PADDED];  // of a product, see part_of
    float sums[2][WARPS];
};
union __align__(16) OneAfterTheOther {
    Buffers buffers;
    Solver solver;  // after the last stage
};
struct __align__(16) Together {
    Buffers buffers;
    Solver solver;
};
template <bool together>
struct WorkOf {
    using Type = OneAfterTheOther;
};
template <>
struct WorkOf<true> {
    using Type = Together;
};
using Work = WorkOf<PERSISTENT>::Type;

struct Team {
    Work& work;
    bool& last;
    int thread, warp, lane;
    int origins[2];  // see `origin`

    __device__ static Team here() {
        extern __shared__ __align__(16) float shared[];
        __shared__ bool last[TEAMS];
        const int team = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
        // Read from lane 0, so that the compiler knows it to be uniform in the warp.
        const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
        return {reinterpret_cast<Work*>(shared)[team], last[team],           thread, warp,
                (int)threadIdx.x % 32,                 {origin(warp, false), origin(warp, true)}};
    }

    // The 16 factors that are number t of the warp's body.
    template <int t>
    __device__ int row() const {
        return t + origins[t >= FIRST];
    }

    __device__ static int index() { return blockIdx.x * TEAMS + threadIdx.x / THREADS; }

    __device__ void sync() const {
        if (WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    }
};

// The columns and values of all ratings, and the factors that the columns point to.
struct Rows {
    const int* indices;
    const float* values;
    const half_bits* fixed;
};

// The segments that a PERSISTENT block works on, from `next` on, and what their scales depend on.
struct List {
    const Segment* segments;
    int next, n_segments;
    const float* largest;  // of each row
    float root_of_alpha;
};

// A pipeline of stages: ratings of stage s + AHEAD + 2 are read to registers while the factors of stage s + AHEAD are
// copied to shared memory and those of stage s are multiplied. Where blocks are PERSISTENT it goes on from segment to
// segment, with a stage at least of each.
struct Pipeline {
    const Team& team;
    Rows rows;
    Scales scales;    // of the row that is read
    long long begin;  // of its segment; PERSISTENT: of the stage
    int length;       // of its segment; PERSISTENT: from the stage on
    List list;
    int used;            // PERSISTENT: stages, of all segments so far
    Segment coming;      // PERSISTENT: loaded early, to hide the latency
    int column[READS];  // of this thread's ratings, in registers
    float value[READS];

    __device__ Stage& stage(int s) const { return team.work.buffers.stages[s % STAGES]; }
    __device__ Ratings& ratings(int s) const { return team.work.buffers.ratings[s % (STAGES + 1)]; }

    // PERSISTENT: `left` of stage s, for all threads.
    __device__ static int& shared_left(int s) {
        __shared__ int left[STAGES + 1];
        return left[s % (STAGES + 1)];
    }

    // The ratings of the segment of stage s from that stage on.
    __device__ int left(int s) const {
        if constexpr (PERSISTENT)
            return shared_left(s);
        else
            return length - s * STAGE;
    }

    __device__ void load_coming() {
        coming.length = 0;
        if (list.next < list.n_segments) coming = list.segments[list.next];
    }

    // To the next stage that is read.
    __device__ void advance() {
        if (length > STAGE) {
            begin += STAGE;
            length -= STAGE;
            return;
        }
        begin = coming.begin;
        length = coming.length;
        if (list.largest && list.next < list.n_segments)
            scales = scales_of<IMPLICIT>(list.largest[coming.row], list.root_of_alpha);
        list.next += gridDim.x;
        load_coming();
    }

    __device__ void read(int s) {
        if constexpr (PERSISTENT) advance();
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = team.thread + k * THREADS, rating = (PERSISTENT ? 0 : s * STAGE) + t;
            const bool valid = t < STAGE && rating < length;
            column[k] = valid ? rows.indices[begin + rating] : 0;
            value[k] = valid ? rows.values[begin + rating] : 0.0f;
        }
    }

    __device__ void store(int s) {
        Ratings& to = ratings(s);
        if constexpr (PERSISTENT)
            if (team.thread == 0) shared_left(s) = length;
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = team.thread + k * THREADS;
            if (t >= STAGE) break;
            float right = value[k];
#if IMPLICIT
            // Weights below 2^-12 count as 2^-12, small against the 1 that is added, so that FP16 has digits for their
            // root.
            const float scaled = scales.ratings * scales.ratings * fabsf(value[k]);  // alpha |r|, scaled
            const float least = max(scales.root * 0x1p-6f, 0x1p-24f);
            const bool seen = value[k] != 0.0f;
            const half_bits root = to_half(max(scaled * rsqrtf(max(scaled, 0x1p-100f)), least));
            to.roots[t] = seen ? root : 0;
            right = value[k] > 0.0f ? __fdividef(scales.root * scales.root + scaled, from_half(root)) : 0.0f;
#else
            right *= scales.ratings;
#endif
            const half_bits whole = to_half(right);
            to.columns[t] = column[k];
            to.right[0][t] = whole;
            to.right[1][t] = to_half(right - from_half(whole));
        }
    }

    __device__ void copy(int s) {
        const int chunk = team.thread % ROW_LANES, first = team.thread / ROW_LANES * COPIES;
        const int left = min(STAGE, this->left(s));
        if (chunk < CHUNKS && first < STAGE) {
            const char* const from = reinterpret_cast<const char*>(rows.fixed) + chunk * 16;
            int columns[COPIES];  // of all before any is copied: no load is moved across a copy, and each takes a while
#pragma unroll
            for (int k = 0; k < COPIES; ++k) columns[k] = ratings(s).columns[first + k];
            auto copy_row = [&](int k, bool valid) {
                copy_async(stage(s)[first + k] + chunk * 8, from + columns[k] * (long long)(2 * PADDED), valid);
            };
            if (first + COPIES <= left) {
#pragma unroll
                for (int k = 0; k < COPIES; ++k) copy_row(k, true);
            } else {
                const int padded = (left + 15) / 16 * 16;  // to whole products, with zeros
#pragma unroll
                for (int k = 0; k < COPIES; ++k)
                    if (first + k < padded) copy_row(k, first + k < left);
            }
        }
        copy_commit();
    }

    // The first stages, before any is used.
    __device__ void start() {
#pragma unroll
        for (int s = 0; s <= AHEAD; ++s) {
            read(s);
            store(s);
        }
        read(AHEAD + 1);
        team.sync();
#pragma unroll
        for (int s = 0; s < AHEAD; ++s) copy(s);
    }

    // Stage s can be used.
    __device__ void step(int s) {
        copy(s + AHEAD);
        store(s + AHEAD + 1);
        read(s + AHEAD + 2);
        copy_wait<AHEAD>();
        team.sync();
    }
};

// sums += the products of ratings k to k + 15 of a stage, for one warp's tiles.
template <int body>
__device__ __forceinline__ void multiply(Number<body>, Sums& sums, const Stage& stage, const Ratings& given, int k,
                                         const Team& team) {
    const int lane = team.lane;
    // The same four 8 x 8 parts, in the register order of left and of right operands.
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
    unsigned left[OPERANDS][4], right[OPERANDS][4];
    // step: distance between two of a tile's four registers with the same ratings.
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
    auto times_ratings = [&](auto t) {
        if constexpr (PLAN.right_place[body][t.value] >= 0)
            multiply_add(sums[right_quad(body, t.value)], left[t.value], ratings[0], ratings[1]);
    };
    for_each<n_tiles(body)>([&](auto n) {
        constexpr int tile = PLAN.first[body] + n.value, row = PLAN.row[tile], column = PLAN.column[tile];
        if constexpr (PLAN.new_row[tile]) {
            if constexpr (PLAN.known_row[tile])
                reorder(left[row], right[row]);
            else
                load(left[row], as_left + team.row<row>() * 16, Number<1>{});
            if constexpr (!BLOCKED) times_ratings(Number<row>{});
        }
        if constexpr (PLAN.new_column[tile]) {
            if constexpr (PLAN.known_column[tile])
                reorder(right[column], left[column]);
            else
                load(right[column], as_right + team.row<column>() * 16, Number<2>{});
        }
        multiply_add(sums[2 * n.value], left[row], right[column][0], right[column][1]);
        multiply_add(sums[2 * n.value + 1], left[row], right[column][2], right[column][3]);
    });
    if constexpr (BLOCKED)
        if (has_ratings(team.warp)) for_each<OPERANDS>(times_ratings);
}

__device__ __forceinline__ void clear(float (&quad)[4]) { quad[0] = quad[1] = quad[2] = quad[3] = 0.0f; }

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) clear(sums[q]);
}

__device__ __forceinline__ void add(float (&quad)[4], float4 more) {
    quad[0] += more.x;
    quad[1] += more.y;
    quad[2] += more.z;
    quad[3] += more.w;
}

// sums = the segment's products; for a row of several segments, those of the whole row in the last team to arrive,
// which alone returns true.
__device__ __forceinline__ bool sum_products(Sums& sums, Pipeline& pipeline, const Segment& segment, Quads* partial,
                                             int* arrived) {
    const Team& team = pipeline.team;
    clear(sums);
    auto use = [&](int s) {
        pipeline.step(s);
        const Stage& stage = pipeline.stage(s);
        const Ratings& given = pipeline.ratings(s);
        const int here = min(STAGE, pipeline.left(s));
        as_warp(team.warp, [&](auto body) {
#pragma unroll 1  // operands of two rounds exceed the registers
            for (int k = 0; k < here; k += 16) multiply(body, sums, stage, given, k, team);
        });
    };
    if constexpr (PERSISTENT) {
        do use(pipeline.used);
        while (pipeline.left(pipeline.used++) > STAGE);
    } else {
        const int n_stages = (segment.length + STAGE - 1) / STAGE;
        pipeline.start();
        for (int s = 0; s < n_stages; ++s) use(s);
        copy_wait<0>();
        team.sync();
    }
    if (segment.parts == 1) return true;

    Quads* const parts = partial + segment.slot;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) parts[segment.part][q][team.thread] = {sums[q][0], sums[q][1], sums[q][2], sums[q][3]};
    if (!last_of_row(segment, arrived, team.thread, team.last, [&] { team.sync(); })) return false;
    clear(sums);
#pragma unroll
    for (int first = 0; first < QUADS; first += 4)  // four loads pending at a time, limited by registers
        for (int part = 0; part < segment.parts; ++part)
#pragma unroll
            for (int q = first; q < first + 4 && q < QUADS; ++q) add(sums[q], __ldcg(&parts[part][q][team.thread]));
    return true;
}

template <int body>
__device__ __forceinline__ void clear_right(Number<body>, Sums& sums) {
#pragma unroll
    for (int q = 2 * n_tiles(body); q < QUADS; ++q) clear(sums[q]);
}

// solver.right = F_S^T r, the part of one warp.
template <int body>
__device__ __forceinline__ void store_right(Number<body>, const Sums& sums, Solver& solver, const Team& team) {
    if (!has_ratings(team.warp)) return;
    for_each<OPERANDS>([&](auto t) {
        if constexpr (PLAN.right_place[body][t.value] >= 0) {
            const float(&right)[4] = sums[right_quad(body, t.value)];
            for (int h = 0; h < 2; ++h)
                if (team.lane % 4 == 0)
                    solver.right[team.row<t.value>() * 16 + team.lane / 4 + h * 8] = right[2 * h] + right[2 * h + 1];
        }
    });
}

// A step of two sums over lanes at once: lanes without `bit` continue with the first number, lanes with it with the
// second.
__device__ __forceinline__ float exchange(float first, float second, int lane, int bit) {
    const float given = lane & bit ? first : second;
    return (lane & bit ? second : first) + __shfl_xor_sync(0xffffffffu, given, bit);
}

// solver.parts = the products of a warp's tiles and of their transposes with the direction p. Returns the lane's part of
// p^T A p.
template <int body>
__device__ __forceinline__ float multiply_vector(Number<body>, const Sums& sums, Solver& solver, const Team& team) {
    const int lane = team.lane;
    float square = 0.0f;
    // The direction at the rows and columns of a lane's entries.
    float of_row[OPERANDS][2], of_column[OPERANDS][4];
    float by_row[OPERANDS][2], by_column[OPERANDS][4];
    float* const of_tiles = solver.parts[part_of(team.warp, false)];
    float* const of_transposes = solver.parts[part_of(team.warp, true)];
    for_each<n_tiles(body)>([&](auto n) {
        constexpr int tile = PLAN.first[body] + n.value, row = PLAN.row[tile], column = PLAN.column[tile];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if constexpr (PLAN.new_row[tile]) {
                of_row[row][h] = solver.direction[team.row<row>() * 16 + h * 8 + lane / 4];
                by_row[row][h] = 0.0f;
            }
            if constexpr (PLAN.new_column[tile]) {
                const float* const from = &solver.direction[team.row<column>() * 16 + h * 8 + lane % 4 * 2];
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
            square += by_row[row][0] * of_row[row][0] + by_row[row][1] * of_row[row][1];
            float sum = exchange(by_row[row][0], by_row[row][1], lane, 2);
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            if (lane % 2 == 0) of_tiles[team.row<row>() * 16 + lane / 4 + lane / 2 % 2 * 8] = sum;
        }
        if constexpr (PLAN.last_column[tile]) {
            const float(&y)[4] = by_column[column];
#pragma unroll
            for (int e = 0; e < 4; ++e) square += y[e] * of_column[column][e];
            float sum = exchange(exchange(y[0], y[2], lane, 16), exchange(y[1], y[3], lane, 16), lane, 8);
            sum += __shfl_xor_sync(0xffffffffu, sum, 4);
            if (lane / 4 % 2 == 0)
                of_transposes[team.row<column>() * 16 + lane % 4 * 2 + lane / 16 * 8 + lane / 8 % 2] = sum;
        }
    });
    return square;
}

// The sum over the team, the same bits on every thread: the sums of warps, a barrier, and their sum. scratch: unused
// since the last barrier.
__device__ __forceinline__ float sum_warp(float x, const Team& team, float (&scratch)[WARPS]) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (WARPS > 1 && team.lane == 0) scratch[team.warp] = x;
    return x;
}
__device__ __forceinline__ float sum_warps(float x, const float (&scratch)[WARPS]) {
    if (WARPS == 1) return x;
    x = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) x += scratch[w];
    return x;
}
__device__ __forceinline__ float team_sum(float x, const Team& team, float (&scratch)[WARPS]) {
    x = sum_warp(x, team, scratch);
    if (WARPS > 1) team.sync();
    return sum_warps(x, scratch);
}

// Conjugate gradient from x on the matrix in the sums; thread i has x_i and returns it.
__device__ __forceinline__ float solve(Sums& sums, const Team& team, float x, float ridge, int steps, float tolerance) {
    Solver& solver = team.work.solver;
    const int i = team.thread;
    for (int k = i; k < PARTS * PADDED; k += THREADS) (&solver.parts[0][0])[k] = 0.0f;  // some are never written
    as_warp(team.warp, [&](auto body) { store_right(body, sums, solver, team); });
    // The first product is A x, for the residual; each later one is a step. All vectors and sums are zero beyond the
    // factors.
    float p = x, residual = 0.0f, square = 0.0f, enough = 0.0f;
    for (int step = 0; step <= steps; ++step) {
        if (i < PADDED) solver.direction[i] = p;
        team.sync();
        const float b = i < FACTORS ? solver.right[i] : 0.0f;
        float product = ridge * p * p;
        as_warp(team.warp, [&](auto body) { product += multiply_vector(body, sums, solver, team); });
        product = sum_warp(step == 0 ? b * b : product, team, solver.sums[0]);
        team.sync();
        float q = ridge * p;
        if (i < PADDED) {
#pragma unroll
            for (int part = 0; part < PARTS; ++part) q += solver.parts[part][i];
        }
        product = sum_warps(product, solver.sums[0]);
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
        if (step == 0 && !(square <= product)) {  // start from zero; a right side of zero ends here
            x = 0.0f;
            residual = b;
            square = product;
        }
        if (square <= enough) break;
        p = residual + (step == 0 ? 0.0f : square / old * p);
    }
    return x;
}

// Grid: a team a segment, or fewer where blocks are PERSISTENT. Block: TEAMS teams of THREADS, with dynamic shared memory
// of a Work each. largest, ridges: for each row the magnitude of its largest rating, and lambda n or lambda. unit: the
// power of two by which `fixed` is divided, and its reciprocal. gram: with IMPLICIT F^T F.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, BLOCKS)
    tensor_core(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
                const float* __restrict__ values, const half_bits* __restrict__ fixed, const float* __restrict__ unit,
                const float* __restrict__ largest, float* __restrict__ solved, Quads* __restrict__ partial,
                int* __restrict__ arrived, const float* __restrict__ ridges, int cg_steps, float cg_tolerance,
                float root_of_alpha, const Quads* __restrict__ gram) {
    int number = Team::index();
    if (number >= n_segments) return;
    const Team team = Team::here();
    const int i = team.thread;
    const bool mine = i < FACTORS;
    Pipeline pipeline = {team, {indices, values, fixed}, {}, 0, 0, {segments, number, n_segments, largest, root_of_alpha}};
    if constexpr (PERSISTENT) {
        pipeline.load_coming();
        pipeline.start();
    }
    do {
        const Segment segment = segments[number];
        // Loaded early, to hide the latency.
        float x = mine && segment.count > 0 ? solved[segment.row * (long long)FACTORS + i] : 0.0f;
        const Scales scales = scales_of<IMPLICIT>(largest[segment.row], root_of_alpha);
        if constexpr (!PERSISTENT) {
            pipeline.begin = segment.begin;
            pipeline.length = segment.length;
            pipeline.scales = scales;
        }
        Sums sums;
        if (!sum_products(sums, pipeline, segment, partial, arrived)) continue;
        const float per_unit = unit[1], ratings = IMPLICIT ? 1.0f : scales.ratings;
        const float ridge = ridges[segment.row] * per_unit * per_unit * (scales.root * scales.root);
#if IMPLICIT
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            const float4 all = (*gram)[q][i];
            const float scale = scales.root * scales.root;
            add(sums[q], {scale * all.x, scale * all.y, scale * all.z, scale * all.w});
        }
#endif
        if (segment.count > 0) {
            x = solve(sums, team, x * unit[0] * ratings, ridge, cg_steps, cg_tolerance);
            x = x * per_unit * (IMPLICIT ? 1.0f : power_of_two(-scales.exponent));
        }
        if (mine) solved[segment.row * (long long)FACTORS + i] = x;
    } while (PERSISTENT && (number += gridDim.x) < n_segments);
}

// With IMPLICIT: product = F^T F in the layout of a team's sums, from a row of all columns with ratings of 1; zeros for the right side. Grid and
// block: as of tensor_core. Without, nothing, which compiles sooner: it is not launched.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, 1)
    gram(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
         const float* __restrict__ values, const half_bits* __restrict__ fixed, Quads* __restrict__ partial,
         int* __restrict__ arrived, Quads* __restrict__ product) {
#if IMPLICIT
    const int number = Team::index();
    if (number >= n_segments) return;
    const Team team = Team::here();
    const Segment segment = segments[number];
    // A weight of 1 changes no bit.
    Pipeline pipeline = {team, {indices, values, fixed}, {0, 1.0f, 1.0f}, segment.begin, segment.length};
    if constexpr (PERSISTENT) {
        pipeline.length = 0;
        pipeline.coming = segment;
        pipeline.start();
    }
    Sums sums;
    if (!sum_products(sums, pipeline, segment, partial, arrived)) return;
    as_warp(team.warp, [&](auto body) { clear_right(body, sums); });
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
        (*product)[q][team.thread] = {sums[q][0], sums[q][1], sums[q][2], sums[q][3]};
#endif
}

// The maximum over the block, on every thread.
__device__ inline float block_max(float x) {
    __shared__ float of_warps[32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) x = max(x, of_warps[w]);
    return x;
}

// Grid and block: a warp a segment. largest: for each row the magnitude of its largest rating; 0 before.
extern "C" __global__ void largest_ratings(const Segment* __restrict__ segments, int n_segments,
                                           const float* __restrict__ values, unsigned* __restrict__ largest) {
    const int warp = (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    if (warp >= n_segments) return;
    const Segment segment = segments[warp];
    float most = 0.0f;
    for (int t = threadIdx.x % 32; t < segment.length; t += 32) {
        most = max(most, fabsf(values[segment.begin + t]));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, offset));
    // The bits of non-negative floats are ordered as the floats are.
    if (threadIdx.x % 32 == 0) atomicMax(&largest[segment.row], __float_as_uint(most));
}

// largest: for each block the magnitude of its largest factor. Grid and block: any.
extern "C" __global__ void largest_factors(const float* __restrict__ factors, int n_rows, float* __restrict__ largest) {
    float most = 0.0f;
    const long long step = gridDim.x * (long long)blockDim.x;
#pragma unroll 4
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n_rows * (long long)FACTORS; k += step)
        most = max(most, fabsf(factors[k]));
    most = block_max(most);
    if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

// rounded = factors / unit in FP16, in rows padded with zeros. unit: the power of two that scales the largest factor,
// the maximum of the n in `largest`, to near the top of FP16, unless all are so small against lambda that their ratio
// exceeds FP32. Grid and block: any.
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

// The geometry of tensor_core and gram for the host. Grid: 1. Block: 1. Threads and teams of a block, bytes of shared
// memory of a team, PADDED, bytes of a part's sums; whether one block of tensor_core a multiprocessor is enough.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ teams, int* __restrict__ team_bytes,
                                 int* __restrict__ padded, int* __restrict__ part_bytes,
                                 int* __restrict__ persistent) {
    *block = THREADS * TEAMS;
    *teams = TEAMS;
    *team_bytes = sizeof(Work);
    *padded = PADDED;
    *part_bytes = sizeof(Quads);
    *persistent = PERSISTENT;
}
