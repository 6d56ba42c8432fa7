// warpgroups: tensor_core.cu for Hopper alone, where some warps only fetch, ahead of those that multiply and solve.
//
// For every row with ratings r over columns S, solve (F_S^T F_S + lambda n I) x = F_S^T r, or, with IMPLICIT, the system
// of tensor_core.cu. What is gathered, how it is scaled and rounded, how rows are cut into segments, and the steps of
// conjugate gradient are those of tensor_core.cu. Warps with tasks of their own: Bauer, Cook and Khailany 2011 (CudaDMA),
// and CUTLASS.
//
// What it changes against tensor_core.cu with WGMMA, and why:
//   - There all warps copy, multiply and solve in turn: while a row is solved, no more than two stages are fetched.
//     Here a block, which has a multiprocessor for itself, has FETCHERS warps that only copy, from row to row, as far
//     ahead as there are stages in shared memory, while a team of two warpgroups multiplies or solves.
//   - Each stage has two barriers in shared memory (mbarrier). `full` completes when its copies have arrived, `empty`
//     when the warps of the team have read it. Nobody waits for anybody else.
//   - A fetching warp fills whole stages, every FETCHERS-th, with a lane for each rating. It knows the next 32
//     segments, a lane each. It reads the ratings of its next two stages ahead of copies, behind which loads queue, so
//     that it waits for no load that it just started. Up to 248 factors addresses of several copies are in registers of
//     their own: one that is computed where the last one was waits for its copy to start. It has no fence, which would
//     wait for all its loads: the team has it.
//   - The ratings and their rounding errors are two more columns of the right operand: F_S^T r takes no instructions.
//     With 121 to 128 factors they would be in a block of 64 columns of their own: there they are apart, and take some.
//   - The team keeps A on and above its diagonal, in strips of 64 rows, as products have, each as wide as needed. A
//     warpgroup has the first strip and the last, the other one those between: the same work.
//   - A step of conjugate gradient has two barriers of the team, not three, and waits for one sum, not two: see solve.
//   - With IMPLICIT, from 129 factors on, rows are multiplied by the roots of their weights in shared memory, by the
//     fetching warps, when they have started the copies of their next stage: they have time, and a row is a warp's own.
//     A row begins with F^T F, loaded to where its sums are.
//   - With 65 to 128 factors a row has few products, but its solution as many steps. There a block has three teams of
//     one warpgroup, each with stages and a fetching warp of its own: while one solves, the others multiply. Three
//     blocks would have fewer registers: the four schedulers share theirs out among whole warps, so that three blocks
//     of five warps have 128 a thread; here a team's have 128 to 152.
//   - Instructions limit these teams. So a warp copies the factors of two ratings at once, which are at most 16 chunks
//     each; many stages have 64 ratings; and a step reads its vector from one place. With explicit feedback, up to 104
//     factors, sums take so few registers that each team has two fetching warps, and stages of 32.
//   - With IMPLICIT these teams multiply the left operand by the weights, in registers, on its way to the products. One
//     fetching warp has no time for it, and would have to wait for copies, of which then fewer were under way. In shared
//     memory, whose bandwidth limits, each row would be read and written once more, and the warps of a team would wait
//     for each other in each stage. Rounding makes A unsymmetric. Where weights of a row are large beside the 1 of
//     other pairs, its solution depends on that more than on the rounding of factors; there what rounding took is
//     multiplied too, and nothing is lost.
//   - There F^T F is in shared memory, once for the three teams: a row reads 3 f^2 bytes of it, as many as 1.5 f ratings
//     have in factors. From L2, a user of Netflix with 128 factors would read as much for it as for the ratings.
//   - With BYTES, explicit feedback and 81 to 104 factors, a row is 128 signed bytes, one line of the cache, where halves
//     are 192 or 224: for a side whose halves exceed the L2 cache, whose gather takes nearly all the time. One unit for
//     all rows makes sums integers, exact in 32 bits. A rating is three digits of a byte, three columns of an operand of
//     their own, 22 bits below the row's largest.
//   - Operands of bytes have four ratings of a factor side by side, gathered rows four factors of a rating. `ldmatrix`
//     transposes pairs of bytes; two permutations of registers make operands of mma of them, with ratings in another
//     order, the same on both sides. wgmma takes its right operand from shared memory alone, and would demand that
//     they are written back there, a fence, and a barrier of the team in every stage. As mma leaves each warp its own
//     shape, the team computes tiles of 16 x 16 on and above the diagonal alone, 28 where strips have 40.
//
//           columns      0 ..   64 ..  128 ..  192 .. 207     200 factors: the ratings are columns 200 and 201
//     strip 0, group 0  ##############################
//           1, group 1         #######################
//           2, group 1                ################
//           3, group 0                       #########
//
// What is left: with 129 factors and more the solution, meanwhile nothing is multiplied.
// The same bits in every run: no sum depends on who arrives first.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, an iteration:
//                         seconds  % of roofline  gain
//     tensor_core, wgmma  0.0155   18             –
//     warpgroups          0.0132   22             1.17 x over tensor_core, wgmma
//     BYTES=1             0.0121   24             1.1 x over warpgroups
#include "als/half_rows.cuh"
#include "als/quads.cuh"
#include "common/hopper.cuh"

#if !defined IMPLICIT || !defined BYTES
#error "compile with -DIMPLICIT=0 or 1 and -DBYTES=0 or 1"
#endif
#if BYTES && (IMPLICIT || FACTORS <= 80 || FACTORS > 104)
#error "with BYTES there are 81 to 104 factors, and explicit feedback"
#endif

constexpr int GROUPS = FACTORS > 64 && FACTORS <= 128 ? 1 : 2;                   // of a team
constexpr int WARPS = 4 * GROUPS, THREADS = 32 * WARPS;                          // of a team
constexpr int TEAMS = GROUPS == 1 ? 3 : 1;                                       // of a block
constexpr int FETCHERS = GROUPS == 2 ? 4 : !IMPLICIT && FACTORS <= 104 ? 2 : 1;  // warps that fetch for a team
// With IMPLICIT, whether teams multiply one operand by weights, in registers, and F^T F is in shared memory; otherwise
// fetching warps multiply rows by the roots of weights, and F^T F is loaded for each row.
constexpr bool TEAMS_WEIGH = IMPLICIT && GROUPS == 1;
// Whole warpgroups, since only these change their registers; some warps may have nothing to do.
constexpr int FETCHING_WARPS = (TEAMS * FETCHERS + 3) / 4 * 4;
constexpr int ALL_THREADS = TEAMS * THREADS + 32 * FETCHING_WARPS;  // of a block

// Registers of a thread: what a fetching one does not need of its share goes to the teams. Where a team lacks
// registers, its solution waits for one load after another.
constexpr int SHARE = 65536 / ALL_THREADS / 8 * 8;
constexpr bool MANY_SUMS = FACTORS > (IMPLICIT ? 96 : 120);  // so many that a team of one warpgroup needs more
constexpr int FETCHING_REGISTERS =
    GROUPS == 2 ? FACTORS > 248 ? 40 : 72 : FETCHERS == 2 && !BYTES ? 48 : MANY_SUMS ? 56 : 72;
constexpr int TEAM_REGISTERS =
    (SHARE + (SHARE - FETCHING_REGISTERS) * 32 * FETCHING_WARPS / (TEAMS * THREADS)) / 8 * 8;
