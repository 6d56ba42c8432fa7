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
//     GPU is idle. The segments are sorted: parts of long rows by their place in the row, so that teams at work at the
//     same time gather the same factors from the cache, then the longest first.
//   - Half precision limits digits, not range (half_rows.cuh). With IMPLICIT both operands of A are multiplied by
//     sqrt(w), and the right side, with weights (1 + w) / sqrt(w), is computed from the same rounded numbers: the system
//     is the exact normal system of factors with relative errors of 2^-11, however different the weights of a row are.
//     All is divided by a power of four from the row's largest weight, F^T F in FP32.
//   - The system is solved in the registers where the tensor cores leave it (cumf, section 4: conjugate gradient, few
//     steps, from the solution of the last epoch): a lane multiplies its entries by the vector, also transposed, and
//     sums over lanes and warps follow. Where zero has a smaller residual than that solution, it starts from zero.
//   - BATCHED, a grid has a layer for each of several systems, which share ratings and work lists and have factors and
//     lambda of their own: models too small to fill a GPU train together, each with the bits that it has alone.
//   - With WGMMA, on Hopper, products have both operands in shared memory and go on while warps copy (strips.cuh).
//   - A block that has a multiprocessor for itself (from 193 factors on) takes segments one after another and fetches the
//     next one's first stages while it solves.
// The same bits in every run: no sum depends on the order in which teams arrive.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, an iteration:
//                   seconds  % of roofline  gain
//     cumf_cg_fp16  0.0769   54             –
//     tensor_core   0.0168   17             4.57 x over cumf_cg_fp16
//
// The steps to it, an iteration of explicit ALS, ratings of Netflix's shape, H100, medians of 10 in milliseconds; % of
// roofline is of reading a row of factors in half precision for each rating, in the order of the ratings:
//
//     factors                                              64    100    128    200    256
//     all of the above                                    8.6   18.2   22.8   70.4   81.0
//     columns of all copies loaded before the first       8.4   17.7   21.6   66.4   74.2
//     rows of up to 128 ratings left to short_rows.cu       -   16.9   20.0   54.7   62.6
//     THROUGH_L1 0 with 64 factors, WGMMA with 256        8.3      -      -      -   56.4
//     F_S^T r by WGMMA too, with 128 and 200; rounds with
//     half the address instructions; 64 factors: 32
//     ratings a stage                                     7.3   16.3   17.0   51.0   50.6
//     % of roofline                                        68     48     46     33     38
//     parts of long rows by their place, in another run
//     (before: 16.1, 16.9, 53.1, 53.9)                      -   15.5   16.2   49.9   50.2
//
// Measured and not kept, in milliseconds: a whole stage of 64 ratings unrolled, which is more code than is fetched in time
// (100 factors: 18.2); 32 ratings a stage with 100 factors (16.7); WGMMA with 100 factors (17.4), in stages of 32 (18.6; 128 factors: 18.1), through L1 (19.5; 18.4),
// with a fourth block a multiprocessor (21.8; 22.2); WGMMA with 64 factors or implicit feedback, ratings fetched by
// asynchronous copies, PERSISTENT blocks with 128 factors and fewer (all slower).
//
// What is left: instructions. Two to four warps a scheduler wait for each other's conjugate gradient and copies; tensor
// pipes are a third busy, shared memory three quarters at 100 factors, global memory a quarter.
#include "als/register_cg.cuh"

#ifndef BATCHED
#error "compile with -DBATCHED=0 or 1"
#endif

