// A random order of positions, bit for bit that of gpumf._util.counter_rng.random_order: positions sorted by their hashes. The
// host sorts the hashes between the two kernels; the second inverts the hash, so that no position is sorted along with
// it.
#include "common/random.cuh"

// hashes: (n,), of the positions 0 to n - 1 in the stream `key`. Grid and block: a thread a position.
extern "C" __global__ void hash_positions(unsigned long long* __restrict__ hashes, long long n,
                                          unsigned long long key) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) hashes[k] = splitmix64(key + k);
}

// hashes: (n,), of `hash_positions` in any order; replaced by their positions. Grid and block: a thread a hash.
extern "C" __global__ void positions_of_hashes(unsigned long long* hashes, long long n, unsigned long long key) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) hashes[k] = splitmix64_inverse(hashes[k]) - key;
}
