// The functions of common/async_mma.cuh on a CPU: lanes give each other what a GPU's tensor core would take from them all.
#pragma once
#include "emulator/cuda_fp16.h"

using half_bits = unsigned short;

inline half_bits to_half(float x) { return __float2half(x).bits; }
inline float from_half(half_bits h) { return __half2float({h}); }

inline unsigned to_halves(float low, float high) { return to_half(low) | unsigned(to_half(high)) << 16; }

inline unsigned multiply_halves(unsigned a, unsigned b) {
    auto product = [&](int shift) -> unsigned {
        return to_half(from_half(half_bits(a >> shift)) * from_half(half_bits(b >> shift)));
    };
    return product(0) | product(16) << 16;
}

inline unsigned multiply_halves_error(unsigned a, unsigned b, unsigned product) {
    auto error = [&](int shift) -> unsigned {
        const float exact = from_half(half_bits(a >> shift)) * from_half(half_bits(b >> shift));
        return to_half(exact - from_half(half_bits(product >> shift)));
    };
    return error(0) | error(16) << 16;
}

template <bool through_l1 = true>
inline void copy_async(void* shared, const void* global, bool valid) {
    for (int k = 0; k < 4; ++k)
        static_cast<uint32_t*>(shared)[k] = valid ? static_cast<const uint32_t*>(global)[k] : 0;
}
template <int bytes>
inline void copy_async(void* shared, const void* global) {
    for (int k = 0; k < bytes / 4; ++k)
        static_cast<uint32_t*>(shared)[k] = static_cast<const uint32_t*>(global)[k];
}
inline void copy_async_bypassing_l1(void* shared, const void* global) { copy_async<16>(shared, global); }
inline void copy_commit() {}
template <int left>
inline void copy_wait() {}

inline void load_matrix(unsigned (&tile)[4], const half_bits* row, Here place = here()) {
    const unsigned lane = lane_index();
    for (unsigned k = 0; k < 4; ++k) {
        const half_bits* const from = shuffle("load_matrix", ~0u, row, k * 8 + lane / 4, place) + lane % 4 * 2;
        tile[k] = from[0] | unsigned(from[1]) << 16;
    }
}

inline void load_transposed(unsigned (&tile)[4], const half_bits* row, Here place = here()) {
    const unsigned lane = lane_index();
    for (unsigned k = 0; k < 4; ++k) {
        half_bits two[2];
        for (unsigned e = 0; e < 2; ++e)
            two[e] = shuffle("load_transposed", ~0u, row, k * 8 + lane % 4 * 2 + e, place)[lane / 4];
        tile[k] = two[0] | unsigned(two[1]) << 16;
    }
}

// dot: of the numbers in two registers of a row with those of a column.
template <class Number, class Dot>
inline void multiply_add_by(Dot dot, Number (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Here place) {
    const unsigned lane = lane_index();
    auto give = [&](unsigned low, unsigned high, unsigned source) {
        return shuffle("multiply_add", ~0u, low | uint64_t(high) << 32, source, place);
    };
    for (unsigned t = 0; t < 4; ++t) {
        const uint64_t rows[2] = {give(a[0], a[2], lane / 4 * 4 + t), give(a[1], a[3], lane / 4 * 4 + t)};
        for (unsigned c = 0; c < 2; ++c) {
            const uint64_t column = give(b0, b1, (lane % 4 * 2 + c) * 4 + t);
            for (unsigned r = 0; r < 2; ++r) sum[2 * r + c] += dot(rows[r], column);
        }
    }
}
inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Here place = here()) {
    auto dot = [](uint64_t x, uint64_t y) {
        float result = 0.0f;
        for (int shift = 0; shift < 64; shift += 16)
            result += from_half(half_bits(x >> shift)) * from_half(half_bits(y >> shift));
        return result;
    };
    multiply_add_by(dot, sum, a, b0, b1, place);
}
inline void multiply_add(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Here place = here()) {
    auto dot = [](uint64_t x, uint64_t y) {
        int result = 0;
        for (int shift = 0; shift < 64; shift += 8) result += int(int8_t(x >> shift)) * int8_t(y >> shift);
        return result;
    };
    multiply_add_by(dot, sum, a, b0, b1, place);
}
