// A work list over rows of very different lengths: gpumf.models.als.half_sweeps.segments_of makes it.
//
// A block works on one segment of a row. The blocks of a long row each leave their sums in global memory, and the
// last one to arrive adds them, in the order of the parts: the same bits in every run.
#pragma once

struct Segment {
    long long begin;  // of its ratings
    int length;
    int row;
    int part, parts;  // of the row
    int slot;         // of the row's first part where parts are kept; also of its counter
    int count;        // ratings of the whole row
};

// For a row of several parts, called by all threads that work on one: whether they are the last to come here. What the
// others of the row wrote before is then visible, and the counter is ready for the next launch. sync() waits for the
// threads that share `last`.
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
