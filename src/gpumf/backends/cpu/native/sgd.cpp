// SGD on the processor, each rating once, compiled for COLUMNS and BIASES (see kernels/common/sgd.cuh): what
// backends/cpu/sgd.py's `ordered` does, a row in SIMD registers where it fills them.
//
// Ratings come block after block of the rating matrix. What a block's ratings touch of both factors fits the cache; and
// blocks of a diagonal share no row, so that threads work on them at the same time and nothing depends on how many.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "threads.h"
#include "vectors.h"

constexpr int FACTORS = BIASES ? COLUMNS - 2 : COLUMNS;
constexpr int WHOLE = COLUMNS / LANES * LANES;      // columns in whole registers
constexpr int LEARNED = FACTORS / LANES * LANES;    // of them, those without a bias
constexpr int AHEAD = 16;                           // ratings whose rows are on their way to the cache
constexpr int A_THREAD = 1 << 18;                   // numbers of rows to go over, which take longer than to start it

// As in kernels/common/sgd.cuh: the learning rate, and 1 - rate lambda of each lambda.
struct Steps {
  float rate, keep_user, keep_item, keep_user_bias, keep_item_bias;
};

// These steps, or those of two rows whose rates are so many times the rate.
struct Pair : Steps {
  float user_rate, item_rate;

  explicit Pair(const Steps& s) : Steps(s), user_rate(s.rate), item_rate(s.rate) {}
  Pair(const Steps& s, float user, float item)
      : Steps{s.rate, 1 - user * (1 - s.keep_user), 1 - item * (1 - s.keep_item), 1 - user * (1 - s.keep_user_bias),
              1 - item * (1 - s.keep_item_bias)},
        user_rate(user * s.rate),
        item_rate(item * s.rate) {}
};

static void update(float* __restrict u, float* __restrict v, float value, const Pair& s) {
  Vector products = {};
  for (int k = 0; k < WHOLE; k += LANES) products += at(u + k) * at(v + k);
  float error = -value;
  for (int k = WHOLE; k < COLUMNS; ++k) error += u[k] * v[k];
  for (int lane = 0; lane < LANES && WHOLE; ++lane) error += products[lane];
  const float user_step = s.user_rate * error, item_step = s.item_rate * error;
  for (int k = 0; k < LEARNED; k += LANES) {
    const Vector old = at(u + k);
    at(u + k) = s.keep_user * old - user_step * at(v + k);
    at(v + k) = s.keep_item * at(v + k) - item_step * old;
  }
  for (int k = LEARNED; k < FACTORS; ++k) {
    const float old = u[k];
    u[k] = s.keep_user * old - user_step * v[k];
    v[k] = s.keep_item * v[k] - item_step * old;
  }
  if (BIASES == 1) {
    u[COLUMNS - 2] = s.keep_user_bias * u[COLUMNS - 2] - user_step;
    v[COLUMNS - 1] = s.keep_item_bias * v[COLUMNS - 1] - item_step;
  }
}

// An epoch. Block b of diagonal d holds the ratings offsets[d * side + b] up to the next offset. Threads are started once,
// no more of them than have A_THREAD to do, and go on to the next of `diagonals` when all blocks of the last are finished.
// pair(user, item): the steps of their ratings.
template <class PairOf>
static void epoch(const int32_t* users, const int32_t* items, const float* values, float* p, float* q, PairOf pair,
                  const int64_t* offsets, const int64_t* diagonals, int side, int threads) {
  auto row = [](float* factors, int32_t n) { return factors + static_cast<int64_t>(n) * COLUMNS; };
  std::vector<std::atomic<int>> next(side);
  std::atomic<int64_t> finished{0};
  const int64_t work = offsets[static_cast<int64_t>(side) * side] * COLUMNS;
  on_threads(std::min(busy(threads, work, A_THREAD), side), [&](int) {
    for (int d = 0; d < side; ++d) {
      while (finished.load(std::memory_order_acquire) < static_cast<int64_t>(d) * side) std::this_thread::yield();
      const int64_t first = diagonals[d] * side;
      for (int b; (b = next[d].fetch_add(1, std::memory_order_relaxed)) < side;) {
        const int64_t begin = offsets[first + b], end = offsets[first + b + 1];
        for (int64_t t = begin; t < end; ++t) {
          if (t + AHEAD < end) {
            __builtin_prefetch(row(p, users[t + AHEAD]), 1);
            __builtin_prefetch(row(q, items[t + AHEAD]), 1);
          }
          update(row(p, users[t]), row(q, items[t]), values[t], pair(users[t], items[t]));
        }
        finished.fetch_add(1, std::memory_order_release);
      }
    }
  });
}

extern "C" void ordered(const int32_t* users, const int32_t* items, const float* values, float* p, float* q,
                        const float* steps, const int64_t* offsets, const int64_t* diagonals, int side, int threads) {
  const Pair all(Steps{steps[0], steps[1], steps[2], steps[3], steps[4]});
  epoch(users, items, values, p, q, [&](int32_t, int32_t) -> const Pair& { return all; }, offsets, diagonals, side,
        threads);
}

// user_rates, item_rates: of each, in units of the rate of `steps`.
extern "C" void ordered_by_rates(const int32_t* users, const int32_t* items, const float* values, float* p, float* q,
                                 const float* steps, const int64_t* offsets, const int64_t* diagonals,
                                 const float* user_rates, const float* item_rates, int side, int threads) {
  const Steps s{steps[0], steps[1], steps[2], steps[3], steps[4]};
  epoch(users, items, values, p, q, [&](int32_t u, int32_t i) { return Pair(s, user_rates[u], item_rates[i]); },
        offsets, diagonals, side, threads);
}
