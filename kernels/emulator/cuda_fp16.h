// half on a CPU: storage and conversions, rounded to nearest even.
#pragma once
#include "emulator/cuda.h"

struct __half {
    uint16_t bits;
};
using half = __half;

inline float __half2float(half x) {
    const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = (x.bits & 0x7fffu) << 13;
    if (magnitude >= 0x0f800000u) return from_bits(sign | 0x7f800000u | magnitude);  // infinite or not a number
    return from_bits(sign | bits_of(from_bits(magnitude) * 0x1p112f));
}

inline half __float2half(float x) {
    const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
    const uint16_t sign = bits_of(x) >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u) return {0x7fff};                      // not a number
    if (magnitude >= bits_of(65520.0f)) return {uint16_t(sign | 0x7c00)};  // infinite, or rounds to it
    if (magnitude < bits_of(0x1p-14f)) return {uint16_t(sign | lrintf(from_bits(magnitude) * 0x1p24f))};
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return {uint16_t(sign | (rounded - bits_of(0x1p-15f)) >> 13)};
}
