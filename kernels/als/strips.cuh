// The plan of tensor_core.cu with WGMMA, Hopper's own products: which warpgroup of a team computes which blocks of A.
// plan.cuh is the plan for all other GPUs, and for fewer factors.
//
// A block is 64 x 64. An instruction of a warpgroup multiplies 16 ratings for 64 rows and two or three blocks of columns
// that have a constant distance; both operands are read from shared memory, and it goes on while the warps copy and read.
// A is symmetric: of two blocks opposite each other one is computed. So two warpgroups of four warps run the same code,
// on other blocks, with two instructions:
//
//           j = 0    1    2    3
//     i = 0  g 1.0            g 1.0        group 0: row 1, columns 0 1 (first instruction), row 3, columns 1 2 3 (second)
//         1  g 0.0  g 0.0                  group 1: row 0, columns 0 3,                     row 2, columns 0 1 2
//         2  g 1.1  g 1.1  g 1.1
//         3         g 0.1  g 0.1  g 0.1
//
// The product with the ratings, F_S^T r, is as without WGMMA, of 16 factors: warp w has factors 16 w .. and 16 (w + 8) ..
#pragma once

#include "als/half_rows.cuh"

constexpr int BLOCK_ROWS = 64, STRIPS = (PADDED + BLOCK_ROWS - 1) / BLOCK_ROWS;
static_assert(STRIPS != 3);
constexpr int WIDTH = STRIPS * BLOCK_ROWS;  // of the vectors, zeros behind the factors
constexpr int WARPS = STRIPS == 4 ? 8 : 4;
constexpr bool BLOCKED = STRIPS == 4;
constexpr int PARTS = 1 + (STRIPS > 1) * WARPS;  // of a product with a vector: of rows, and of transposes by warp

// Of a group's instructions: the blocks of columns, their first quad; the row of blocks, the columns.
constexpr int INSTRUCTIONS = STRIPS > 1 ? 2 : 1;
__device__ constexpr int columns_of(int instruction) { return STRIPS / 4 + 1 + instruction; }
__device__ constexpr int quad_of(int instruction) { return instruction * 8 * columns_of(0); }
__device__ constexpr int row_of(int group, int instruction) {
    return STRIPS == 4 ? 2 * instruction + 1 - group : instruction;
}
__device__ constexpr int column_of(int group, int instruction, int k) {
    return STRIPS < 4 ? k : instruction ? 1 - group + k : k * (1 + 2 * group);
}
// 16 x 8 sums of a warp: of its blocks, of F_S^T r.
constexpr int OF_BLOCKS = quad_of(INSTRUCTIONS - 1) + 8 * columns_of(INSTRUCTIONS - 1);
constexpr int QUADS = OF_BLOCKS + (STRIPS > 1 ? 2 : 1);

// A group is as a body of code in plan.cuh, and all have the same.
template <class Use>
__device__ __forceinline__ void as_warp(int, Use use) {
    use(Number<0>{});
}