static_assert(TEAM_REGISTERS * TEAMS * THREADS + FETCHING_REGISTERS * 32 * FETCHING_WARPS <= SHARE * ALL_THREADS);

// Ratings fetched together: with more of them a stage takes fewer instructions each, with IMPLICIT timed up to 104
// factors. Two fetching warps fill stages in turn, of which there have to be more.
constexpr int STAGE = BYTES || (GROUPS == 1 && FETCHERS == 1 && FACTORS <= (IMPLICIT ? 104 : 120)) ? 64 : 32;
constexpr int A_COPY = BYTES ? 4 : GROUPS == 1 ? 2 : 1;  // ratings of one copy of a warp, each by as many lanes
// Ratings whose copies a warp starts together, and how often in one round of a loop, as registers allow. A multiple of
// 8, since chunks of every eighth row are permuted alike.
constexpr int AT_ONCE = BYTES || (GROUPS == 1 && FETCHERS == 1 && !(IMPLICIT && MANY_SUMS && FACTORS <= 120)) ? 16 : 8;
constexpr int UNROLLED = GROUPS == 2 ? 1 : FETCHERS == 2 && !BYTES ? 2 : 4;
// With TEAMS_WEIGH A is not symmetric where weighed rows are rounded, which matters the more, the larger the weights of
// a row are beside the 1 of other pairs. Up to this exponent of a row's scale (weights from 16 on), what rounding took
// is added, in as many products again.
constexpr int MOST_ROUNDED = 1;
constexpr int STRIP = 64;                         // rows of A, and columns of a block in shared memory
constexpr int STRIPS = (FACTORS + STRIP - 1) / STRIP;
constexpr int WIDTH = STRIPS * STRIP;             // of the vectors
[[maybe_unused]] constexpr int SOLVED_TILES = (FACTORS + 15) / 16;  // of 16 columns, that have factors
constexpr int CHUNKS = BYTES ? TILES : (FACTORS + 7) / 8;  // of 16 bytes, in a row of factors
constexpr int A_ROW = BYTES ? BYTES_OF_ROW : 2 * PADDED;   // bytes, in global memory
constexpr int A_PRODUCT = BYTES ? 32 : 16;                 // ratings
constexpr int RIGHT = 8 * CHUNKS;                 // the column of the ratings, before that of their rounding errors
// A multiple of 16; of 8 where a product would have more than its MOST_COLUMNS, or where it may, with two strips.
constexpr int MOST_COLUMNS = 256;
constexpr int COLUMNS =
    RIGHT < MOST_COLUMNS && (GROUPS == 2 || RIGHT % STRIP != 0) ? (RIGHT + 23) / 16 * 16 : RIGHT + 8;
// Whether the ratings are apart, where a block of their own would take a third of the memory of a stage.
constexpr bool APART = GROUPS == 1 && RIGHT % STRIP == 0;
constexpr int BLOCKS = BYTES ? 1 : APART ? RIGHT / STRIP : (COLUMNS + STRIP - 1) / STRIP;
// Chunks of a row from this one on are zero, unless the ratings are there.
constexpr int NEVER_COPIED = BYTES ? BLOCKS * STRIP / 8 : IMPLICIT && !TEAMS_WEIGH ? CHUNKS : CHUNKS + 1;

// The strips of a group, the first one and the second; a strip's columns.
__device__ constexpr int strip_of(int group, int second) {
    return GROUPS == 1 ? second : second ? 3 - group : group;
}
__device__ constexpr int width_of(int strip) { return strip < STRIPS ? COLUMNS - STRIP * strip : 0; }
// A group's sums, in quads of 64 x 8: of both strips, and where those of a strip begin.
__device__ constexpr int quad_of(int group, int strip) { return strip == group ? 0 : width_of(group) / 8; }
__device__ constexpr int quads_of(int group) {
    return BYTES ? 2 * TILES + 2 : (width_of(group) + width_of(strip_of(group, 1))) / 8;
}
constexpr int QUADS = GROUPS == 1 || quads_of(0) > quads_of(1) ? quads_of(0) : quads_of(1);
static_assert(STRIPS <= 2 * GROUPS && WIDTH <= THREADS);
using Quads = float4[QUADS][THREADS];  // the sums of a team in global memory
template <int group>
using Sums = float[quads_of(group) > 0 ? quads_of(group) : 1][4];
// The quads of a group's sums that are of A, and number k of these.
__device__ constexpr int quads_of_a(int group) {
    int n = 0;
    for (int second = 0; second < 2; ++second)
        if (strip_of(group, second) < STRIPS) n += (RIGHT - STRIP * strip_of(group, second)) / 8;
    return n;
}
__device__ constexpr int quad_of_a(int group, int k) {
    const int of_first = group < STRIPS ? (RIGHT - STRIP * group) / 8 : 0;
    return k < of_first ? k : quad_of(group, strip_of(group, 1)) + k - of_first;
}
constexpr int QUADS_OF_A = quads_of_a(0) > quads_of_a(1) ? quads_of_a(0) : quads_of_a(1);
using Gram = float4[QUADS_OF_A][THREADS];  // what the sums of a row begin with, in shared memory

// Shared memory.

struct __align__(1024) Rows {  // of factors; chunks permuted: eight rows in different banks
    half_bits blocks[BLOCKS][STAGE][STRIP];

    // Eight numbers of a row.
    __device__ half_bits* chunk(unsigned row, unsigned number) {
        return &blocks[number / 8][row][(number % 8 ^ row % 8) * 8];
    }
};
#if BYTES
struct __align__(16) Beside {  // the rows of a stage: the digits of its ratings
    unsigned char digits[STAGE / 32][4][32];

    __device__ void set(unsigned row, float rating) {
        int number = (int)rintf(rating * 65536.0f);
        const unsigned place = row % 8 / 2 * 8 + row / 16 % 2 * 4 + row / 8 % 2 * 2 + row % 2;
#pragma unroll
        for (int k = 2; k >= 0; --k) {
            const int digit = (signed char)number;
            digits[row / 32][k][place] = (unsigned char)digit;
            number = (number - digit) >> 8;
        }
    }
    // The right operand of 32 ratings from k on, columns 0 to 2: of the others the third again.
    __device__ uint2 operand(int k, unsigned lane) const {
        return *reinterpret_cast<const uint2*>(&digits[k / 32][min(lane / 4, 2u)][lane % 4 * 8]);
    }
};
#else
struct __align__(16) Beside {  // the rows of a stage, where it is not in them
    half_bits pairs[APART ? STAGE / 8 : 1][8][8];  // APART: column 0 has ratings, column 1 their rounding errors
    half_bits weights[TEAMS_WEIGH ? STAGE : 8];    // each at its place_of
};
#endif
constexpr int BESIDE_BYTES = BYTES || APART || TEAMS_WEIGH ? sizeof(Beside) : 0;
struct Part {  // what the team is told of a stage
    Segment segment;
    int exponent;  // of the power of two by which the row's ratings are multiplied
    int left;      // ratings from this stage on
};
struct __align__(16) Solver {
    float right[WIDTH];             // number i at place_of_number(i), as the next one
    float vector[WIDTH];            // that A is multiplied by: at first the solution to start from, then residuals
    float parts[1 + WARPS][WIDTH];  // of the product: of A's rows, and of their transposes by warp
    float sums[2][WARPS], squares[2][WARPS];
    bool last;

