// The first part of tensor_core.cu: what a team of warps is, and the pipeline that brings a segment's ratings and their
// rows of factors to shared memory, stages ahead of the products (products.cuh).
#pragma once

#if !defined(FACTORS) || !defined(IMPLICIT) || !defined(STAGE_ROWS) || !defined(WGMMA) || !defined(THROUGH_L1)
#error "compile with -DFACTORS=f; -DIMPLICIT, -DWGMMA and -DTHROUGH_L1=0 or 1; -DSTAGE_ROWS=64, or 32 for less shared memory"
#endif

#if WGMMA && IMPLICIT
#error "warpgroups.cu has Hopper's own products for implicit feedback"
#endif

#if WGMMA
#include "als/strips.cuh"
#else
#include "als/plan.cuh"
#endif
#include "als/quads.cuh"
#include "common/async_mma.cuh"

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
constexpr int AHEAD = BLOCKED ? 3 - WGMMA : 1;
#endif
// Where two warpgroups share a multiprocessor's tensor cores alone, one may be a stage ahead of the other, so that it
// copies while the other's products go on.
constexpr int SLACK = WGMMA && BLOCKED;
constexpr int STAGES = AHEAD + 2 + WGMMA + SLACK;  // products with WGMMA go on for a stage longer
constexpr int OF_RATINGS = STAGES + 1 + SLACK;     // written while a slow warp still reads its last stage
constexpr int CHUNKS = PADDED / 8;  // of 16 bytes, in a row of factors
constexpr int ROW_LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
constexpr int ROWS = THREADS / ROW_LANES;              // copied at a time
constexpr int COPIES = (STAGE + ROWS - 1) / ROWS;  // consecutive rows of which a thread copies a chunk
constexpr int READS = (STAGE + THREADS - 1) / THREADS;

// A thread's sums, in quads as the tensor cores distribute them: the lane's share of the warp's 16 x 16 tiles, two of
// 16 x 8 each; then of F_S^T r, 16 x 8 of which two columns are used.
using Sums = float[QUADS][4];
using Quads = float4[QUADS][THREADS];  // the sums of a team in global memory

// Registers of a thread in addition to its sums: operands, addresses; with IMPLICIT, weights. On Hopper teams of one
// warp are faster with fewer, since more of them are resident; on other architectures they would spill. With IMPLICIT
// and 49 to 64 factors two warps are faster with fewer there, too, although they spill a few.
#if __CUDA_ARCH__ == 900
constexpr int OTHER_REGISTERS = WARPS == 1 ? 48 : TILES == 12 ? 56 : 64;
constexpr int OF_WEIGHTS = TILES == 4 ? 0 : 16;
#else
constexpr int OTHER_REGISTERS = 64, OF_WEIGHTS = 16;
#endif
constexpr int REGISTERS = 4 * QUADS + OTHER_REGISTERS + OF_WEIGHTS * IMPLICIT;
constexpr int BLOCKS = REGISTERS * THREADS * TEAMS < 65536 ? 65536 / (REGISTERS * THREADS * TEAMS) : 1;

// Shared memory of a team.

#if WGMMA
using Stage = half_bits[WIDTH / BLOCK_ROWS][STAGE][BLOCK_ROWS];  // chunks permuted: eight rows in different banks
#else
using Stage = half_bits[STAGE][PADDED + 8];  // eight rows in different banks
#endif
// Eight numbers of a row.
__device__ __forceinline__ half_bits* chunk_of(Stage& stage, unsigned row, unsigned chunk) {
#if WGMMA
    return &stage[chunk / 8][row][(chunk % 8 ^ row % 8) * 8];
#else
    return &stage[row][chunk * 8];
#endif
}
__device__ __forceinline__ const half_bits* chunk_of(const Stage& stage, unsigned row, unsigned chunk) {
    return chunk_of(const_cast<Stage&>(stage), row, chunk);
}
struct Ratings {  // of a stage
    int columns[STAGE];
    // The right side's values in FP16, and their rounding errors, and the roots of the weights; as operands of products.
#if WGMMA
    half_bits right[STAGE / 8][8][8];
    __device__ half_bits& right_of(int t, int part) { return right[t / 8][part][t % 8]; }
#else
    half_bits right[2][STAGE];
    __device__ half_bits& right_of(int t, int part) { return right[part][place_of(t)]; }
#endif
#if IMPLICIT
    half_bits roots[STAGE];
#endif
};
struct __align__(16) Buffers {
    Stage stages[STAGES];
    Ratings ratings[OF_RATINGS];
};
struct Solver {
    float direction[WIDTH];
    float right[WIDTH];
    float parts[PARTS][WIDTH];  // of a product, see part_of
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
#if !WGMMA
    int origins[2];  // see `origin`

    // The 16 factors that are number t of the warp's body.
    template <int t>
    __device__ int row() const {
        return t + origins[t >= FIRST];
    }
#endif

