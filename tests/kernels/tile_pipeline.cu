// The pipeline of tensor_core.cu for the drawings: ratings of a stage, stages copied ahead, threads and teams of a block.
#include "als/tensor_core.cu"

// Grid: 1. Block: 1.
extern "C" __global__ void pipeline(int* __restrict__ numbers) {
    numbers[0] = STAGE;
    numbers[1] = AHEAD;
    numbers[2] = THREADS;
    numbers[3] = TEAMS;
}
