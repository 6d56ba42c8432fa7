// What the CPU's ALS and SGD are measured against: the loops that an engineer would write in C for 16 factors and one
// thread. No chunks, no guard, no other number of factors. That of ALS has a row of factors in one register, and its
// matrix in 16: it is none to be measured against where AVX-512 is missing.
#include <cstdint>

#include "vectors.h"

static_assert(FACTORS == 16);
constexpr int AHEAD = 16;  // ratings whose rows are on their way to the cache

typedef float Whole __attribute__((vector_size(4 * FACTORS), aligned(4)));

static Whole& whole(float* p) { return *reinterpret_cast<Whole*>(p); }
static const Whole& whole(const float* p) { return *reinterpret_cast<const Whole*>(p); }

static const float* row(const float* factors, int64_t n) { return factors + n * FACTORS; }
static float* row(float* factors, int64_t n) { return factors + n * FACTORS; }

// Normal equations in 16 registers, A = L D L^T row by row, two substitutions.
extern "C" void side_update(const int64_t* indptr, const int32_t* indices, const float* values, const float* fixed,
                           float* solved, int64_t n_rows, float regularization) {
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t begin = indptr[r], end = indptr[r + 1];
    Whole sums[FACTORS] = {}, b = {};
    for (int64_t t = begin; t < end; ++t) {
      if (t + AHEAD < end) __builtin_prefetch(row(fixed, indices[t + AHEAD]));
      const float* v = row(fixed, indices[t]);
      const Whole all = whole(v);
#pragma GCC unroll 16
      for (int i = 0; i < FACTORS; ++i) sums[i] += v[i] * all;
      b += values[t] * all;
    }
    alignas(64) float a[FACTORS][FACTORS], x[FACTORS];
#pragma GCC unroll 16
    for (int i = 0; i < FACTORS; ++i) whole(a[i]) = sums[i];
    whole(x) = b;
    if (begin < end) {
      for (int i = 0; i < FACTORS; ++i) a[i][i] += regularization * static_cast<float>(end - begin);
      for (int j = 0; j < FACTORS; ++j) {
        const float inverse = 1 / a[j][j];
        for (int i = j + 1; i < FACTORS; ++i) {
          const float l = a[j][i] * inverse;
          whole(a[i]) -= l * whole(a[j]);
          x[i] -= l * x[j];
        }
      }
      for (int j = FACTORS - 1; j >= 0; --j) {
        float rest = x[j];
        for (int i = j + 1; i < FACTORS; ++i) rest -= a[j][i] * x[i];
        x[j] = rest / a[j][j];
      }
    }
    whole(row(solved, r)) = whole(x);
  }
}

// Both rows a step along the gradient of one rating's error, which it returns.
static float step(float* u, float* v, float value, float rate, float regularization) {
  Vector products = {};
  for (int k = 0; k < FACTORS; k += LANES) products += at(u + k) * at(v + k);
  float error = -value;
  for (int lane = 0; lane < LANES; ++lane) error += products[lane];
  for (int k = 0; k < FACTORS; k += LANES) {
    const Vector old_u = at(u + k), old_v = at(v + k);
    at(u + k) = old_u - rate * (error * old_v + regularization * old_u);
    at(v + k) = old_v - rate * (error * old_u + regularization * old_v);
  }
  return error;
}

// The ratings one after another, as they lie.
extern "C" void updates(const int32_t* users, const int32_t* items, const float* values, int64_t n, float* p, float* q,
                        float rate, float regularization) {
  for (int64_t t = 0; t < n; ++t) {
    if (t + AHEAD < n) {
      __builtin_prefetch(row(p, users[t + AHEAD]), 1);
      __builtin_prefetch(row(q, items[t + AHEAD]), 1);
    }
    step(row(p, users[t]), row(q, items[t]), values[t], rate, regularization);
  }
}

// The same with biases, in arrays of their own, so that a row of factors is a cache line.
extern "C" void updates_with_biases(const int32_t* users, const int32_t* items, const float* values, int64_t n,
                                    float* p, float* q, float* of_users, float* of_items, float rate,
                                    float regularization) {
  for (int64_t t = 0; t < n; ++t) {
    if (t + AHEAD < n) {
      __builtin_prefetch(row(p, users[t + AHEAD]), 1);
      __builtin_prefetch(row(q, items[t + AHEAD]), 1);
    }
    float &b = of_users[users[t]], &c = of_items[items[t]];
    const float error = step(row(p, users[t]), row(q, items[t]), values[t] - b - c, rate, regularization);
    b -= rate * (error + regularization * b);
    c -= rate * (error + regularization * c);
  }
}
