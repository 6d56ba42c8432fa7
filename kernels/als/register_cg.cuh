// The third part of tensor_core.cu: conjugate gradient on A where products.cuh left it, in the registers of a team.
//
// A lane multiplies its entries by the vector, also transposed, and sums over lanes and warps follow: the matrix is read
// from nowhere.
#pragma once

#include "als/products.cuh"

#if !WGMMA  // see strip_products.cuh

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

// The product that multiply_vector left in parts, number i.
__device__ __forceinline__ float sum_parts(const Solver& solver, int i) {
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) sum += solver.parts[part][i];
    return sum;
}
#endif

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
    if (SLACK) team.sync();  // slower warps may be at the row before
    for (int k = i; k < PARTS * WIDTH; k += THREADS) (&solver.parts[0][0])[k] = 0.0f;  // some are never written
    as_warp(team.warp, [&](auto body) { store_right(body, sums, solver, team); });
    // The first product is A x, for the residual; each later one is a step. All vectors and sums are zero beyond the
    // factors.
    float p = x, residual = 0.0f, square = 0.0f, enough = 0.0f;
    for (int step = 0; step <= steps; ++step) {
        if (i < WIDTH) solver.direction[i] = p;
        team.sync();
        const float b = i < FACTORS ? solver.right[i] : 0.0f;
        float product = ridge * p * p;
        as_warp(team.warp, [&](auto body) { product += multiply_vector(body, sums, solver, team); });
        product = sum_warp(step == 0 ? b * b : product, team, solver.sums[0]);
        team.sync();
        float q = ridge * p;
        if (i < WIDTH) q += sum_parts(solver, i);
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
