// Rows of factors in half precision, and the powers of two that keep them in its range.
//
// Half precision limits digits, not range. The factors of the other side are divided by the power of two that scales
// the largest to near the top of FP16, and a row's ratings by another.
#pragma once

#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

#include "common/async_mma.cuh"

// 14 and 15 as 16: with groups of two sizes there are more bodies of code (plan.cuh), which take longer than the tiles
// saved.
constexpr int TILES = FACTORS > 208 ? 16 : (FACTORS + 15) / 16;
constexpr int PADDED = TILES * 16;  // columns of a row of factors in half precision
constexpr int NUMBERS = 3;          // in `unit`, of each of several systems

// A row in eight bits: whole lines of the cache. In 16 bytes are 16 factors, of the first eight and the last eight in
// turn, as tensor cores take them behind a transposition of pairs of bytes (warpgroups.cu).
constexpr int BYTES_OF_ROW = (FACTORS + 127) / 128 * 128;

// A number as a type, for loops whose every round is compiled on its own.
template <int n>
struct Number {
    static constexpr int value = n;
};
template <int n, int k = 0, class Use>
__device__ __forceinline__ void for_each(Use use) {
    if constexpr (k < n) {
        use(Number<k>{});
        for_each<n, k + 1>(use);
    }
}

// Where number k of a vector is in shared memory: as a lane loads the four of 16 at once that it gives to a product.
__device__ __forceinline__ int place_of(int k) { return (k & ~15) + k % 8 / 2 * 4 + k / 8 % 2 * 2 + k % 2; }

// 2^exponent.
__device__ __forceinline__ float power_of_two(int exponent) { return __uint_as_float((unsigned)(127 + exponent) << 23); }
// The least e >= -100 with x < 2^e, for x >= 0.
__device__ __forceinline__ int exponent_of(float x) { return max((int)(__float_as_uint(x) >> 23) - 126, -100); }

// Rounded factors are below 2^6, scaled ratings and weights below 2^8, square roots of these below 2^4: products of two
// fit FP16, and the dot products of the solver FP32, for rows of millions of ratings.
constexpr int FACTOR_EXPONENT = 6;
template <bool implicit>
constexpr int RATING_EXPONENT = implicit ? 4 : 8;

// The powers of two by which a row's numbers are multiplied.
struct Scales {
    int exponent;   // of the ratings, implicit: of `root`
    float ratings;  // implicit: of their square roots, to those of the scaled weights
    float root;     // implicit: square root of the weight 1 of a pair without a rating, with the same scale
};

// largest: the magnitude of the row's largest rating.
template <bool implicit>
__device__ __forceinline__ Scales scales_of(float largest, float root_of_alpha) {
    if constexpr (implicit) {
        const int exponent = RATING_EXPONENT<true> - max(exponent_of(root_of_alpha * sqrtf(largest)), 0);
        const float root = power_of_two(exponent);
        return {exponent, root_of_alpha * root, root};
    } else {
        const int exponent = RATING_EXPONENT<false> - exponent_of(largest);
        return {exponent, power_of_two(exponent), 1.0f};
    }
}

// With implicit feedback, of a rating: what its row of factors is multiplied by, for use(), and the right side's value
// beside it. That is its scaled weight, where one operand of A is multiplied, or the square root, where both are.
template <bool one_operand = false, class Use>
__device__ __forceinline__ float weigh_rating(float value, const Scales& scales, Use use) {
    // Weights below 2^-12 count as 2^-12, small against the 1 that is added, so that FP16 has digits for their root.
    const float scaled = scales.ratings * scales.ratings * fabsf(value);  // alpha |r|, scaled
    const float whole = scales.root * scales.root;
    const float exact = one_operand ? scaled : scaled * rsqrtf(max(scaled, 0x1p-100f));
    const half_bits factor = to_half(max(exact, max(one_operand ? whole * 0x1p-12f : scales.root * 0x1p-6f, 0x1p-24f)));
    use(value != 0.0f ? factor : half_bits(0));
    return value > 0.0f ? __fdividef(whole + scaled, from_half(factor)) : 0.0f;
}

// Eight halves, each times the same, which is given twice.
__device__ __forceinline__ uint4 times(uint4 x, unsigned twice) {
    return {multiply_halves(x.x, twice), multiply_halves(x.y, twice), multiply_halves(x.z, twice),
            multiply_halves(x.w, twice)};
}
