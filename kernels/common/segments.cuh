// A work list over rows of very different lengths, by gpumf.solvers.als_base.segments_of or als/segments.cu.
//
// A block works on one segment of a row. The blocks of a long row each leave their sums in global memory, and the
// last one to arrive adds them, in the order of the parts: the same bits in every run.
#pragma once

struct Segment {
    long long begin;  // of its ratings
    int length;
    int row;
    int part, parts;  // of the row
    int slot;         // of the row's first part in the array of parts; also of its counter
    int count;        // ratings of the whole row
};

// For a row of several parts, called by all threads of one part: true in the last part to arrive, to which the writes
// of the other parts are then visible; resets the counter for the next launch. sync() waits for the threads that share
// `last`.
template <class Sync>
__device__ inline bool last_of_row(const Segment& segment, int* arrived, int thread, bool& last, Sync sync) {
    __threadfence();
    sync();
    if (thread == 0) {
        last = atomicAdd(&arrived[segment.slot], 1) == segment.parts - 1;
        if (last) arrived[segment.slot] = 0;
    }
    sync();
    if (last) __threadfence();
    return last;
}

// The same where a block works on a part.
__device__ inline bool last_part(const Segment& segment, int* arrived) {
    __shared__ bool last;
    return last_of_row(segment, arrived, threadIdx.x, last, [] { __syncthreads(); });
}
