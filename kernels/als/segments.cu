// The work list of common/segments.cuh, made on the device: as gpumf.solvers.als_base.segments_of, bit for bit.
//
// Few rows have several segments. The host names these; how many come before a row says where its segments go. The host
// sorts the keys between the two kernels: parts of rows first, by which eighth of the row they are in; then the longest
// segments first, those of one length by row and part.
#include "common/segments.cuh"

// Grid and block: a thread a row. indptr: (n_rows + 1,), of ratings that begin at indptr[0]. long_rows: (n_long,), the
// rows of more than `longest` ratings, ascending. slots: (n_long + 1,), the parts of those before. keys, segments: one
// each segment, the key shifted by `bits`, the place below.
extern "C" __global__ void cut_rows(const long long* __restrict__ indptr, int n_rows, int longest,
                                    const int* __restrict__ long_rows, int n_long,
                                    const long long* __restrict__ slots, int bits, long long* __restrict__ keys,
                                    Segment* __restrict__ segments) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    int before = 0;  // rows among the long ones
    for (int end = n_long; before < end;) {
        const int middle = (before + end) / 2;
        if (long_rows[middle] < row) before = middle + 1;
        else end = middle;
    }
    const int count = (int)(indptr[row + 1] - indptr[row]);
    const int parts = count > longest ? (count - 1) / longest + 1 : 1;
    const long long place = row + slots[before] - before;
    for (int part = 0; part < parts; ++part) {
        const long long begin = (long long)part * count / parts, end = (part + 1LL) * count / parts;
        const int length = (int)(end - begin);
        segments[place + part] = {indptr[row] - indptr[0] + begin, length, row, part, parts, (int)slots[before], count};
        const long long eighth = parts > 1 ? (2LL * part + 1) * 4 / parts : 8;  // of its middle
        keys[place + part] = ((eighth * (longest + 1LL) + longest - length) << bits) | (place + part);
    }
}

// Grid and block: a thread a segment. keys: in ascending order; the bits of `places` say which segment comes there.
extern "C" __global__ void order_segments(const long long* __restrict__ keys, int n, long long places,
                                          const Segment* __restrict__ segments, Segment* __restrict__ ordered) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) ordered[k] = segments[keys[k] & places];
}
