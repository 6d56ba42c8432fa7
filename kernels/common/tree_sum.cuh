// A sum over the threads of a block, in shared memory, for blocks of a thread a factor.
#pragma once

// Each round adds pairs of sums (newgpusgd, Figure 7). The result is valid on every thread until the next barrier.
// sums: one number a thread.
template <class Real>
__device__ inline Real tree_sum(Real x, Real* sums) {
    const int t = threadIdx.x, n = blockDim.x;
    sums[t] = x;
    __syncthreads();
    for (int distance = 1; distance < n; distance *= 2) {
        if (t % (2 * distance) == 0 && t + distance < n) sums[t] += sums[t + distance];
        __syncthreads();
    }
    return sums[0];
}
