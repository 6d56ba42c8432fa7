// Checks that numbers are finite, after every epoch of a training: one pass, at the speed of memory.
//
// The threads stride over the numbers; only threads that find a NaN or an infinity write.

// Grid and block: any. count: (1,), zero before; the number of threads that found a NaN or an infinity.
extern "C" __global__ void count_not_finite(const float* __restrict__ numbers, long long n, int* count) {
    const long long stride = gridDim.x * (long long)blockDim.x;
    bool finite = true;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n; k += stride)
        finite = finite && numbers[k] - numbers[k] == 0.0f;  // otherwise the difference is NaN
    if (!finite) atomicAdd(count, 1);
}