    // Four numbers of a tile of 16 that a lane multiplies its columns by come together.
    __device__ static unsigned place_of_number(unsigned i) {
        return i / 16 * 16 + i % 8 / 2 * 4 + i / 8 % 2 * 2 + i % 2;
    }
};
struct Barriers {  // of a stage
    Barrier full, empty;
};
constexpr int GRAM_BYTES = TEAMS_WEIGH ? sizeof(Gram) : 0;  // of a block
constexpr int ROOM = ((227 << 10) - GRAM_BYTES) / TEAMS / 1024 * 1024 - (int)sizeof(Solver) - 1024;
constexpr int FITTING = ROOM / (int)(sizeof(Rows) + BESIDE_BYTES + 2 * sizeof(Part) + sizeof(Barriers));
constexpr int STAGES = FITTING < 16 ? FITTING : 16;
static_assert(STAGES >= 2 * FETCHERS);
struct Work {  // of a team
    Rows rows[STAGES];
    Beside beside[BESIDE_BYTES ? STAGES : 1];
    Part parts[2][STAGES];  // in turn: a part is written before the one of its place is read for the last time
    Barriers barriers[STAGES];
    Solver solver;

    __device__ static Work& of(unsigned team) {
        extern __shared__ __align__(1024) float shared[];
        return reinterpret_cast<Work*>(shared)[team];
    }
    // F^T F, behind the memory of all teams.
    __device__ static Gram& gram() { return reinterpret_cast<Gram&>(of(TEAMS)); }
};
static_assert(TEAMS * sizeof(Work) + GRAM_BYTES <= 227 << 10);

// A stage: its place, and the parity with which its barrier is awaited.
struct Turn {
    int place, parity = 0;

    __device__ void advance(int stages) {
        place += stages;
        if (place < STAGES) return;
        place -= STAGES;
        parity ^= 1;
    }
};

// The stages of a team's segments, which are every TEAMS * gridDim.x-th, as a fetching warp goes through them.
struct Walk {
    const Segment* segments;
    int n_segments;
    const float* largest;  // of each row; with IMPLICIT null where all weights are 1
    float root_of_alpha;
    int next;              // the first segment of the next 32
    unsigned lane;
    unsigned current = 31;  // the lane that has the segment at hand
    Segment segment;        // of this lane; its length is -1 behind the last one
    int exponent;           // of its row, see Part
    long long begin = 0;    // of the stage
    int left = 0;           // ratings from there to the segment's end; -1 behind the last one

    __device__ void load() {
        const int number = next + lane * (TEAMS * gridDim.x);
        segment.length = -1;
        if (number < n_segments) {
            segment = segments[number];
            exponent = IMPLICIT && !largest ? 0 : scales_of<IMPLICIT>(largest[segment.row], root_of_alpha).exponent;
            if (BYTES) exponent -= 2;  // the first digit is up to 64
        }
        next += 32 * TEAMS * gridDim.x;
    }

    // To the next stage. A segment without ratings has one, too.
    __device__ void advance() {
        if (left > STAGE) {
            begin += STAGE;
            left -= STAGE;
        } else if (left >= 0) {
            if (++current == 32) {
                load();
                current = 0;
            }
            begin = __shfl_sync(0xffffffffu, segment.begin, current);
            left = __shfl_sync(0xffffffffu, segment.length, current);
        }
    }
};

// A number of the right side in half precision, and its rounding error.
__device__ __forceinline__ unsigned both_halves(float right) {
    const half_bits whole = to_half(right), error = to_half(right - from_half(whole));
    return whole | (unsigned)error << 16;
}

