// Needs far more registers than a thread of two full blocks can have.
extern "C" __global__ void __launch_bounds__(1024, 2) fast_but_spills(float* data) {
    float x[96];
#pragma unroll
    for (int k = 0; k < 96; ++k) x[k] = data[k * 1024 + threadIdx.x];
    __syncthreads();  // all of them are loaded before the first is stored
#pragma unroll
    for (int k = 0; k < 96; ++k) data[k * 1024 + threadIdx.x] = x[95 - k] * x[k];
}
