// tensor_core_draw: a step of Gibbs sampling (Salakhutdinov and Mnih 2008), products on the tensor cores, all in one launch.
//
// For every row with ratings r over columns S, and the prior's Lambda and mu, with a the precision of a rating:
//     A = F_S^T F_S + Lambda / a = L L^T,    b = F_S^T r + Lambda mu / a,    x = L^-T (L^-1 b + a^-1/2 z)
// where z is standard normal: x is drawn from N(A^-1 b, (a A)^-1). A row without ratings is drawn from its prior.
//
// What it changes against als/cumf/draw.cu, which gets its systems from hermitian.cu, and why:
//   - The products are those of tensor_core.cu: rows of factors in half precision, FP32 sums in the registers of a team,
//     long rows cut into segments. x is an exact draw given factors with relative errors of 2^-11.
//   - The sums go from registers to shared memory, where A is factored by tiles (cumf/direct.cuh): not through global
//     memory, which took 4 f^2 bytes a row.
//   - What the ratings of a row are off, the sum of (r - x f)^2 less that of r^2, takes neither the ratings nor F_S^T F_S,
//     which L has replaced: with y = L^-1 b and L^T x = y + a^-1/2 z it is
//         |a^-1/2 z|^2 - |y|^2 - x Lambda x / a + 2 x Lambda mu / a
//
// The same bits in every run. Numbers that count for its time, of a row with n ratings: 2 n f bytes of factors gathered,
// n f^2 operations of the tensor cores, f^3 / 3 others and 3 barriers for each 16 factors.
// Measured (make gains): not recorded yet.
#define IMPLICIT 0
#define WGMMA 0
#define STAGE_ROWS (FACTORS > 48 && FACTORS <= 64 ? 32 : 64)  // as of_device in gpumf.solvers.als_tensor_core
#define THROUGH_L1 (FACTORS > 64)
#define CHOLESKY 1
#include "als/products.cuh"
#include "als/cumf/direct.cuh"
#include "common/random.cuh"

static_assert(!BLOCKED && TILES == TILE_ROWS);

// Blocks on a multiprocessor: at most as many as leave a thread the registers that Cholesky's steps take, which are more
// where there is one tile, whose loops are all unrolled, and where there are no asynchronous copies.
#if __CUDA_ARCH__ < 800
constexpr int CHOLESKY_REGISTERS = TILES == 1 ? 168 : 128;
#else
constexpr int CHOLESKY_REGISTERS = TILES == 1 ? 168 : 96;
#endif
constexpr int FITTING = 65536 / (CHOLESKY_REGISTERS * THREADS * TEAMS);
constexpr int DRAW_BLOCKS = BLOCKS < FITTING ? BLOCKS : FITTING;

struct __align__(16) System {
    float lower[SYSTEM];
    float x[PADDED];  // the least pivots until the solution replaces them
    double parts[WARPS];
};
union Memory {  // of a team
    Work work;
    System system;  // after the last stage
};

// Calls entry(i, j, A_ij) for what a lane has of its warp's tiles on and below the diagonal, those on it whole, and
// right(j, b_j), both beyond the factors too. They are given less what depends on the lane: lane / 4 of an i and of the j
// of b, lane % 4 * 2 of a j of A (see multiply_add), so that places in memory differ by constants.
template <int body, class Entry, class Right>
__device__ __forceinline__ void for_each_sum(Number<body>, const Sums& sums, int lane, Entry entry, Right right) {
    for_each<n_tiles(body)>([&](auto n) {
        constexpr int tile = PLAN.first[body] + n.value, row = PLAN.row[tile] * 16, column = PLAN.column[tile] * 16;
#pragma unroll
        for (int e = 0; e < 8; ++e)
            entry(row + e / 2 % 2 * 8, column + e / 4 * 8 + e % 2, sums[2 * n.value + e / 4][e % 4]);
    });
    for_each<OPERANDS>([&](auto t) {
        if constexpr (PLAN.right_place[body][t.value] >= 0) {
            const float(&sum)[4] = sums[right_quad(body, t.value)];
            if (lane % 4 == 0)
#pragma unroll
                for (int h = 0; h < 2; ++h) right(t.value * 16 + h * 8, sum[2 * h] + sum[2 * h + 1]);
        }
    });
}

// Where entry (i, j) of a system is in its tiles, b in row FACTORS.
__device__ __forceinline__ constexpr int place(int i, int j) {
    return tile_number(i / SIDE, j / SIDE) * TILE + i % SIDE * LINE + j % SIDE;
}

// The system of a row, in tiles, from the sums of a team; unit: of F, ratings: of r, by which they were divided.
__device__ __forceinline__ void load_sums(System& system, const Sums& sums, const Team& team, const float* prior,
                                          float unit, float ratings) {
    constexpr int WHOLE = FACTORS / SIDE * SIDE;
    const int y = team.lane / 4, x = team.lane % 4 * 2;
    float* const of_lane = system.lower + y * LINE + x;
    const float* const of_prior = prior + y * (FACTORS + 1) + x;
    as_warp(team.warp, [&](auto body) {
        for_each_sum(
            body, sums, team.lane,
            [&](int i, int j, float sum) {
                const bool inside = i < WHOLE || (i + y < FACTORS && j + x < FACTORS);
                const float entry = inside ? sum * unit * unit + of_prior[i * (FACTORS + 1) + j] : 0.0f;
                if (i < WHOLE || i + y != FACTORS) of_lane[place(i, j)] = entry;
                if (i / SIDE == j / SIDE && i + y == j + x && inside) system.x[i + y] = 0x1p-21f * entry;
            },
            [&](int j, float sum) {
                const bool inside = j < WHOLE || j + y < FACTORS;
                const float entry = sum * unit * ratings;
                system.lower[place(FACTORS, j) + y] = inside ? entry + prior[(j + y) * (FACTORS + 1) + FACTORS] : 0.0f;
            });
    });
}

