// The work list of sgd/fast.cu: users dealt to parts, the ratings of each part and tile (a key) ordered by user, and
// these cut into segments of whole runs; as gpumf.solvers.sgd_partition.tiled, bit for bit.
//
// A segment is the most runs with at most `longest` ratings together, or a single longer run. Each begins at the end of
// the one before, so that one thread cuts a part and tile in order; there are hundreds of them.

constexpr int CHUNK = 256;  // users, in their shuffled order, of a block

// sums: (grid,), the ratings of each chunk. order: (n,), the users. Grid: a block a chunk. Block: CHUNK.
extern "C" __global__ void sum_counts(const long long* __restrict__ order, int n, const long long* __restrict__ counts,
                                      unsigned long long* __restrict__ sums) {
    const int k = blockIdx.x * CHUNK + threadIdx.x;
    if (k < n) atomicAdd(&sums[blockIdx.x], (unsigned long long)counts[order[k]]);
}

// Deals the users to parts with about as many of all nnz ratings each, in the shuffled order. before: (grid,), ratings of
// the chunks before. rank: (n,), the place of each user in the order. part_of: (n,). Grid: a block a chunk. Block: CHUNK.
extern "C" __global__ void deal_users(const long long* __restrict__ order, int n, const long long* __restrict__ counts,
                                      const long long* __restrict__ before, int n_parts, long long nnz,
                                      int* __restrict__ rank, int* __restrict__ part_of) {
    __shared__ long long of_chunk[CHUNK];
    const int t = threadIdx.x, k = blockIdx.x * CHUNK + t;
    const long long user = k < n ? order[k] : 0;
    of_chunk[t] = k < n ? counts[user] : 0;
    __syncthreads();
    if (k >= n) return;
    long long ratings = before[blockIdx.x];
    for (int i = 0; i < t; ++i) ratings += of_chunk[i];
    rank[user] = k;
    part_of[user] = (int)(ratings * n_parts / nnz);
}

// keys: (n,), the part and tile of each rating of an order. Grid and block: a thread a rating.
extern "C" __global__ void key_of_ratings(const long long* __restrict__ order, long long n,
                                          const int* __restrict__ users, const int* __restrict__ items,
                                          const int* __restrict__ part_of, const int* __restrict__ tile_of,
                                          int n_tiles, int* __restrict__ keys) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) keys[k] = part_of[users[order[k]]] * n_tiles + tile_of[items[order[k]]];
}

// Grid and block: a thread a part and tile (key). users: of the ratings in order. offsets: (keys + 1,), first rating of
// each key. room: (keys,), where the first segment of each key goes in `begins`, which says where segments begin. cut:
// (keys,), how many segments a key has.
extern "C" __global__ void cut_segments(const int* __restrict__ users, const long long* __restrict__ offsets,
                                        int keys, int longest, const long long* __restrict__ room,
                                        long long* __restrict__ begins, int* __restrict__ cut) {
    const int key = blockIdx.x * blockDim.x + threadIdx.x;
    if (key >= keys) return;
    const long long end = offsets[key + 1];
    int segments = 0;
    for (long long begin = offsets[key], next; begin < end; begin = next) {
        begins[room[key] + segments++] = begin;
        next = begin + longest < end ? begin + longest : end;
        if (next == end) continue;
        while (next > begin && users[next] == users[next - 1]) --next;
        if (next > begin) continue;
        for (++next; next < end && users[next] == users[next - 1];) ++next;
    }
    cut[key] = segments;
}

// Brings the segments of all keys together. firsts: (keys + 1,), of each key's segments; at the end of `segments` stands
// nnz. Grid: a block a key. Block: any.
extern "C" __global__ void join_segments(const long long* __restrict__ begins, const long long* __restrict__ room,
                                         const int* __restrict__ firsts, long long nnz,
                                         long long* __restrict__ segments) {
    const int first = firsts[blockIdx.x], n = firsts[blockIdx.x + 1] - first;
    for (int k = threadIdx.x; k < n; k += blockDim.x) segments[first + k] = begins[room[blockIdx.x] + k];
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) segments[firsts[gridDim.x]] = nnz;
}
