// Sums of absolute and squared errors of a thread, then of its block, whose size is a power of two.
// The order of the additions is fixed by the launch, so the same errors give the same bits.
#pragma once

constexpr int MAX_THREADS = 1024;

struct ErrorSums {
    double absolute = 0.0, squared = 0.0;

    __device__ void add(double error) {
        absolute += fabs(error);
        squared += error * error;
    }
    __device__ void add_pair(const double* pair) {
        absolute += pair[0];
        squared += pair[1];
    }
    // pair = the block's sums. All threads of the block call it, once a kernel.
    __device__ void store_of_block(double* pair) const {
        __shared__ double sums[2][MAX_THREADS];
        sums[0][threadIdx.x] = absolute;
        sums[1][threadIdx.x] = squared;
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) {
                sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
                sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
            }
        }
        if (threadIdx.x == 0) {
            pair[0] = sums[0][0];
            pair[1] = sums[1][0];
        }
    }
};
