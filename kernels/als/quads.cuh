// A thread's sums of a product of matrices, in quads as tensor cores distribute them; sums over the parts of a row.
#pragma once

#include "common/segments.cuh"

__device__ __forceinline__ void clear(float (&quad)[4]) { quad[0] = quad[1] = quad[2] = quad[3] = 0.0f; }

__device__ __forceinline__ void clear(int (&quad)[4]) { quad[0] = quad[1] = quad[2] = quad[3] = 0; }

template <int n, class Number>
__device__ __forceinline__ void clear(Number (&sums)[n][4]) {
#pragma unroll
    for (int q = 0; q < n; ++q) clear(sums[q]);
}

__device__ __forceinline__ void add(float (&quad)[4], float4 more) {
    quad[0] += more.x;
    quad[1] += more.y;
    quad[2] += more.z;
    quad[3] += more.w;
}

// For a segment that is a part of a row, by all threads of a team: sums = those of all parts, in their order, in the
// last team to arrive, which alone returns true. partial: float4 (parts, quads, threads), of all rows; arrived, last,
// sync: as of last_of_row; at_once: parts whose loads are pending together, as far as registers allow.
template <int at_once, int n, class Quads, class Sync>
__device__ __forceinline__ bool sum_parts_of_row(float (&sums)[n][4], const Segment& segment, Quads* partial,
                                                 int* arrived, unsigned thread, bool& last, Sync sync) {
    Quads* const parts = partial + segment.slot;
#pragma unroll
    for (int q = 0; q < n; ++q) parts[segment.part][q][thread] = {sums[q][0], sums[q][1], sums[q][2], sums[q][3]};
    if (!last_of_row(segment, arrived, thread, last, sync)) return false;
    clear(sums);
#pragma unroll
    for (int first = 0; first < n; first += 4)
#pragma unroll at_once
        for (int part = 0; part < segment.parts; ++part)
#pragma unroll
            for (int q = first; q < first + 4 && q < n; ++q) add(sums[q], __ldcg(&parts[part][q][thread]));
    return true;
}

// A step of two sums over lanes at once: lanes without `bit` continue with the first number, lanes with it with the
// second.
__device__ __forceinline__ float exchange(float first, float second, int lane, int bit) {
    const float given = lane & bit ? first : second;
    return (lane & bit ? second : first) + __shfl_xor_sync(0xffffffffu, given, bit);
}
