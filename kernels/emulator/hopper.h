// The functions of common/hopper.cuh on a CPU: a warp's part of a product is done when the call returns.
#pragma once
#include "emulator/tensor.h"

inline void show_to_strips() {}

struct __align__(8) Barrier {
    short threads, missing;
    int times;  // that all have arrived
};
inline void initialize(Barrier& barrier, int threads) { barrier = {short(threads), short(threads), 0}; }
UNCHECKED inline void arrive(Barrier& barrier) {
    touch_atomically(&barrier, sizeof barrier);
    if (--barrier.missing) return;
    barrier.missing = barrier.threads;
    ++barrier.times;
    wake(&barrier);
}
inline void arrive_after_copies(Barrier& barrier) { arrive(barrier); }
UNCHECKED inline void wait(Barrier& barrier, int parity, Here place = here()) {
    touch_atomically(&barrier, sizeof barrier);
    while (barrier.times % 2 == parity) wait_for("a barrier", &barrier, place);
}

template <int registers>
inline unsigned shrink_registers() { return threadIdx.x; }
template <int registers>
inline unsigned grow_registers() { return threadIdx.x; }

inline void strips_begin() {}
inline void strips_commit() {}
template <int left>
inline void strips_wait() {}

struct StripOperand {
    const half_bits* halves;
    int to_block;

    float at(int k, int column) const {
        return from_half(halves[column / 64 * (to_block / 2) + k * 64 + (column % 64 / 8 ^ k % 8) * 8 + column % 8]);
    }
};

struct StripPlace : StripOperand {
    explicit StripPlace(const StripOperand& operand) : StripOperand(operand) {}
    StripPlace further(int bytes) const {
        StripPlace result = *this;
        result.halves += bytes / 2;
        return result;
    }
};

struct PairOperand {
    const half_bits* halves;

    float at(int k, int column) const { return column < 2 ? from_half(halves[k / 8 * 64 + column * 8 + k % 8]) : 0.0f; }
};

template <int columns, int first, int n, class Right>
inline void multiply_strip(float (&all)[n][4], const StripOperand& left, const Right& right, bool add = true) {
    for (int q = 0; !add && q < columns / 8; ++q)
        for (float& sum : all[first + q]) sum = 0.0f;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    for (int k = 0; k < 16; ++k) {
        const float of_row[2] = {left.at(k, warp * 16 + lane / 4), left.at(k, warp * 16 + lane / 4 + 8)};
        for (int c = 0; c < columns / 4; ++c) {
            const float of_column = right.at(k, c / 2 * 8 + lane % 4 * 2 + c % 2);
            for (int h = 0; h < 2; ++h) all[first + c / 2][2 * h + c % 2] += of_row[h] * of_column;
        }
    }
}
