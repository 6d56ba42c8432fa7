// Copies what is learned, after every epoch of a training, and checks that it is finite: one pass, at the speed of memory.
//
// The threads stride over the numbers; only threads that find a NaN or an infinity write to `found`.

// Grid and block: any. copy: (n,), may be the numbers themselves. found: (1,); grows by the number of threads that found
// a NaN or an infinity.
extern "C" __global__ void copy_finite(const float* numbers, long long n, float* copy, int* found) {
    const long long stride = gridDim.x * (long long)blockDim.x;
    bool finite = true;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n; k += stride) {
        const float number = numbers[k];
        copy[k] = number;
        finite = finite && number - number == 0.0f;  // otherwise the difference is NaN
    }
    if (!finite) atomicAdd(found, 1);
}

// As copy_finite, without copies, of several systems of n numbers each. Grid and block: any; a layer a system. found:
// (systems,).
extern "C" __global__ void check_finite(const float* __restrict__ numbers, long long n, int* __restrict__ found) {
    const long long stride = gridDim.x * (long long)blockDim.x;
    numbers += blockIdx.y * n;
    bool finite = true;
    for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < n; k += stride)
        finite = finite && numbers[k] - numbers[k] == 0.0f;
    if (!finite) atomicAdd(&found[blockIdx.y], 1);
}
