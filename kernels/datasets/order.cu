// A random order of positions, bit for bit that of gpumf.hashing.random_order: positions by their hashes. Between the
// two kernels the hashes are sorted; each then says itself which position it is of, so that none has to be moved along.
#include "common/random.cuh"

// hashes: (n,), of the positions 0 to n - 1 in the stream `key`; a thread a position.
extern "C" __global__ void hash_positions(unsigned long long* __restrict__ hashes, long long n,
                                          unsigned long long key) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) hashes[k] = splitmix64(key + k);
}

// hashes: (n,), of `hash_positions` in any order; replaced by their positions.
extern "C" __global__ void positions_of_hashes(unsigned long long* hashes, long long n, unsigned long long key) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) hashes[k] = splitmix64_inverse(hashes[k]) - key;
}