// Fills every FETCHERS-th stage from number `first` on. fixed, indices, values: as of the kernel.
__device__ __forceinline__ void fetch(Work& work, Walk walk, int first, const int* indices, const float* values,
                                      const half_bits* fixed) {
    const unsigned lane = walk.lane;
    // Of a copy, the lane's rating and chunk; and the rating that it reads, one that its half of the warp copies.
    constexpr unsigned of_row = 32 / A_COPY;
    const unsigned row = A_COPY == 1 ? 0 : lane / of_row, number = A_COPY == 1 ? lane : lane % of_row;
    const unsigned place = number * A_COPY + row;
    // The chunk of row 0, read from the lane itself: so the compiler keeps the sum and adds it where it multiplies.
    const unsigned long long chunk = reinterpret_cast<unsigned long long>(fixed) + number * 16;
    const char* const from = reinterpret_cast<const char*>(__shfl_sync(0xffffffffu, chunk, lane));
    Turn turn = {first, 1}, ahead = turn;  // of the stage to fill, and of the next one whose ratings are read
    int columns[2], lefts[2];              // of two stages, in turn
    float ratings[2];
    int more_columns[2];  // in a stage of 64, of the second 32 ratings
    float more_ratings[2];
#if IMPLICIT
    // Without TEAMS_WEIGH, of the stage that was filled last: its place, its ratings, the lane's right side, its root
    // twice.
    int before = -1, left_before;
    unsigned right_before, roots_before;
#endif
    auto part_of = [&](const Turn& of) -> Part& { return work.parts[of.parity ^ 1][of.place]; };
    auto read_next = [&](int slot, int stages) {
        for (int k = 0; k < stages; ++k) walk.advance();
        const int left = lefts[slot] = walk.left;
        columns[slot] = (int)place < left ? indices[walk.begin + place] : 0;
        ratings[slot] = (int)place < left ? values[walk.begin + place] : 0.0f;
        if constexpr (STAGE == 64) {
            more_columns[slot] = (int)place + 32 < left ? indices[walk.begin + place + 32] : 0;
            more_ratings[slot] = (int)place + 32 < left ? values[walk.begin + place + 32] : 0.0f;
        }
        if (left >= 0 && lane == walk.current) part_of(ahead) = {walk.segment, walk.exponent, left};
        ahead.advance(FETCHERS);
    };
#if IMPLICIT
    // The rows of the stage that was filled last, whose copies are done, times the roots of their weights, rounded as
    // products.cuh does. A lane takes a place in all rows, whatever chunk is there: distances are the same for all. What
    // is then wrong, where the ratings come, is written behind it.
    auto weigh = [&] {
        Rows& rows = work.rows[before];
        uint4* const from = reinterpret_cast<uint4*>(&rows.blocks[lane / 8][0][lane % 8 * 8]);
        constexpr int to_next = STRIP / 8, at_once = FACTORS > 248 ? 4 : 8;  // rows, for which there are registers
        __syncwarp();
#pragma unroll 1
        for (int t = 0; t < left_before; t += at_once) {
            unsigned roots[at_once];
            uint4 numbers[at_once];
#pragma unroll
            for (int k = 0; k < at_once; ++k) roots[k] = __shfl_sync(0xffffffffu, roots_before, t + k);
            if (lane < (CHUNKS + 7) / 8 * 8) {
#pragma unroll
                for (int k = 0; k < at_once; ++k) numbers[k] = from[(t + k) * to_next];
#pragma unroll
                for (int k = 0; k < at_once; ++k) from[(t + k) * to_next] = times(numbers[k], roots[k]);
            }
        }
        __syncwarp();
        *reinterpret_cast<uint4*>(rows.chunk(lane, CHUNKS)) = {right_before, 0, 0, 0};
        __syncwarp();
        if (lane == 0) arrive(work.barriers[before].full);
    };
#endif
    auto fill = [&](int slot) {
        Barriers& barriers = work.barriers[turn.place];
        Rows& rows = work.rows[turn.place];
        const int left = lefts[slot], column = columns[slot];
        const float rating = ratings[slot];
        int more_column = 0;
        [[maybe_unused]] float more_rating = 0.0f;
        if constexpr (STAGE == 64) more_column = more_columns[slot], more_rating = more_ratings[slot];
        wait(barriers.empty, turn.parity);
        const int exponent = part_of(turn).exponent;
        // Where the lane's chunks of the first copies go. The others' are permuted as these, and so many rows below.
        half_bits* places[8 / A_COPY];
        if constexpr (A_COPY > 1)
            for (int k = 0; k < 8; k += A_COPY) places[k / A_COPY] = rows.chunk(k + row, number) - k * STRIP;
        auto place_of_chunk = [&](int t) {
            return A_COPY == 1 ? rows.chunk(t, lane) : places[t / A_COPY % (8 / A_COPY)] + t * STRIP;
        };
        // Rows t to t + AT_ONCE - 1, zeros after so many.
        auto copy_some = [&](int t, int left) {
            const int chosen = STAGE == 32 || t < 32 ? column : more_column;
            const char* of_rows[AT_ONCE / A_COPY];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k += A_COPY)
                of_rows[k / A_COPY] = from + (unsigned)__shfl_sync(0xffffffffu, chosen, (t + k) / A_COPY, 32 / A_COPY) *
                                                 (unsigned long long)A_ROW;
            if (number >= CHUNKS) return;
#pragma unroll
            for (int k = 0; k < AT_ONCE; k += A_COPY)
                copy_async<false>(place_of_chunk(t + k), of_rows[k / A_COPY], k + (int)row < left);
        };
        read_next(slot, FETCHERS);  // before copies, behind which loads would queue
        if (left >= STAGE) {
#pragma unroll(UNROLLED)
            for (int t = 0; t < STAGE; t += AT_ONCE) copy_some(t, AT_ONCE);
        } else {
#pragma unroll 1
            for (int t = 0; t < (left + A_PRODUCT - 1) / A_PRODUCT * A_PRODUCT; t += AT_ONCE) copy_some(t, left - t);
        }
        // The right side's number of a rating, and, with IMPLICIT, its weight, or twice the root.
        [[maybe_unused]] auto right_and_weight = [&](float rating) -> uint2 {
#if IMPLICIT
            const float one = power_of_two(exponent);
            const Scales scales = {exponent, walk.root_of_alpha * one, one};
            unsigned weight;
            const float right = weigh_rating<TEAMS_WEIGH>(rating, scales, [&](half_bits x) { weight = x; });
            return {both_halves(right), TEAMS_WEIGH ? weight : weight * 0x10001u};
#else
            return {both_halves(rating * power_of_two(exponent)), 0};
#endif
        };
#if IMPLICIT
        if constexpr (!TEAMS_WEIGH) {
            copy_commit();
            if (before >= 0) {
                copy_wait<1>();
                weigh();
            }
            before = turn.place;
            left_before = min(left, STAGE);
            const uint2 both = right_and_weight(rating);
            right_before = both.x, roots_before = both.y;
            return turn.advance(FETCHERS);
        }
#endif
        arrive_after_copies(barriers.full);
        Beside& beside = work.beside[BESIDE_BYTES ? turn.place : 0];
        auto write_right = [&](unsigned row, float rating) {
#if BYTES
            beside.set(row, rating * power_of_two(exponent));
#else
            const uint2 both = right_and_weight(rating);
            if constexpr (APART) {
                beside.pairs[row / 8][0][row % 8] = (half_bits)both.x;
                beside.pairs[row / 8][1][row % 8] = (half_bits)(both.x >> 16);
            } else {
                *reinterpret_cast<uint4*>(rows.chunk(row, CHUNKS)) = {both.x, 0, 0, 0};
            }
            if constexpr (TEAMS_WEIGH) beside.weights[place_of((int)row)] = (half_bits)both.y;
#endif
        };
        write_right(place, rating);
        if constexpr (STAGE == 64) write_right(32 + place, more_rating);
        __syncwarp();
        if (lane == 0) arrive(barriers.full);
        turn.advance(FETCHERS);
    };
    read_next(0, first + 1);
    read_next(1, FETCHERS);
    __syncwarp();
    while (lefts[0] >= 0) {
        fill(0);
        if (lefts[1] < 0) break;
        fill(1);
    }
    // PTX does not say that copies, and what arrives after them, outlive the thread that started them.
    copy_commit();
    copy_wait<0>();
#if IMPLICIT
    if (!TEAMS_WEIGH && before >= 0) weigh();
#endif
}

// A thread of a team: its number there, its warp's, its lane; the team's number.
struct Member {
    unsigned thread, warp, lane, team;

    __device__ void sync() const { sync_some(1 + team, THREADS); }

    // The same, for addresses that would take registers from what comes before.
    __device__ Member again() const {
        if constexpr (GROUPS == 2) return *this;
        const unsigned in_block = thread_again();
        return {in_block - team * THREADS, warp, in_block % 32, team};
    }

    // The first of the two rows of a strip of which the lane has sums; the other one is eight below.
    __device__ unsigned row(unsigned strip) const { return strip * STRIP + warp % 4 * 16 + lane / 4; }
};

// Calls use(Number<strip>{}) with each strip of a group.
template <int group, class Use>
__device__ __forceinline__ void for_each_strip(Use use) {
    for_each<2>([&](auto second) {
        constexpr int strip = strip_of(group, decltype(second)::value);
        if constexpr (strip < STRIPS) use(Number<strip>{});
    });
}

#if !BYTES
// sums += the products of a stage's ratings, the first `here`; of a segment's first stage sums = these, without ratings
// as they were. Goes on behind the call. With TEAMS_WEIGH `errors`: of what rounding took from the weighed rows.
template <int group>
__device__ __forceinline__ void multiply(Sums<group>& sums, const Rows& rows, const Beside& beside, int here,
                                         bool first, bool errors, const Member& me) {
    const StripPlace begin({rows.blocks[0][0], (int)sizeof rows.blocks[0]});
    [[maybe_unused]] unsigned weighed[STRIPS][4];
    // The warp's 16 columns of each strip, times the weights of ratings k to k + 15.
    auto weigh_16 = [&](int k) {
        const uint2 weights = *reinterpret_cast<const uint2*>(&beside.weights[k + me.lane % 4 * 4]);
        for_each<STRIPS>([&](auto strip) {
            unsigned(&tile)[4] = weighed[strip.value];
            const unsigned chunk = strip.value * (STRIP / 8) + me.warp * 2 + me.lane / 8 % 2;
            load_transposed(tile, const_cast<Rows&>(rows).chunk(me.lane % 8 + me.lane / 16 * 8, chunk) + k * STRIP);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const unsigned weight = j / 2 ? weights.y : weights.x, rounded = multiply_halves(tile[j], weight);
                tile[j] = errors ? multiply_halves_error(tile[j], weight, rounded) : rounded;
            }
        });
    };
    auto multiply_16 = [&](int k, bool add) {
        for_each_strip<group>([&](auto number) {
            constexpr int strip = decltype(number)::value, quad = quad_of(group, strip), width = width_of(strip);
            if constexpr (GROUPS == 1) {
                constexpr int in_blocks = APART ? width - 8 : width;
                const StripPlace right = begin.further((strip * STAGE + k) * STRIP * (int)sizeof(half_bits));
                auto multiply_by = [&](const auto& left) {
                    multiply_strip<in_blocks, quad>(sums, left, right, add);
                    if constexpr (APART)
                        multiply_strip<8, quad + in_blocks / 8>(sums, left, PairOperand{beside.pairs[k / 8][0]}, add);
                };
                if constexpr (TEAMS_WEIGH)
                    multiply_by(weighed[strip]);
                else
                    multiply_by(right);
                return;
            }
            constexpr int columns = width < MOST_COLUMNS ? width : MOST_COLUMNS;
            const StripOperand left = {rows.blocks[strip][k], (int)sizeof rows.blocks[0]};
            const StripOperand last = {rows.blocks[BLOCKS - 1][k], 0};
            multiply_strip<columns, quad>(sums, left, left, add);
            if constexpr (width > columns) multiply_strip<width - columns, quad + columns / 8>(sums, left, last, add);
        });
    };
    // Each case commits for itself: behind all, the compiler would wait for what should go on.
    auto multiply_all = [&](auto number) {
        if constexpr (!TEAMS_WEIGH) strips_begin();
        for_each<decltype(number)::value>([&](auto k) {
            if constexpr (TEAMS_WEIGH) {
                if constexpr (decltype(k)::value > 0) strips_wait<0>();
                weigh_16(16 * decltype(k)::value);
                strips_begin();
            }
            multiply_16(16 * decltype(k)::value, decltype(k)::value > 0 || !first);
            if constexpr (TEAMS_WEIGH) strips_commit();
        });
        if constexpr (!TEAMS_WEIGH) strips_commit();
    };
    if constexpr (STAGE == 64) {
        if (here > 48) return multiply_all(Number<4>{});
        if (here > 32) return multiply_all(Number<3>{});
    }
    if (here > 16)
        multiply_all(Number<2>{});
    else if (here > 0)
        multiply_all(Number<1>{});
}

