// The work list of sgd/fast.cu: the ratings of each part and tile, ordered by user, cut into segments of whole runs.
//
// A segment takes as many runs as have at most `longest` ratings together, or a single longer one. Where it ends is
// where the next one begins, so a part and tile has to be gone through in order, by one thread; there are hundreds.

// users: of the ratings in their order. offsets: (keys + 1,), where each part and tile begins. begins: (nnz,), zeros;
// becomes 1 where a segment begins.
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
