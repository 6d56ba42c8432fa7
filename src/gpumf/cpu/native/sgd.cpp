// SGD on the processor, each rating once, compiled for COLUMNS and BIASES (see kernels/common/sgd.cuh): what
// cpu/sgd.py's `ordered` does, a row in SIMD registers where it fills them.
//
// Ratings come block after block of the rating matrix. What a block's ratings touch of both factors fits the cache; and
// blocks of a diagonal share no row, so that threads work on them at the same time and nothing depends on how many.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "threads.h"

constexpr int LANES = 16;
constexpr int FACTORS = BIASES ? COLUMNS - 2 : COLUMNS;
constexpr int WHOLE = COLUMNS / LANES * LANES;      // columns in whole registers
constexpr int LEARNED = FACTORS / LANES * LANES;    // of them, those without a bias
constexpr int AHEAD = 16;                           // ratings whose rows are on their way to the cache
constexpr int A_THREAD = 1 << 18;                   // numbers of rows to go over, which take longer than to start it

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));

static Vector& at(float* p) { return *reinterpret_cast<Vector*>(p); }

// As in kernels/common/sgd.cuh: the learning rate, and 1 - rate lambda of each lambda.
struct Steps {
  float rate, keep_user, keep_item, keep_user_bias, keep_item_bias;
};

static void update(float* __restrict u, float* __restrict v, float value, const Steps& s) {
  Vector products = {};
  for (int k = 0; k < WHOLE; k += LANES) products += at(u + k) * at(v + k);
  float error = -value;
  for (int k = WHOLE; k < COLUMNS; ++k) error += u[k] * v[k];
  for (int lane = 0; lane < LANES && WHOLE; ++lane) error += products[lane];
  const float step = s.rate * error;
  for (int k = 0; k < LEARNED; k += LANES) {
    const Vector old = at(u + k);
    at(u + k) = s.keep_user * old - step * at(v + k);
    at(v + k) = s.keep_item * at(v + k) - step * old;
  }
  for (int k = LEARNED; k < FACTORS; ++k) {
    const float old = u[k];
    u[k] = s.keep_user * old - step * v[k];
    v[k] = s.keep_item * v[k] - step * old;
  }
  if (BIASES == 1) {
    u[COLUMNS - 2] = s.keep_user_bias * u[COLUMNS - 2] - step;
    v[COLUMNS - 1] = s.keep_item_bias * v[COLUMNS - 1] - step;
  }
}

// An epoch. Block b of diagonal d holds the ratings offsets[d * side + b] up to the next offset. Threads are started once,
// no more of them than have A_THREAD to do, and go on to the next of `diagonals` when all blocks of the last are finished.
extern "C" void ordered(const int32_t* users, const int32_t* items, const float* values, float* p, float* q,
                        const float* steps, const int64_t* offsets, const int64_t* diagonals, int side, int threads) {
  const Steps s{steps[0], steps[1], steps[2], steps[3], steps[4]};
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
          update(row(p, users[t]), row(q, items[t]), values[t], s);
        }
        finished.fetch_add(1, std::memory_order_release);
      }
    }
  });
}
