// Threads, registers and shared memory of cuMF's kernels, all derived from FACTORS; launch_config.cu exports
// them to the host.
#pragma once
#include "als/cumf/matrix.cuh"

__device__ constexpr int whole_warps(int threads) { return (threads + 31) / 32 * 32; }

// hermitian.cu: a thread sums a patch of 8 x 8 entries of A. The ratings are column FACTORS of theta, so that the last
// row of the sums is b.

constexpr int EDGE = 8;                              // rows and columns of a patch
constexpr int PATCH_ROWS = (FACTORS + EDGE) / EDGE;  // of A and b
constexpr int PATCHES = PATCH_ROWS * (PATCH_ROWS + 1) / 2;
constexpr int SUMS = EDGE * EDGE;
constexpr int BIN = 32;  // ratings staged together

// Groups of PATCHES threads: the fewest with which four fifths of the threads have a patch.
__device__ constexpr int fewest_groups() {
    int groups = 1;
    while (5 * groups * PATCHES < 4 * whole_warps(groups * PATCHES)) ++groups;
    return groups;
}
constexpr int GROUPS = fewest_groups();
constexpr int HERMITIAN_THREADS = whole_warps(GROUPS * PATCHES);
constexpr int HERMITIAN_BLOCKS = HERMITIAN_THREADS > 256 ? 1 : 512 / HERMITIAN_THREADS;  // on a multiprocessor

// A theta in shared memory is two planes: the first four factors of every patch row, then the second four. Eight
// threads then read 16 bytes each of eight patch rows from different banks, and so do eight rows of one patch row.
constexpr int PLANE = PATCH_ROWS * 4;
constexpr int STRIDE = 2 * PLANE + 4;

// Dynamic shared memory: two bins, later in the same place the sums of all groups but the first.
constexpr int BIN_FLOATS = 2 * BIN * STRIDE, GROUP_FLOATS = (GROUPS - 1) * SUMS * PATCHES;
constexpr int HERMITIAN_SHARED = 4 * (BIN_FLOATS > GROUP_FLOATS ? BIN_FLOATS : GROUP_FLOATS);

// direct.cu: the system of a row is A with b as row FACTORS, in padded 16 x 16 tiles.

constexpr int SYSTEM_ROWS = FACTORS / SIDE + 1;  // of tiles
constexpr int LINE = SIDE + 4;                   // floats from row to row of a tile: four rows in different banks
constexpr int TILE = SIDE * LINE;
constexpr int SYSTEM = SYSTEM_ROWS * (SYSTEM_ROWS + 1) / 2 * TILE;
constexpr int DIRECT_THREADS = SYSTEM_ROWS <= 2 ? 32 : SYSTEM_ROWS <= 4 ? 64 : SYSTEM_ROWS <= 8 ? 128 : 256;

// cg.cu: a thread a factor.

constexpr int CG_WARPS = (TILE_ROWS + 1) / 2;
