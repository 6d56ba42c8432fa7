// The work list of sgd/fast.cu: the ratings of each part and tile, ordered by user, cut into segments of whole runs.
//
// A segment is the most runs with at most `longest` ratings together, or a single longer run. Each begins at the end of
// the one before, so that one thread cuts a part and tile in order; there are hundreds of them.

// Grid and block: a thread a part and tile (key). users: of the ratings in order. offsets: (keys + 1,), first rating of
// each key. begins: (nnz,), zeros before; 1 at the first rating of each segment.
extern "C" __global__ void cut_segments(const int* __restrict__ users, const long long* __restrict__ offsets,
                                        int keys, int longest, unsigned char* __restrict__ begins) {
    const int key = blockIdx.x * blockDim.x + threadIdx.x;
    if (key >= keys) return;
    const long long end = offsets[key + 1];
    for (long long begin = offsets[key], next; begin < end; begin = next) {
        begins[begin] = 1;
        next = begin + longest < end ? begin + longest : end;
        if (next == end) continue;
        while (next > begin && users[next] == users[next - 1]) --next;
        if (next > begin) continue;
        for (++next; next < end && users[next] == users[next - 1];) ++next;
    }
}
