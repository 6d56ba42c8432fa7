// Draws of common/random.cuh, for tests.
#include "common/random.cuh"

extern "C" __global__ void positions(unsigned long long key, unsigned long long first, long long n,
                                     long long* result) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    result[t] = random_position(key, first + t, n);
}

extern "C" __global__ void deviates(unsigned long long key, float* result) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    result[t] = normal_deviate(key, t);
}
