// The cube of every element of a square matrix: how much the order of memory accesses matters.
// Source: Kampffmeyer 2015, section 3.3, listings 3.3 and 3.4 (whose guard x > dim lets the row and the column
// just outside the matrix through; it is >= here).
//
//   1. coalesced: neighbouring threads read neighbouring elements.
//   2. strided: neighbouring threads read elements one row apart; every element is a transaction of its own.

// The two kernels. Grid and block: two-dimensional, a thread an element.

extern "C" __global__ void coalesced(const float* __restrict__ a, float* __restrict__ result, int dim) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dim || y >= dim) return;
    const long long k = y * (long long)dim + x;
    result[k] = a[k] * a[k] * a[k];
}

extern "C" __global__ void strided(const float* __restrict__ a, float* __restrict__ result, int dim) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dim || y >= dim) return;
    const long long k = x * (long long)dim + y;
    result[k] = a[k] * a[k] * a[k];
}
