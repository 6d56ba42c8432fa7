// What products.cuh and register_cg.cuh do with a warp's tiles of A, for the blocks of a warpgroup (strips.cuh).
#pragma once

#include "als/gather.cuh"

// sums += the products of a stage's ratings, the first `here`, for a warpgroup's blocks; goes on behind the call.
__device__ __forceinline__ void multiply(Number<0>, Sums& sums, const Stage& stage, const Ratings& given, int here,
                                         const Team& team) {
    const int group = team.warp / 4;
    auto multiply_16 = [&](int k) {
        strips_begin();
        for_each<2>([&](auto number) {
            constexpr int instruction = decltype(number)::value;
            const StripOperand left = {stage[row_of(group, instruction)][k], 0};
            const int first = column_of(group, instruction, 0), distance = column_of(group, instruction, 1) - first;
            multiply_strip<columns_of(instruction) * BLOCK_ROWS, quad_of(instruction)>(
                sums, left, StripOperand{stage[first][k], distance * (int)sizeof stage[0]});
            multiply_strip<8, OF_BLOCKS + instruction>(sums, left, PairOperand{given.right[k / 8][0]});
        });
    };
    if (here == STAGE) {
#pragma unroll
        for (int k = 0; k < STAGE; k += 16) multiply_16(k);
    } else {
#pragma unroll 1
        for (int k = 0; k < here; k += 16) multiply_16(k);
    }
}

__device__ __forceinline__ void clear_right(Number<0>, Sums& sums) {
#pragma unroll
    for (int q = OF_BLOCKS; q < QUADS; ++q) sums[q][0] = sums[q][1] = sums[q][2] = sums[q][3] = 0.0f;
}

// solver.right = F_S^T r, the part of one warp.
__device__ __forceinline__ void store_right(Number<0>, const Sums& sums, Solver& solver, const Team& team) {
    for_each<2>([&](auto instruction) {
        const float(&right)[4] = sums[OF_BLOCKS + instruction.value];
        const int first = row_of(team.warp / 4, instruction.value) * BLOCK_ROWS + team.warp % 4 * 16;
        for (int h = 0; h < 2; ++h)
            if (team.lane % 4 == 0) solver.right[first + team.lane / 4 + h * 8] = right[2 * h] + right[2 * h + 1];
    });
}

// by_row += the product of a warp's 16 rows of a block with the direction; off the diagonal, of_transpose = the product
// of their transpose with it.
template <bool on_diagonal, int quad>
__device__ __forceinline__ void multiply_block(const Sums& sums, float (&by_row)[2], const float (&of_row)[2],
                                               const float* direction, float* of_transpose, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float by_column[8] = {};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const float(&entry)[4] = sums[quad + half * 4 + q];
            const float2 of_column = *reinterpret_cast<const float2*>(&direction[half * 32 + q * 8 + lane % 4 * 2]);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                by_row[h] += entry[2 * h] * of_column.x;
                by_row[h] += entry[2 * h + 1] * of_column.y;
                if constexpr (!on_diagonal) {
                    by_column[2 * q] += entry[2 * h] * of_row[h];
                    by_column[2 * q + 1] += entry[2 * h + 1] * of_row[h];
                }
            }
        }
        if constexpr (!on_diagonal) {
            float of_four[2];  // columns of quads, each with the sum over eight lanes
#pragma unroll
            for (int e = 0; e < 2; ++e)
                of_four[e] = exchange(exchange(by_column[e], by_column[4 + e], lane, 16),
                                      exchange(by_column[2 + e], by_column[6 + e], lane, 16), lane, 8);
            const int column = lane / 16 * 16 + lane / 8 % 2 * 8 + lane % 4 * 2 + lane / 4 % 2;
            of_transpose[half * 32 + column] = exchange(of_four[0], of_four[1], lane, 4);
        }
    }
}

// solver.parts = the products of a warp's blocks, and of their transposes off the diagonal, with the direction p. Returns
// the lane's part of p^T A p.
__device__ __forceinline__ float multiply_vector(Number<0>, const Sums& sums, Solver& solver, const Team& team) {
    const int lane = team.lane, group = team.warp / 4, warp = team.warp % 4;
    float square = 0.0f;
    for_each<2>([&](auto number) {
        constexpr int instruction = decltype(number)::value;
        const int row = row_of(group, instruction) * BLOCK_ROWS + warp * 16 + lane / 4;
        const float of_row[2] = {solver.direction[row], solver.direction[row + 8]};
        float on_diagonal[2] = {}, off[2] = {};
        for_each<columns_of(instruction)>([&](auto k) {
            constexpr int quad = quad_of(instruction) + 8 * decltype(k)::value;
            const int block = column_of(group, instruction, decltype(k)::value), column = block * BLOCK_ROWS;
            const float* const direction = &solver.direction[column];
            if (block == row_of(group, instruction))
                multiply_block<true, quad>(sums, on_diagonal, of_row, direction, nullptr, lane);
            else
                multiply_block<false, quad>(sums, off, of_row, direction, &solver.parts[1 + team.warp][column], lane);
        });
#pragma unroll
        for (int h = 0; h < 2; ++h) square += (2.0f * off[h] + on_diagonal[h]) * of_row[h];
        float sum = exchange(off[0] + on_diagonal[0], off[1] + on_diagonal[1], lane, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (lane % 2 == 0) solver.parts[0][row + lane / 2 % 2 * 8] = sum;
    });
    return square;
}

// The product that multiply_vector left in parts, number i.
__device__ __forceinline__ float sum_parts(const Solver& solver, int i) {
    float sum = solver.parts[0][i];
    for (int group = 0; group < GROUPS; ++group) {
        // Of the last two columns of blocks group 0 has one off the diagonal in the first alone, group 1 in the second.
        const int block = i / BLOCK_ROWS;
        if (BLOCKED ? block < 2 || block == 2 + group : block == 0)
#pragma unroll
            for (int w = 0; w < 4; ++w) sum += solver.parts[1 + 4 * group + w][i];
    }
    return sum;
}