// solver.right = F_S^T r, a group's strips of it, zero beyond the factors.
template <int group>
__device__ __forceinline__ void store_right(const Sums<group>& sums, Solver& solver, const Member& me) {
    for_each_strip<group>([&](auto number) {
        constexpr int strip = decltype(number)::value;
        const float(&right)[4] = sums[quad_of(group, strip) + (RIGHT - STRIP * strip) / 8];
        for (int h = 0; h < 2; ++h) {
            const unsigned row = me.row(strip) + 8 * h;
            if (me.lane % 4 == 0)
                solver.right[Solver::place_of_number(row)] = row < FACTORS ? right[2 * h] + right[2 * h + 1] : 0.0f;
        }
    });
}

#endif

// to[column] = the sum over the warp's rows of columns of one tile of 16 or two, of which a lane has four each.
template <int tiles>
__device__ __forceinline__ void sum_columns(const float (&x)[8], float* to, unsigned lane) {
    const unsigned column = lane / 8 % 2 * 8 + lane % 4 * 2 + lane / 4 % 2;
    float of_tile[4];  // of one; lanes without bit 16 have the first of two, the others the second
#pragma unroll
    for (int k = 0; k < 4; ++k) of_tile[k] = tiles == 2 ? exchange(x[k], x[4 + k], lane, 16) : x[k];
    const float first = exchange(of_tile[0], of_tile[2], lane, 8), second = exchange(of_tile[1], of_tile[3], lane, 8);
    float sum = exchange(first, second, lane, 4);
    if (tiles == 1) sum += __shfl_xor_sync(0xffffffffu, sum, 16);
    if (tiles == 2 || lane < 16) to[lane / 16 * 16 + column] = sum;
}

#if BYTES
// With BYTES `group` is the warp, of which A has tiles of 16 x 16 in two rows of tiles: its own, and row_of_tiles of a
// second, if any; each from the diagonal on. So many: the same work for all four.
//
//           columns    0   1   2   3   4   5   6     81 to 96 factors: 0 to 5
//     row 0, warp 0    #   #   #   #   #   #   #
//         1, warp 1        #   #   #   #   #   #
//         2, warp 2            #   #   #   #   #
//         3, warp 3                #   #   #   #
//         4, warp 3                    #   #   #
//         5, warp 2                        #   #
//         6, warp 1                            #
__device__ constexpr int row_of_tiles(int warp, int second) { return second ? TILES - warp : warp; }
__device__ constexpr bool has_row(int warp, int second) {
    return !second || (warp > 0 && row_of_tiles(warp, 1) >= WARPS);
}
// The first of the two quads of a tile; the quad of the right side of a row of tiles.
__device__ constexpr int quad_of_tile(int warp, int second, int column) {
    return 2 * (second ? column : column - warp);
}
__device__ constexpr int quad_of_right(int second) { return 2 * TILES + second; }
static_assert(TILES >= 2 && TILES < 2 * WARPS);

// Calls use(Number<second>{}) with both rows of tiles of a warp that have column `column`, or any.
template <int warp, int column = TILES, class Use>
__device__ __forceinline__ void for_each_row(Use use) {
    for_each<2>([&](auto second) {
        if constexpr (has_row(warp, second.value) && row_of_tiles(warp, second.value) <= column) use(second);
    });
}

// counts += the products of a stage's ratings, the first `here`, in the order of Sums; of F_S^T r a column a digit.
template <int warp>
__device__ __forceinline__ void multiply(int (&counts)[QUADS][4], const Rows& rows, const Beside& beside, int here,
                                         const Member& me) {
    // The lane's row of each 32: its chunks are permuted as those of the row of its number.
    const half_bits* const begin = rows.blocks[0][me.lane];
    const unsigned permuted = me.lane % 8;
#pragma unroll 1
    for (int k = 0; k < here; k += 32) {
        const uint2 right = beside.operand(k, me.lane);
        unsigned left[2][4];
        for_each<TILES - warp>([&](auto number) {
            constexpr int column = warp + decltype(number)::value;
            // Pairs of bytes, transposed: a lane has those of two ratings and two factors, of 32 ratings in four parts.
            unsigned pairs[4];
            load_transposed(pairs, begin + k * STRIP + (column ^ permuted) * 8);
            unsigned tile[4];  // as a left operand; as a right one, two: columns 0 to 7 in 0 and 2, 8 to 15 in 1 and 3
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                tile[2 * part] = __byte_perm(pairs[2 * part], pairs[2 * part + 1], 0x6420);
                tile[2 * part + 1] = __byte_perm(pairs[2 * part], pairs[2 * part + 1], 0x7531);
            }
            for_each_row<warp, column>([&](auto second) {
                constexpr int row = row_of_tiles(warp, second.value), quad = quad_of_tile(warp, second.value, column);
                if constexpr (row == column) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) left[second.value][e] = tile[e];
                    multiply_add(counts[quad_of_right(second.value)], tile, right.x, right.y);
                }
                multiply_add(counts[quad], left[second.value], tile[0], tile[2]);
                multiply_add(counts[quad + 1], left[second.value], tile[1], tile[3]);
            });
        });
    }
}

// sums = counts; a right side, the digits together, is in the first column of its quad, in all lanes.
__device__ __forceinline__ void to_sums(float (&sums)[QUADS][4], const int (&counts)[QUADS][4]) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[q][e] = (float)counts[q][e];
#pragma unroll
    for (int second = 0; second < 2; ++second) {
        float(&right)[4] = sums[quad_of_right(second)];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float third = __shfl_down_sync(0xffffffffu, right[2 * h], 1);
            right[2 * h] += (third * (1.0f / 256.0f) + right[2 * h + 1]) * (1.0f / 256.0f);
            right[2 * h + 1] = 0.0f;
        }
    }
}

