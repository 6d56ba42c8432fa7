// bfloat16 on a CPU: storage and conversions, rounded to nearest even.
#pragma once
#include "emulator/cuda.h"

struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x) { return from_bits(uint32_t(x.bits) << 16); }

inline __nv_bfloat16 __float2bfloat16(float x) {
    if (x != x) return {0x7fff};
    return {uint16_t((bits_of(x) + 0x7fffu + (bits_of(x) >> 16 & 1u)) >> 16)};
}
