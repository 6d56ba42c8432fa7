// The functions of common/hopper.cuh, for comparison with NumPy on every device that has them.
#include "common/hopper.cuh"

constexpr int BLOCKS = (COLUMNS + 63) / 64;

// result = (64, COLUMNS): the first 64 columns of rows, transposed, times all of them, twice. rows: halves (16, 64 BLOCKS).
// Block: a warpgroup.
extern "C" __global__ void strip(const half_bits* rows, float* result) {
    __shared__ __align__(1024) half_bits tiles[2][BLOCKS][16][64];
    auto& tile = tiles[1];
    for (int k = threadIdx.x; k < 16 * 64 * BLOCKS; k += 128) {
        const int row = k / (64 * BLOCKS), column = k % (64 * BLOCKS);
        tile[column / 64][row][(column % 64 / 8 ^ row % 8) * 8 + column % 8] = rows[k];
    }
    show_to_strips();
    __syncthreads();
    float sums[COLUMNS / 8][4];
    for (auto& quad : sums)
        for (float& sum : quad) sum = 7.0f;
    const StripOperand operand = {tile[0][0], (int)sizeof tile[0]};
    strips_begin();
    multiply_strip<COLUMNS, 0>(sums, operand, operand, false);
    const StripOperand before = {tiles[0][0][0], (int)sizeof tile[0]};
    const StripPlace same = StripPlace(before).further(sizeof tiles[0]);
    multiply_strip<COLUMNS, 0>(sums, same, same);
    strips_commit();
    strips_wait<0>();
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (int q = 0; q < COLUMNS / 8; ++q)
        for (int k = 0; k < 4; ++k) result[(row + k / 2 * 8) * COLUMNS + q * 8 + lane % 4 * 2 + k % 2] = sums[q][k];
}

// result[round] = the sum of the round's 32 values, which the first warp copies and the two others add up, half each.
// There is room for two rounds. Block: three warps.
extern "C" __global__ void hand_over(const int* values, int rounds, int* result) {
    __shared__ Barrier full[2], empty[2];
    __shared__ __align__(16) int room[2][32];
    __shared__ int sums[2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x < 2) {
        initialize(full[threadIdx.x], 32);
        initialize(empty[threadIdx.x], 2);
    }
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        const int place = round % 2, parity = round / 2 % 2;
        if (warp == 0) {
            wait(empty[place], parity ^ 1);
            copy_async<4>(&room[place][lane], &values[round * 32 + lane]);
            arrive_after_copies(full[place]);
            continue;
        }
        wait(full[place], parity);
        __syncwarp();  // who is still waiting would miss that the barrier completes again
        if (lane == 0) {
            int sum = 0;
            for (int k = 0; k < 16; ++k) sum += room[place][(warp - 1) * 16 + k];
            sums[warp - 1] = sum;
            arrive(empty[place]);
        }
        sync_some(1, 64);
        if (threadIdx.x == 32) result[round] = sums[0] + sums[1];
        sync_some(2, 64);
    }
}