// Grid: a team a segment, or fewer where blocks are PERSISTENT; BATCHED, a layer a system. Block: TEAMS teams of THREADS,
// with dynamic shared memory of a Work each. largest, ridges: for each row the magnitude of its largest rating, and
// lambda n or lambda. unit: the power of two by which `fixed` is divided, its reciprocal, and BATCHED root_of_alpha. gram:
// with IMPLICIT F^T F. n_fixed, n_rows, slots: BATCHED, rows of `fixed` and of `solved`, and parts, of a system.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, BLOCKS)
    tensor_core(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
                const float* __restrict__ values, const half_bits* __restrict__ fixed, const float* __restrict__ unit,
                const float* __restrict__ largest, float* __restrict__ solved, Quads* __restrict__ partial,
                int* __restrict__ arrived, const float* __restrict__ ridges, int cg_steps, float cg_tolerance,
                float root_of_alpha, const Quads* __restrict__ gram, int n_fixed, int n_rows, int slots) {
#if BATCHED
    const long long system = blockIdx.y;
    fixed += system * n_fixed * PADDED;
    unit += system * NUMBERS;
    root_of_alpha = unit[2];
    solved += system * n_rows * FACTORS;
    partial += system * slots;
    arrived += system * slots;
    ridges += system * n_rows;
    gram += system;
#endif
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
        const Segment given = segments[number];
        const Segment& segment = team.keep(given);
        float x = team.keep(mine && given.count > 0 ? &solved[given.row * (long long)FACTORS + i] : nullptr);
        const Scales scales = scales_of<IMPLICIT>(largest[given.row], root_of_alpha);
        if constexpr (!PERSISTENT) {
            pipeline.begin = given.begin;
            pipeline.length = given.length;
            pipeline.scales = scales;
        }
        // With IMPLICIT a row begins with F^T F, which is loaded while its ratings are, into the registers of the sums.
        Sums sums;
        auto begin = [&] {
#if IMPLICIT
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                const float4 all = (*gram)[q][i];
                sums[q][0] = all.x, sums[q][1] = all.y, sums[q][2] = all.z, sums[q][3] = all.w;
            }
#else
            clear(sums);
#endif
        };
        auto go = [&] {
#if IMPLICIT
            const float scale = given.part == 0 ? scales.root * scales.root : 0.0f;  // once in a row of several parts
#pragma unroll
            for (int q = 0; q < QUADS; ++q)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[q][e] *= scale;
#endif
        };
        if (!sum_products(sums, pipeline, segment, partial, arrived, begin, go)) continue;
        const float per_unit = unit[1], ratings = IMPLICIT ? 1.0f : scales.ratings;
        const float ridge = ridges[segment.row] * per_unit * per_unit * (scales.root * scales.root);
        if (segment.count > 0) {
            if constexpr (!PERSISTENT) x = mine ? team.kept().start[i] : 0.0f;
            x = solve(sums, team, x * unit[0] * ratings, ridge, cg_steps, cg_tolerance);
            x = x * per_unit * (IMPLICIT ? 1.0f : power_of_two(-scales.exponent));
        }
        if (mine) solved[segment.row * (long long)FACTORS + i] = x;
    } while (PERSISTENT && (number += gridDim.x) < n_segments);
}

// With IMPLICIT: product = F^T F in the layout of a team's sums, from a row of all columns with ratings of 1; zeros for the right side. Grid and
// block: as of tensor_core. Without, nothing, which compiles faster: it is not launched.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, 1)
    gram(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
         const float* __restrict__ values, const half_bits* __restrict__ fixed, Quads* __restrict__ partial,
         int* __restrict__ arrived, Quads* __restrict__ product, int n_fixed, int slots) {
#if IMPLICIT
#if BATCHED
    const long long system = blockIdx.y;
    fixed += system * n_fixed * PADDED;
    partial += system * slots;
    arrived += system * slots;
    product += system;
#endif
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

// The geometry of tensor_core and gram for the host. Grid: 1. Block: 1. Threads and teams of a block, bytes of shared
// memory of a team, bytes of a part's sums; whether one block of tensor_core a multiprocessor is enough.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ teams, int* __restrict__ team_bytes,
                                 int* __restrict__ part_bytes, int* __restrict__ persistent) {
    *block = THREADS * TEAMS;
    *teams = TEAMS;
    *team_bytes = sizeof(Work);
    *part_bytes = sizeof(Quads);
    *persistent = PERSISTENT;
}
