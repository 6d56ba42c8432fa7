// Lanes, threads and bytes of this folder's kernels, all derived from FACTORS; launch_config.cu exports them to the host.
#pragma once
#include "common/lanes.cuh"

constexpr int FAST_THREADS = QUADS_PER_LANE <= 2 ? 1024 : 512;  // fast.cu: the most of a block, by registers
constexpr int FAST_ROW = 16 * QUADS;                            // fast.cu: bytes of an item's row in shared memory,
constexpr int FAST_LOCK = 4, FAST_RATE = 4;                     // of its lock, and of its rate
constexpr int LOSS_THREADS = 256;                               // cu2rec.cu: of a block of total_loss
