// The plan of tensor_core.cu with WGMMA, Hopper's own products: which warpgroup of a team computes which blocks of A.
// plan.cuh is the plan for all other GPUs, for implicit feedback, and where it is faster.
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
// Each instruction is followed by one for the product of its row of blocks with the ratings, a part of F_S^T r.
#pragma once

#include "als/half_rows.cuh"
#include "common/hopper.cuh"

constexpr bool BLOCKED = TILES > 12;
constexpr int GROUPS = BLOCKED ? 2 : 1, WARPS = 4 * GROUPS;
constexpr int BLOCK_ROWS = 64, WIDTH = 2 * GROUPS * BLOCK_ROWS;  // of the vectors
static_assert(PADDED <= WIDTH && PADDED > WIDTH - BLOCK_ROWS);
constexpr int PARTS = 1 + WARPS;  // of a product with a vector: of rows, and of transposes by warp

// Of a group's instruction 0 or 1: the blocks of columns, their first quad; the row of blocks, the columns.
__device__ constexpr int columns_of(int instruction) { return GROUPS + instruction; }
__device__ constexpr int quad_of(int instruction) { return instruction * 8 * columns_of(0); }
__device__ constexpr int row_of(int group, int instruction) { return BLOCKED ? 2 * instruction + 1 - group : instruction; }
__device__ constexpr int column_of(int group, int instruction, int k) {
    if (!BLOCKED) return k;
    return instruction ? 1 - group + k : k * (1 + 2 * group);
}
constexpr int OF_BLOCKS = 8 * (columns_of(0) + columns_of(1));  // 16 x 8 sums of a warp: of its blocks
constexpr int QUADS = OF_BLOCKS + 2;                            // and of F_S^T r

// A group is as a body of code in plan.cuh, and all have the same.
template <class Use>
__device__ __forceinline__ void as_warp(int, Use use) {
    use(Number<0>{});
}
