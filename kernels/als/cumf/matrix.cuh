// A in global memory: the 16 x 16 tiles of its lower triangle, in FP32 or FP16.
//
// Tile (i, j), j <= i, is number i (i + 1) / 2 + j; within a tile, row by row. For 40 factors:
//
//        columns 0..15  16..31  32..47
//     rows  0..15  [ 0 ]
//          16..31  [ 1 ]   [ 2 ]
//          32..47  [ 3 ]   [ 4 ]   [ 5 ]
//
// Tiles on the diagonal have both triangles, so that a row of A is: rows of the tiles left of the diagonal and on it,
// then columns of the tiles below it. Half the bytes of the full matrix. Entries beyond FACTORS have no meaning.
#pragma once
#include "common/async_mma.cuh"

#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

constexpr int SIDE = 16;                               // rows and columns of a tile
constexpr int TILE_ROWS = (FACTORS + SIDE - 1) / SIDE;
constexpr int MATRIX = TILE_ROWS * (TILE_ROWS + 1) / 2 * SIDE * SIDE;  // entries of one A

__device__ constexpr int tile_number(int i, int j) { return i * (i + 1) / 2 + j; }

struct Place {
    int i, j;
};

// (i, j) with tile_number(i, j) = k.
__device__ inline Place place_in_triangle(int k) {
    const int i = (int)((sqrtf(8.0f * k + 1.0f) - 1.0f) * 0.5f);  // exact: k = i (i + 1) / 2 gives a square
    return {i, k - i * (i + 1) / 2};
}

// The two types of an entry: one value, four values read, eight values written.

__device__ inline float value_of(float x) { return x; }
__device__ inline float value_of(half_bits x) { return from_half(x); }

__device__ inline float4 load4(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ inline float4 load4(const half_bits* at) {
    const uint2 two = *reinterpret_cast<const uint2*>(at);
    return {from_half((half_bits)two.x), from_half((half_bits)(two.x >> 16)), from_half((half_bits)two.y),
            from_half((half_bits)(two.y >> 16))};
}

__device__ inline void store8(float* at, const float (&x)[8]) {
    *reinterpret_cast<float4*>(at) = {x[0], x[1], x[2], x[3]};
    *reinterpret_cast<float4*>(at + 4) = {x[4], x[5], x[6], x[7]};
}
__device__ inline void store8(half_bits* at, const float (&x)[8]) {
    auto pair = [&](int k) { return to_half(x[k]) | (unsigned)to_half(x[k + 1]) << 16; };
    *reinterpret_cast<uint4*>(at) = {pair(0), pair(2), pair(4), pair(6)};
}
