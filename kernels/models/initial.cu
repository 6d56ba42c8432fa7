// Initial factors, drawn on the device, where drawing on the host and copying would take long; as gpumf.models.initial.
#include "common/random.cuh"

// factors: (n,), uniform on [-centre width, (1 - centre) width), multiples of 2^-24 width. Grid and block: a thread a
// factor.
extern "C" __global__ void draw_uniform(float* __restrict__ factors, long long n, unsigned long long key,
                                        float centre, float width) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) factors[k] = (random_uniform(key, k) - centre) * width;
}

// factors: (n,), normal with mean 0 and this standard deviation; draw number k of the stream `key`. Grid and block: a
// thread a factor.
extern "C" __global__ void draw_normal(float* __restrict__ factors, long long n, unsigned long long key,
                                       float deviation) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n) factors[k] = normal_deviate(key, k) * deviation;
}