// solver.right = F_S^T r, a warp's rows of it, zero beyond the factors.
template <int warp>
__device__ __forceinline__ void store_right(const Sums<warp>& sums, Solver& solver, const Member& me) {
    for_each_row<warp>([&](auto second) {
        const float(&right)[4] = sums[quad_of_right(second.value)];
        for (int h = 0; h < 2; ++h) {
            const unsigned row = 16 * row_of_tiles(warp, second.value) + me.lane / 4 + 8 * h;
            if (me.lane % 4 == 0) solver.right[Solver::place_of_number(row)] = row < FACTORS ? right[2 * h] : 0.0f;
        }
    });
}

// solver.parts = the products of a warp's tiles, and of their transposes beyond the diagonal, with a vector v, whose
// numbers are at their place_of_number. Returns the lane's part of v^T A v.
template <int warp>
__device__ __forceinline__ float multiply_vector(const Sums<warp>& sums, Solver& solver, const float* vector,
                                                 const Member& me) {
    float of_row[2][2], on_diagonal[2][2] = {}, beyond[2][2] = {};  // by the lane's rows
    for_each_row<warp>([&](auto second) {
        const unsigned row = 16 * row_of_tiles(warp, second.value) + me.lane / 4;
        for (int h = 0; h < 2; ++h) of_row[second.value][h] = vector[Solver::place_of_number(row + 8 * h)];
    });
    // Of a column of tiles; by_column: of those beyond the diagonal.
    auto multiply_column = [&](auto number, float* by_column) {
        constexpr int column = decltype(number)::value;
        const float4 four = *reinterpret_cast<const float4*>(&vector[16 * column + me.lane % 4 * 4]);
        const float of_column[4] = {four.x, four.y, four.z, four.w};
        for_each_row<warp, column>([&](auto second) {
            constexpr int s = decltype(second)::value, quad = quad_of_tile(warp, s, column);
            constexpr bool diagonal = row_of_tiles(warp, s) == column;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const float entry = sums[quad + k / 4][k % 4];
                const int h = k / 2 % 2, c = k / 4 * 2 + k % 2;
                (diagonal ? on_diagonal : beyond)[s][h] += entry * of_column[c];
                if constexpr (!diagonal) by_column[c] += entry * of_row[s][h];
            }
        });
    };
    multiply_column(Number<warp>{}, nullptr);
    for_each<(TILES - warp) / 2>([&](auto pair) {  // of columns
        constexpr int first = warp + 1 + 2 * decltype(pair)::value, tiles = TILES - first > 1 ? 2 : 1;
        float by_column[8] = {};
        for_each<tiles>([&](auto tile) {
            constexpr int t = decltype(tile)::value;
            multiply_column(Number<first + t>{}, by_column + 4 * t);
        });
        sum_columns<tiles>(by_column, &solver.parts[1 + warp][16 * first], me.lane);
    });
    float square = 0.0f;
    for_each_row<warp>([&](auto second) {
        constexpr int s = decltype(second)::value;
        for (int h = 0; h < 2; ++h) square += (on_diagonal[s][h] + 2.0f * beyond[s][h]) * of_row[s][h];
        float sum = exchange(beyond[s][0] + on_diagonal[s][0], beyond[s][1] + on_diagonal[s][1], me.lane, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (me.lane % 2 == 0)
            solver.parts[0][16 * row_of_tiles(warp, s) + me.lane / 4 + me.lane / 2 % 2 * 8] = sum;
    });
    return square;
}
#else
// solver.parts = the products of a group's strips, and of their transposes beyond the diagonal, with a vector v, whose
// numbers are at their place_of_number. Returns the lane's part of v^T A v.
template <int group>
__device__ __forceinline__ float multiply_vector(const Sums<group>& sums, Solver& solver, const float* vector,
                                                 const Member& me) {
    float of_row[2][2], on_diagonal[2][2] = {}, beyond[2][2] = {};  // of a strip, by the lane's rows
    for_each_strip<group>([&](auto number) {
        constexpr int strip = decltype(number)::value;
        for (int h = 0; h < 2; ++h) of_row[strip != group][h] = vector[Solver::place_of_number(me.row(strip) + 8 * h)];
    });
    // Two tiles of 16 columns at a time.
    for_each<(SOLVED_TILES - 4 * group + 1) / 2>([&](auto pair) {
        constexpr int begin = STRIP * group + 32 * decltype(pair)::value, block = begin / STRIP;
        constexpr int tiles = 16 * SOLVED_TILES - begin > 16 ? 2 : 1;
        float by_column[8] = {};
        for_each<tiles>([&](auto tile) {
            constexpr int t = decltype(tile)::value, first = begin + 16 * t;
            const float4 four = *reinterpret_cast<const float4*>(&vector[first + me.lane % 4 * 4]);
            const float of_column[4] = {four.x, four.y, four.z, four.w};
            for_each_strip<group>([&](auto number) {
                constexpr int strip = decltype(number)::value, s = strip != group;
                if constexpr (strip <= block) {
#pragma unroll
                    for (int k = 0; k < 8; ++k) {
                        const float entry = sums[quad_of(group, strip) + (first - STRIP * strip) / 8 + k / 4][k % 4];
                        const int h = k / 2 % 2, column = k / 4 * 2 + k % 2;
                        (strip == block ? on_diagonal : beyond)[s][h] += entry * of_column[column];
                        if constexpr (strip < block) by_column[4 * t + column] += entry * of_row[s][h];
                    }
                }
            });
        });
        if constexpr (group < block) sum_columns<tiles>(by_column, &solver.parts[1 + me.warp][begin], me.lane);
    });
    float square = 0.0f;
    for_each_strip<group>([&](auto number) {
        constexpr int strip = decltype(number)::value, s = strip != group;
        for (int h = 0; h < 2; ++h) square += (2.0f * beyond[s][h] + on_diagonal[s][h]) * of_row[s][h];
        float sum = exchange(beyond[s][0] + on_diagonal[s][0], beyond[s][1] + on_diagonal[s][1], me.lane, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (me.lane % 2 == 0) solver.parts[0][me.row(strip) + me.lane / 2 % 2 * 8] = sum;
    });
    return square;
}
#endif

// The product that multiply_vector left in parts, number i. Parts of columns up to the diagonal stay zero.
__device__ __forceinline__ float sum_parts(const Solver& solver, unsigned i) {
    float sums[GROUPS];
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
        float parts[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) parts[w] = solver.parts[1 + 4 * group + w][i];
        sums[group] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    return solver.parts[0][i] + (GROUPS == 1 ? sums[0] : sums[0] + sums[GROUPS - 1]);
}

// Sums over the team, the same bits on every thread: give_sum or give_sums, a barrier, take_sum.
__device__ __forceinline__ void give_sum(float x, float (&sums)[WARPS], const Member& me) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (me.lane == 0) sums[me.warp] = x;
}
__device__ __forceinline__ void give_sums(float first, float second, float (&sums)[2][WARPS], const Member& me) {
    float x = exchange(first, second, me.lane, 16);
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (me.lane % 16 == 0) sums[me.lane / 16][me.warp] = x;
}
__device__ __forceinline__ float take_sum(const float (&sums)[WARPS]) {
    static_assert(WARPS == 4 || WARPS == 8);
    const float4 some = *reinterpret_cast<const float4*>(&sums[0]);
    const float sum = (some.x + some.y) + (some.z + some.w);
    if (WARPS == 4) return sum;
    const float4 others = *reinterpret_cast<const float4*>(&sums[WARPS - 4]);
    return sum + ((others.x + others.y) + (others.z + others.w));
}

