// What the processor's sources share: vectors of as many float32 as a register of this processor has. GCC keeps wider
// ones in memory.
#pragma once
#include <utility>

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

// A variable is aligned as its type is. What lies in arrays of the caller's may begin at any float, and is reached by
// `at` alone: GCC 13 takes a variable of a type with less alignment for an aligned one.
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int Lanes __attribute__((vector_size(4 * LANES)));

template <int... lane>
static constexpr Lanes numbered(std::integer_sequence<int, lane...>) {
  return Lanes{lane...};
}
constexpr Lanes LANE = numbered(std::make_integer_sequence<int, LANES>{});

static inline Unaligned& at(float* p) { return *reinterpret_cast<Unaligned*>(p); }
static inline const Unaligned& at(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }

// The sums over pairs of lanes at a distance: those of `a` where the bit of the lane's number is 0, else those of `b`.
template <int distance, int... lane>
static Vector folded(Vector a, Vector b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, (lane & distance ? LANES + lane - distance : lane)...) +
         __builtin_shufflevector(a, b, (lane & distance ? LANES + lane : lane + distance)...);
}

// The sum of each of LANES vectors, of which a distance takes every so many.
template <int distance = 1>
static Vector totals(const Vector* v) {
  if constexpr (distance == LANES)
    return *v;
  else
    return folded<distance>(totals<2 * distance>(v), totals<2 * distance>(v + distance),
                            std::make_integer_sequence<int, LANES>{});
}