// Grid: a team a segment. Block: TEAMS teams of THREADS, with dynamic shared memory of a Memory each. largest: for each
// row the magnitude of its largest rating. unit: the power of two by which `fixed` is divided, and its reciprocal. prior:
// (FACTORS, FACTORS + 1), Lambda / a and, its last column, Lambda mu / a. deviation: a^-1/2. first: of the rows drawn,
// among those of which `key` is the noise's. errors: of each row, if adds_errors; of one without ratings 0.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, DRAW_BLOCKS)
    tensor_core_draw(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
                     const float* __restrict__ values, const half_bits* __restrict__ fixed,
                     const float* __restrict__ unit, const float* __restrict__ largest, float* __restrict__ solved,
                     Quads* __restrict__ partial, int* __restrict__ arrived, const float* __restrict__ prior,
                     float deviation, unsigned long long key, long long first, double* __restrict__ errors,
                     int adds_errors) {
    const int number = Team::index();
    if (number >= n_segments) return;
    const Team team = Team::here<Memory>();
    const Segment given = segments[number];
    const Segment& segment = team.keep(given);
    auto scales = [&](int row) { return scales_of<false>(largest[row], 1.0f); };
    Pipeline pipeline = {team, {indices, values, fixed}, scales(given.row), given.begin, given.length};
    Sums sums;
    if (!sum_products(sums, pipeline, segment, partial, arrived)) return;

    System& system = reinterpret_cast<Memory&>(team.work).system;
    load_sums(system, sums, team, prior, unit[0], power_of_two(-scales(segment.row).exponent));
    team.sync();
    factor_system<THREADS>(system.lower, system.lower, system.x, team);
    double error = 0.0;
    substitute_back<THREADS>(system.lower, system.x, team, [&](int k) {
        const float noise = deviation * normal_deviate(key, (first + segment.row) * (unsigned long long)FACTORS + k);
        const float y = system.lower[place(FACTORS, k)];
        error += (double)noise * noise - (double)y * y;
        return noise;
    });
    for (int k = team.thread; k < FACTORS; k += THREADS) solved[segment.row * (long long)FACTORS + k] = system.x[k];
    if (!adds_errors) return;
    for (int k = team.thread; k < FACTORS; k += THREADS) {
        float of_prior = -2.0f * prior[k * (FACTORS + 1) + FACTORS];
        for (int j = 0; j < FACTORS; ++j) of_prior += prior[j * (FACTORS + 1) + k] * system.x[j];
        error -= (double)system.x[k] * of_prior;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) error += __shfl_xor_sync(0xffffffffu, error, offset);
    if (team.lane == 0) system.parts[team.warp] = error;
    team.sync();
    if (team.thread > 0) return;
    error = 0.0;
    for (int w = 0; w < WARPS; ++w) error += system.parts[w];
    errors[segment.row] = segment.count > 0 ? error : 0.0;
}

// The sums of v v^T and, the last column, of v over the rows v of `fixed`: moments (FACTORS, FACTORS + 1), from a row of
// all columns with ratings of 1. Grid and block: as of tensor_core_draw.
extern "C" __global__ void __launch_bounds__(THREADS * TEAMS, 1)
    tensor_core_moments(const Segment* __restrict__ segments, int n_segments, const int* __restrict__ indices,
                        const float* __restrict__ values, const half_bits* __restrict__ fixed,
                        const float* __restrict__ unit, Quads* __restrict__ partial, int* __restrict__ arrived,
                        float* __restrict__ moments) {
    const int number = Team::index();
    if (number >= n_segments) return;
    const Team team = Team::here<Memory>();
    const Segment segment = segments[number];
    Pipeline pipeline = {team, {indices, values, fixed}, {0, 1.0f, 1.0f}, segment.begin, segment.length};
    Sums sums;
    if (!sum_products(sums, pipeline, segment, partial, arrived)) return;
    const float of_unit = unit[0];
    const int y = team.lane / 4, x = team.lane % 4 * 2;
    auto moment = [&](int i, int j) -> float& { return moments[i * (FACTORS + 1) + j]; };
    as_warp(team.warp, [&](auto body) {
        for_each_sum(
            body, sums, team.lane,
            [&](int i, int j, float sum) {
                if (i + y >= FACTORS || j + x >= FACTORS) return;
                moment(i + y, j + x) = sum * of_unit * of_unit;
                if (i / 16 != j / 16) moment(j + x, i + y) = sum * of_unit * of_unit;
            },
            [&](int j, float sum) {
                if (j + y < FACTORS) moment(j + y, FACTORS) = sum * of_unit;
            });
    });
}

// The geometry for the host. Grid: 1. Block: 1. Threads and teams of a block, bytes of shared memory of a team, bytes of
// a part's sums.
extern "C" __global__ void shape(int* __restrict__ block, int* __restrict__ teams, int* __restrict__ team_bytes,
                                 int* __restrict__ part_bytes) {
    *block = THREADS * TEAMS;
    *teams = TEAMS;
    *team_bytes = sizeof(Memory);
    *part_bytes = sizeof(Quads);
}
