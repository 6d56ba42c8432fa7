// The functions of common/async_mma.cuh, for comparison with NumPy on every device.
#include "common/async_mma.cuh"

// result = rows^T rows for 16 x 16 halves, by one warp; of the rows from `valid` on, zeros.
extern "C" __global__ void square(const half_bits* rows, int valid, float* result) {
    __shared__ __align__(16) half_bits tile[16][24];
    const int lane = threadIdx.x;
    copy_async(&tile[lane / 2][lane % 2 * 8], rows + lane * 8, lane / 2 < valid);
    copy_commit();
    copy_wait<0>();
    __syncwarp();
    unsigned operand[4];
    load_transposed(operand, &tile[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
    for (int h = 0; h < 2; ++h) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        multiply_add(sum, operand, operand[h], operand[h + 2]);
        for (int k = 0; k < 4; ++k)
            result[(lane / 4 + k / 2 * 8) * 16 + h * 8 + lane % 4 * 2 + k % 2] = sum[k];
    }
}

// result = rows^T rows + 5 for 32 x 16 signed bytes, by one warp. rows: pairs of bytes (32, 8).
extern "C" __global__ void square_of_bytes(const half_bits* rows, int* result) {
    __shared__ __align__(16) half_bits tile[32][8];
    const int lane = threadIdx.x;
    for (int k = 0; k < 8; ++k) tile[lane][k] = rows[lane * 8 + k];
    __syncwarp();
    // Columns 0, 2, .. and then 1, 3, .., of ratings in the order 0 1 8 9, 2 3 10 11, ..
    unsigned pairs[4], operand[4];
    load_transposed(pairs, tile[lane]);
    for (int part = 0; part < 2; ++part)
        for (int odd = 0; odd < 2; ++odd)
            operand[2 * part + odd] = __byte_perm(pairs[2 * part], pairs[2 * part + 1], odd ? 0x7531 : 0x6420);
    for (int odd = 0; odd < 2; ++odd) {
        int sum[4] = {5, 5, 5, 5};
        multiply_add(sum, operand, operand[odd], operand[odd + 2]);
        for (int k = 0; k < 4; ++k)
            result[(lane / 4 * 2 + k / 2) * 16 + (lane % 4 * 2 + k % 2) * 2 + odd] = sum[k];
    }
}

extern "C" __global__ void round_trip(const float* values, half_bits* halves, float* back) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    halves[t] = to_half(values[t]);
    back[t] = from_half(halves[t]);
}

extern "C" __global__ void pairs(const float* low, const float* high, unsigned* result) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    result[t] = to_halves(low[t], high[t]);
}

extern "C" __global__ void products(const unsigned* a, const unsigned* b, unsigned* result, unsigned* errors) {
    const unsigned product = result[threadIdx.x] = multiply_halves(a[threadIdx.x], b[threadIdx.x]);
    errors[threadIdx.x] = multiply_halves_error(a[threadIdx.x], b[threadIdx.x], product);
}
