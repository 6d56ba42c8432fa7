// Kernels that use the barriers of common/hopper.cuh wrongly, which a launch on device='emulator' has to name.
#include "common/hopper.cuh"

extern "C" __global__ void nobody_arrives(float* out) {
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) initialize(barrier, 64);
    __syncthreads();
    wait(barrier, 0);
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void one_is_missing(float* out) {
    if (threadIdx.x > 0) sync_some(1, 64);
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void uninitialized(float* out) {
    __shared__ Barrier barrier;
    arrive(barrier);
    out[threadIdx.x] = 1.0f;
}