// Conjugate gradient from x; thread i has number i of all vectors and returns x_i. They are zero beyond the factors.
//
// Chronopoulos and Gear 1989: A is multiplied by the residual, not by the direction, whose product follows as the
// direction does. So both sums of a step go through one barrier, and the direction is in registers alone. Behind that
// barrier all wait for what each computes: sums in pairs, and quotients without the slow cases of IEEE 754.
template <int group>
__device__ __forceinline__ float solve(const Sums<group>& sums, Solver& solver, const Member& me, float x, float ridge,
                                       int steps, float tolerance) {
    const unsigned i = me.thread, place = Solver::place_of_number(i);
    store_right<group>(sums, solver, me);
    if (i < WIDTH) solver.vector[place] = x;
    // The first product is A x, for the residual; each later one is a step.
    float vector = x, enough = 0.0f;
    float direction = 0.0f, of_direction = 0.0f, curved = 0.0f, inverse = 0.0f;  // p, A p, p^T A p, 1 / r^T r
    for (int step = 0;; ++step) {
        me.sync();
        const float* from = solver.vector;
        if (step == 1) {
            const float whole = take_sum(solver.squares[0]);
            float square = take_sum(solver.squares[1]);
            const bool from_zero = !(square <= whole);
            if (from_zero) x = 0.0f, square = whole;  // a right side of zero ends here
            enough = tolerance * tolerance * whole;
            if (square <= enough) break;
            if (from_zero) {
                vector = i < FACTORS ? solver.right[place] : 0.0f;
                if constexpr (GROUPS == 2) {
                    from = solver.right;
                } else {  // rare; where it is known from where to multiply, addresses are constants
                    solver.vector[place] = vector;
                    me.sync();
                }
            }
        }
        const float of_vector = multiply_vector<group>(sums, solver, from, me) + ridge * vector * vector;
        give_sums(vector * vector, of_vector, solver.sums, me);
        me.sync();
        const float sum = sum_parts(solver, i < WIDTH ? i : WIDTH - 1);
        const float square = take_sum(solver.sums[0]), of_vectors = take_sum(solver.sums[1]);
        __syncwarp();  // all are loaded together, whatever is used
        const float product = i < FACTORS ? ridge * vector + sum : 0.0f;
        if (step == 0) {
            const float right = i < FACTORS ? solver.right[place] : 0.0f;
            vector = right - product;
            give_sums(right * right, vector * vector, solver.squares, me);
        } else {
            const float beta = square * inverse;
            curved = of_vectors - beta * beta * curved;
            const float alpha = __fdividef(square, curved);
            if (square <= enough || !(curved > 1e-37f)) break;
            direction = vector + beta * direction;
            of_direction = product + beta * of_direction;
            x += alpha * direction;
            if (step == steps) break;
            vector -= alpha * of_direction;
        }
        if (i < WIDTH) solver.vector[place] = vector;
        inverse = step == 0 ? 0.0f : __fdividef(1.0f, square);
    }
    return x;
}

