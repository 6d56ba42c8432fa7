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

// rows: (n / width, width), of rows that are known the factors times `scale`, else zeros; of the last two columns one has
// the biases, at `column`, and the other 1. factors: (n / width, width - 2). biases: one a row. known: 0 or 1 a row. Grid
// and block: a thread a number of the rows.
extern "C" __global__ void add_bias_columns(const float* __restrict__ factors, float scale,
                                            const float* __restrict__ biases,
                                            const unsigned char* __restrict__ known, long long n, int width,
                                            int column, float* __restrict__ rows) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n) return;
    const long long row = k / width;
    const int place = (int)(k % width);
    if (place < width - 2) rows[k] = factors[row * (width - 2) + place] * known[row] * scale;
    else rows[k] = place == column ? biases[row] : 1.0f;
}