    // Memory: what a team has of the block's shared memory, at least Work, which comes first.
    template <class Memory = Work>
    __device__ static Team here() {
        extern __shared__ __align__(WGMMA ? 1024 : 16) float shared[];
        __shared__ bool last[TEAMS];
        const int team = number(), thread = threadIdx.x - team * THREADS;
        // Read from lane 0, so that the compiler knows it to be uniform in the warp.
        const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
        Work& work = reinterpret_cast<Work&>(reinterpret_cast<Memory*>(shared)[team]);
#if WGMMA
        return {work, last[team], thread, warp, (int)threadIdx.x % 32};
#else
        return {work, last[team], thread, warp, (int)threadIdx.x % 32, {origin(warp, false), origin(warp, true)}};
#endif
    }

    // What is used after a segment's products, where it takes no registers meanwhile: in shared memory, unless blocks
    // are PERSISTENT, which would overwrite it while slower warps read it.
    struct Kept {
        Segment segment;
        float start[THREADS];
    };
    __device__ static Kept& kept() {
        __shared__ Kept of_teams[TEAMS];
        return of_teams[number()];
    }
    __device__ const Segment& keep(const Segment& segment) const {
        if constexpr (PERSISTENT) return segment;
        if (thread == 0) kept().segment = segment;  // to be read behind a barrier
        return kept().segment;
    }
    // The number at a place, or zero, loaded early to hide the latency; not PERSISTENT: into kept().start.
    __device__ float keep(const float* from) const {
        if constexpr (PERSISTENT) return from ? *from : 0.0f;
        if (from) copy_async<4>(&kept().start[thread], from);  // committed with the first rows of factors
        return 0.0f;
    }

    // In the block; known to be uniform where it is alone.
    __device__ static int number() { return TEAMS == 1 ? 0 : threadIdx.x / THREADS; }
    __device__ static int index() { return blockIdx.x * TEAMS + number(); }

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

// A pipeline of stages: ratings of stage s + AHEAD + 2 (with SLACK one later) are read to registers while the factors of
// stage s + AHEAD are copied to shared memory and those of stage s are multiplied. Where blocks are PERSISTENT it goes on from segment to
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
    __device__ Ratings& ratings(int s) const { return team.work.buffers.ratings[s % OF_RATINGS]; }

    // PERSISTENT: `left` of stage s, for all threads.
    __device__ static int& shared_left(int s) {
        __shared__ int left[OF_RATINGS];
        return left[s % OF_RATINGS];
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
            right = weigh_rating(value[k], scales, [&](half_bits root) { to.roots[place_of(t)] = root; });
#else
            right *= scales.ratings;
#endif
            const half_bits whole = to_half(right);
            to.columns[t] = column[k];
            to.right_of(t, 0) = whole;
            to.right_of(t, 1) = to_half(right - from_half(whole));
        }
    }

    __device__ void copy(int s) {
        const int chunk = team.thread % ROW_LANES, first = team.thread / ROW_LANES * COPIES;
        const int left = min(STAGE, this->left(s));
        if (chunk < CHUNKS && first < STAGE) {
            const char* const from = reinterpret_cast<const char*>(rows.fixed) + chunk * 16;
            int columns[COPIES];  // of all before any is copied: no load is moved across a copy, and each takes a while
#pragma unroll
            for (int k = 0; k < COPIES; ++k)
                columns[k] = ratings(s).columns[STAGE % COPIES ? min(first + k, STAGE - 1) : first + k];
            auto copy_row = [&](int k, bool valid) {
                copy_async<THROUGH_L1>(chunk_of(stage(s), first + k, chunk), from + columns[k] * (long long)(2 * PADDED), valid);
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
#if WGMMA
        if (SLACK && team.thread == 0)
            for (int s = 0; s < 2; ++s) initialize(ready(s), THREADS);
        // Products read whole blocks.
        for (int row = team.thread; CHUNKS < WIDTH / 8 && row < STAGES * STAGE; row += THREADS)
            for (int chunk = CHUNKS; chunk < WIDTH / 8; ++chunk)
                copy_async(chunk_of(stage(row / STAGE), row % STAGE, chunk), rows.fixed, false);
#endif
#pragma unroll
        for (int s = 0; s <= AHEAD + SLACK; ++s) {
            read(s);
            store(s);
        }
        read(AHEAD + SLACK + 1);
        team.sync();
#pragma unroll
        for (int s = 0; s < AHEAD; ++s) copy(s);
#if WGMMA
        if constexpr (SLACK) {
            copy_wait<AHEAD - 1>();
            show_to_strips();
            arrive(ready(0));
        }
#endif
    }

#if WGMMA
    // With SLACK: complete when all threads have arrived, each with its part of stage s.
    __device__ static Barrier& ready(int s) {
        __shared__ Barrier of_stages[2];
        return of_stages[s % 2];
    }
#endif

    // Stage s can be used.
    __device__ void step(int s) {
        copy(s + AHEAD);
        store(s + AHEAD + SLACK + 1);
        read(s + AHEAD + SLACK + 2);
        copy_wait<AHEAD - SLACK>();
#if WGMMA
        show_to_strips();
        if constexpr (SLACK) {
            arrive(ready(s + 1));
            wait(ready(s), s / 2 % 2);
            return;
        }
#endif
        team.sync();
    }
};