// sums = F^T F, which products are then added to: all loads at once, into the registers of the sums.
template <int group>
__device__ __forceinline__ void load_gram(Sums<group>& sums, const Quads& gram, const Member& me) {
    clear(sums);
#pragma unroll
    for (int k = 0; k < quads_of_a(group); ++k) {
        float4 quad;
        if constexpr (TEAMS_WEIGH)
            quad = Work::gram()[k][me.thread];
        else
            quad = __ldcg(&gram[quad_of_a(group, k)][me.thread]);
        float(&to)[4] = sums[quad_of_a(group, k)];
        to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
    }
}
template <int group>
__device__ __forceinline__ void scale_gram(Sums<group>& sums, float scale) {
#pragma unroll
    for (int k = 0; k < quads_of_a(group); ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[quad_of_a(group, k)][e] *= scale;
}

// The longest segments, which are first, go to different blocks.
__device__ inline int first_segment(unsigned team) { return team * gridDim.x + blockIdx.x; }

struct Given {  // to the team, of the kernel's arguments
    int n_segments;
    const float* unit;
    float* solved;
    Quads* partial;
    int* arrived;
    const float* ridges;
    int cg_steps;
    float cg_tolerance;
    const Quads* gram;
    Quads* product;  // what is asked for instead of solutions
};

// What a group of a team does: multiplies the stages of its segments, one after another, and solves their rows,
// or, of `gram`, keeps the products.
template <int group, bool of_gram>
__device__ __forceinline__ void solve_rows(Work& work, const Member& member, const Given& given) {
    Turn turn = {0};
#if !BYTES
    Sums<group> sums;
    clear(sums);
#endif
#pragma unroll 1
    for (int number = first_segment(member.team); number < given.n_segments; number += TEAMS * gridDim.x) {
        const Member me = member.again();
#if BYTES
        Sums<group> sums;
        int counts[QUADS][4];
        clear(counts);
#endif
        Segment segment = {};
        float x = 0.0f, ridge = 0.0f, from_unit = 0.0f;
        bool errors = false;    // whether the stage is multiplied again, by what rounding took
        int left, before = -1;  // ratings from the stage on; the stage before, whose products may go on
        constexpr bool with_gram = IMPLICIT && !of_gram;
        if constexpr (with_gram) {
            load_gram<group>(sums, *given.gram, me);
            wait(work.barriers[turn.place].full, turn.parity);
            const Part& part = work.parts[turn.parity][turn.place];
            const float root = power_of_two(part.exponent);
            scale_gram<group>(sums, part.segment.part == 0 ? root * root : 0.0f);  // once in a row of several parts
        }
        // By all lanes, whose products of a stage are done and who have read what else is in it.
        auto release = [&](int stage) {
            __syncwarp();
            if (me.lane == 0) arrive(work.barriers[stage].empty);
        };
#pragma unroll 1
        do {
            wait(work.barriers[turn.place].full, turn.parity);
            if constexpr (!BYTES) show_to_strips();
            const Part& part = work.parts[turn.parity][turn.place];
            left = part.left;
#if BYTES
            multiply<group>(counts, work.rows[turn.place], work.beside[turn.place], min(left, STAGE), me);
#else
            multiply<group>(sums, work.rows[turn.place], work.beside[BESIDE_BYTES ? turn.place : 0], min(left, STAGE),
                            !with_gram && before < 0, errors, me);
#endif
            if (before < 0) {  // loaded while products go on: show_to_strips waits for what was loaded before it
                segment = part.segment;
                if constexpr (!of_gram) {
                    const int exponent = IMPLICIT ? 0 : part.exponent;  // of x
                    const float unit = given.unit[0], per_unit = given.unit[1];
                    ridge = given.ridges[segment.row] * per_unit * per_unit;
                    if constexpr (!TEAMS_WEIGH) from_unit = per_unit * power_of_two(-exponent);
                    if (me.thread < FACTORS && segment.count > 0)
                        x = given.solved[segment.row * (long long)FACTORS + me.thread] * unit * power_of_two(exponent);
                    if constexpr (IMPLICIT) ridge *= power_of_two(part.exponent) * power_of_two(part.exponent);
                }
            }
            if constexpr (TEAMS_WEIGH) {
                strips_wait<0>();
                if (!of_gram && !errors && part.exponent <= MOST_ROUNDED) {
                    errors = true;
                    continue;
                }
                errors = false;
                release(turn.place);
            } else if constexpr (BYTES) {
                release(turn.place);
            } else {
                strips_wait<1>();
                if (before >= 0) release(before);
            }
            before = turn.place;
            turn.advance(1);
        } while (left > STAGE || errors);
        if constexpr (!TEAMS_WEIGH && !BYTES) {
            strips_wait<0>();
            release(before);
        }
#if BYTES
        to_sums(sums, counts);
#endif
        const Member solving = me.again();
        // Of F^T F, which has more parts and nothing beside, more at once.
        constexpr int at_once = !of_gram ? 1 : FACTORS > 208 ? 2 : 4;
        if (segment.parts > 1 && !sum_parts_of_row<at_once>(sums, segment, given.partial, given.arrived, me.thread,
                                                            work.solver.last, [&] { me.sync(); }))
            continue;
        if constexpr (of_gram) {
#pragma unroll
            for (int k = 0; k < quads_of_a(group); ++k) {
                const float(&quad)[4] = sums[quad_of_a(group, k)];
                (*given.product)[quad_of_a(group, k)][me.thread] = {quad[0], quad[1], quad[2], quad[3]};
            }
            continue;
        }
        if (segment.count > 0)
            x = solve<group>(sums, work.solver, solving, x, ridge, given.cg_steps, given.cg_tolerance);
        if (segment.count > 0) x *= TEAMS_WEIGH ? given.unit[1] : from_unit;  // where registers are few, read late
        if (solving.thread < FACTORS) given.solved[segment.row * (long long)FACTORS + solving.thread] = x;
    }
}

// What all warps of a block do.
template <bool of_gram>
__device__ __forceinline__ void work_on(const Segment* segments, int n_segments, const int* indices,
                                        const float* values, const half_bits* fixed, const float* largest,
                                        float root_of_alpha, const Given& given) {
    for (int team = 0; team < TEAMS; ++team) {
        Work& work = Work::of(team);
        // Products read whole blocks, of which the columns beyond the ratings' are never copied.
        for (unsigned row = threadIdx.x; row < STAGES * STAGE; row += ALL_THREADS)
            for (int chunk = NEVER_COPIED; chunk < BLOCKS * STRIP / 8; ++chunk)
                *reinterpret_cast<uint4*>(work.rows[row / STAGE].chunk(row % STAGE, chunk)) = {0, 0, 0, 0};
        for (unsigned k = threadIdx.x; k < (1 + WARPS) * WIDTH; k += ALL_THREADS)
            work.solver.parts[k / WIDTH][k % WIDTH] = 0.0f;
        if (threadIdx.x < STAGES) {
            // The lanes' copies, and what the warp writes.
            initialize(work.barriers[threadIdx.x].full, IMPLICIT && !TEAMS_WEIGH ? 1 : 32 + 1);
            initialize(work.barriers[threadIdx.x].empty, WARPS);
        }
    }
    if constexpr (TEAMS_WEIGH && !of_gram)
        for (unsigned k = threadIdx.x; k < QUADS_OF_A * THREADS; k += ALL_THREADS) {
            const int thread = k % THREADS, group = thread / (THREADS / GROUPS), number = k / THREADS;
            if (number < quads_of_a(group))
                Work::gram()[number][thread] = (*given.gram)[quad_of_a(group, number)][thread];
        }
    __syncthreads();
    // The warp is read from lane 0, so that the compiler knows it to be uniform.
    if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) >= TEAMS * WARPS) {
        const unsigned thread = shrink_registers<FETCHING_REGISTERS>();
        const unsigned fetcher = __shfl_sync(0xffffffffu, thread / 32, 0) - TEAMS * WARPS;
        const unsigned team = TEAMS == 1 ? 0 : fetcher / FETCHERS;
        if (TEAMS * FETCHERS < FETCHING_WARPS && fetcher >= TEAMS * FETCHERS) return;
        const Walk walk = {segments, n_segments, largest, root_of_alpha, first_segment(team), thread % 32};
        fetch(Work::of(team), walk, TEAMS == 1 ? fetcher : fetcher % FETCHERS, indices, values, fixed);
    } else {
        const unsigned thread = grow_registers<TEAM_REGISTERS>();
        const unsigned warp = __shfl_sync(0xffffffffu, thread / 32, 0), team = TEAMS == 1 ? 0 : warp / WARPS;
        const Member me = {thread - team * THREADS, warp - team * WARPS, thread % 32, team};
#if BYTES
        if (me.warp == 0)
            solve_rows<0, of_gram>(Work::of(team), me, given);
        else if (me.warp == 1)
            solve_rows<1, of_gram>(Work::of(team), me, given);
        else if (me.warp == 2)
            solve_rows<2, of_gram>(Work::of(team), me, given);
        else
            solve_rows<3, of_gram>(Work::of(team), me, given);
#else
        if (GROUPS == 1 || me.warp < WARPS / GROUPS)
            solve_rows<0, of_gram>(Work::of(team), me, given);
        else
            solve_rows<GROUPS - 1, of_gram>(Work::of(team), me, given);
#endif
    }
}

// Grid: as many blocks as multiprocessors, or a team a segment where these are fewer. Block: ALL_THREADS, with dynamic
// shared memory of a Work for each team. The arguments are those of tensor_core.cu; the last two are of IMPLICIT.
extern "C" __global__ void __launch_bounds__(ALL_THREADS, 1)
    warpgroups(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
               const float* __restrict__ values, const half_bits* __restrict__ fixed, const float* __restrict__ unit,
               const float* __restrict__ largest, float* __restrict__ solved, Quads* __restrict__ partial,
               int* __restrict__ arrived, const float* __restrict__ ridges, int cg_steps, float cg_tolerance,
               float root_of_alpha, const Quads* __restrict__ gram) {
    const Given given = {n_segments, unit, solved, partial, arrived, ridges, cg_steps, cg_tolerance, gram, nullptr};
    work_on<false>(segments, n_segments, indices, values, fixed, largest, root_of_alpha, given);
}

// With IMPLICIT: product = F^T F in the layout of the team's sums, from a row of all columns with ratings of 1. Grid and
// block: as of warpgroups. Without, nothing, which compiles faster: it is not launched.
extern "C" __global__ void __launch_bounds__(ALL_THREADS, 1)
    gram(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
         const float* __restrict__ values, const half_bits* __restrict__ fixed, Quads* __restrict__ partial,
         int* __restrict__ arrived, Quads* __restrict__ product) {
#if IMPLICIT
    const Given given = {n_segments, nullptr, nullptr, partial, arrived, nullptr, 0, 0.0f, nullptr, product};
    work_on<true>(segments, n_segments, indices, values, fixed, nullptr, 1.0f, given);
#endif
}

// The geometry for the host, as of tensor_core.cu. Grid: 1. Block: 1.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ teams, int* __restrict__ team_bytes,
                                 int* __restrict__ padded, int* __restrict__ part_bytes,
                                 int* __restrict__ persistent) {
    *block = ALL_THREADS;
    *teams = TEAMS;
    *team_bytes = sizeof(Work) + (GRAM_BYTES + TEAMS - 1) / TEAMS;
    *padded = A_ROW / 2;
    *part_bytes = sizeof(Quads);
    *persistent = true;
}
