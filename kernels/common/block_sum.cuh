// A pair of numbers added up over a block, whose size is a power of two.
#pragma once

constexpr int MAX_THREADS = 1024;

// The result is valid on thread 0.
__device__ inline void block_sum(double& a, double& b) {
    __shared__ double sums[2][MAX_THREADS];
    sums[0][threadIdx.x] = a;
    sums[1][threadIdx.x] = b;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
            sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
        }
    }
    a = sums[0][0];
    b = sums[1][0];
}
