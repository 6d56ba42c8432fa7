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

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int Lanes __attribute__((vector_size(4 * LANES)));

template <int... lane>
static constexpr Lanes numbered(std::integer_sequence<int, lane...>) {
  return Lanes{lane...};
}
constexpr Lanes LANE = numbered(std::make_integer_sequence<int, LANES>{});

static inline Vector& at(float* p) { return *reinterpret_cast<Vector*>(p); }
static inline const Vector& at(const float* p) { return *reinterpret_cast<const Vector*>(p); }
