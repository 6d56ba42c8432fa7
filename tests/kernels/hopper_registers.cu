// Products of common/hopper.cuh with the left operand in registers, for comparison with NumPy.
#include "common/hopper.cuh"

constexpr int BLOCKS = (COLUMNS + 63) / 64;

// result = (64, COLUMNS): the first 64 columns of rows, transposed, times all of them; pair = (64, 2): times the first
// two, twice, by both kinds of a left operand. rows: halves (16, 64 BLOCKS). Block: a warpgroup.
extern "C" __global__ void strip_of_registers(const half_bits* rows, float* result, float* pair) {
    __shared__ __align__(1024) half_bits tile[BLOCKS][16][64];
    __shared__ __align__(16) half_bits pairs[2][8][8];
    for (int k = threadIdx.x; k < 16 * 64 * BLOCKS; k += 128) {
        const int row = k / (64 * BLOCKS), column = k % (64 * BLOCKS);
        tile[column / 64][row][(column % 64 / 8 ^ row % 8) * 8 + column % 8] = rows[k];
        if (column < 2) pairs[row / 8][column][row % 8] = rows[k];
    }
    show_to_strips();
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, of_lane = lane % 8 + lane / 16 * 8;
    const unsigned chunk = threadIdx.x / 32 * 2 + lane / 8 % 2;
    unsigned left[4];
    load_transposed(left, &tile[0][of_lane][(chunk ^ of_lane % 8) * 8]);
    const StripPlace all({tile[0][0], (int)sizeof tile[0]});
    float sums[COLUMNS / 8 + 1][4];
    for (auto& quad : sums)
        for (float& sum : quad) sum = 7.0f;
    strips_begin();
    multiply_strip<COLUMNS, 0>(sums, left, all, false);
    multiply_strip<8, COLUMNS / 8>(sums, left, PairOperand{pairs[0][0]}, false);
    multiply_strip<8, COLUMNS / 8>(sums, all, PairOperand{pairs[0][0]});
    strips_commit();
    strips_wait<0>();
    const int row = threadIdx.x / 32 * 16 + lane / 4;
    for (int q = 0; q < COLUMNS / 8; ++q)
        for (int k = 0; k < 4; ++k) result[(row + k / 2 * 8) * COLUMNS + q * 8 + lane % 4 * 2 + k % 2] = sums[q][k];
    if (lane % 4 == 0)
        for (int k = 0; k < 4; ++k) pair[(row + k / 2 * 8) * 2 + k % 2] = sums[COLUMNS / 8][k];
}
