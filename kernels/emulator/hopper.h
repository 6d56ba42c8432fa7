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

inline unsigned thread_again() { return threadIdx.x; }

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

// use(k, numbers of the left operand for the lane's two rows) for each of the 16 ratings.
template <class Use>
inline void for_left(const StripOperand& left, Use use) {
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    for (int k = 0; k < 16; ++k) use(k, left.at(k, row), left.at(k, row + 8));
}
template <class Use>
inline void for_left(const unsigned (&left)[4], Use use) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = 0; k < 16; ++k) {
        auto number = [&](unsigned pair) {
            const unsigned two = shuffle("multiply_strip", ~0u, pair, lane / 4 * 4 + k % 8 / 2, here());
            return from_half(half_bits(two >> k % 2 * 16));
        };
        use(k, number(left[k / 8 * 2]), number(left[k / 8 * 2 + 1]));
    }
}

template <int columns, int first, int n, class Left, class Right>
inline void multiply_strip(float (&all)[n][4], const Left& left, const Right& right, bool add = true) {
    for (int q = 0; !add && q < columns / 8; ++q)
        for (float& sum : all[first + q]) sum = 0.0f;
    const int lane = threadIdx.x % 32;
    for_left(left, [&](int k, float upper, float lower) {
        for (int c = 0; c < columns / 4; ++c) {
            const float of_column = right.at(k, c / 2 * 8 + lane % 4 * 2 + c % 2);
            all[first + c / 2][c % 2] += upper * of_column;
            all[first + c / 2][2 + c % 2] += lower * of_column;
        }
    });
}
