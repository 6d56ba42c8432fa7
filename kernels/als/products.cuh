// The second part of tensor_core.cu: A = F_S^T F_S and F_S^T r of a segment, or of a row of several, by tensor cores, in
// the registers of a team, from the stages of gather.cuh.
#pragma once

#if WGMMA
#include "als/strip_products.cuh"
#else
#include "als/gather.cuh"

__device__ __forceinline__ void strips_commit() {}
template <int left>
__device__ __forceinline__ void strips_wait() {}

// sums += the products of a stage's ratings, the first `here`, for one warp's tiles.
template <int body>
__device__ __forceinline__ void multiply(Number<body>, Sums& sums, const Stage& stage, const Ratings& given, int here,
                                         const Team& team) {
    const int lane = team.lane;
    // The same four 8 x 8 parts, in the register order of left and of right operands.
    const half_bits* const as_left = &stage[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];
    const half_bits* const as_right = &stage[lane % 16][lane / 16 * 8];
    auto multiply_16 = [&](int k) {
        // Columns 2 to 7 of this operand repeat the first two: nothing reads their sums.
        const uint2 ratings = *reinterpret_cast<const uint2*>(&given.right[lane / 4 % 2][k + lane % 4 * 4]);
#if IMPLICIT
        const uint2 roots = *reinterpret_cast<const uint2*>(&given.roots[k + lane % 4 * 4]);
#endif
        unsigned left[OPERANDS][4], right[OPERANDS][4];
        // step: distance between two of a tile's four registers with the same ratings.
        auto load = [&](unsigned (&to)[4], const half_bits* from, auto step) {
            load_transposed(to, from + k * (PADDED + 8));
#if IMPLICIT
#pragma unroll
            for (int j = 0; j < 4; ++j)
                to[j] = multiply_halves(to[j], (step.value == 1 ? j / 2 : j % 2) ? roots.y : roots.x);
#endif
        };
        auto reorder = [](unsigned (&to)[4], const unsigned (&from)[4]) {
            to[0] = from[0], to[1] = from[2], to[2] = from[1], to[3] = from[3];
        };
        auto times_ratings = [&](auto t) {
            if constexpr (PLAN.right_place[body][t.value] >= 0)
                multiply_add(sums[right_quad(body, t.value)], left[t.value], ratings.x, ratings.y);
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
    };
    if (STAGE == 32 && here == STAGE) {  // more rounds at once are too much code to be fetched in time
        multiply_16(0);
        multiply_16(16);
    } else {
#pragma unroll 1
        for (int k = 0; k < here; k += 16) multiply_16(k);
    }
}

template <int body>
__device__ __forceinline__ void clear_right(Number<body>, Sums& sums) {
#pragma unroll
    for (int q = 2 * n_tiles(body); q < QUADS; ++q) sums[q][0] = sums[q][1] = sums[q][2] = sums[q][3] = 0.0f;
}
#endif

// sums = the segment's products and what begin() makes of them, which go() may change when the first copies are under
// way; for a row of several segments, those of the whole row in the last team to arrive, which alone returns true.
template <class Begin, class Go>
__device__ __forceinline__ bool sum_products(Sums& sums, Pipeline& pipeline, const Segment& segment, Quads* partial,
                                             int* arrived, Begin begin, Go go) {
    const Team& team = pipeline.team;
    begin();
    auto use = [&](int s) {
        pipeline.step(s);
        const Stage& stage = pipeline.stage(s);
        const Ratings& given = pipeline.ratings(s);
        const int here = min(STAGE, pipeline.left(s));
        as_warp(team.warp, [&](auto body) { multiply(body, sums, stage, given, here, team); });
        strips_commit();
        strips_wait<1>();
    };
    if constexpr (PERSISTENT) {
        go();
        do use(pipeline.used);
        while (pipeline.left(pipeline.used++) > STAGE);
        strips_wait<0>();
    } else {
        const int n_stages = (pipeline.length + STAGE - 1) / STAGE;
        pipeline.start();
        go();
        for (int s = 0; s < n_stages; ++s) use(s);
        strips_wait<0>();
        copy_wait<0>();
        team.sync();
    }
    if (segment.parts == 1) return true;
    return sum_parts_of_row<4>(sums, segment, partial, arrived, team.thread, team.last, [&] { team.sync(); });
}

// The same of the products alone.
__device__ __forceinline__ bool sum_products(Sums& sums, Pipeline& pipeline, const Segment& segment, Quads* partial,
                                             int* arrived) {
    return sum_products(sums, pipeline, segment, partial, arrived, [&] { clear(sums); }, [] {});
}
