// The ratings of each row, one after another, by column: a counting sort by row, shared out among threads, then each
// row by itself. The same order on any number of threads, ratings of one pair as they were given.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "threads.h"

constexpr int64_t ROWS_A_TURN = 256;

struct Rating {
  int32_t column;
  float value;
};

// indptr (n_rows + 1) is given; indices and values are written.
extern "C" void compress(const int32_t* rows, const int32_t* columns, const float* given, int64_t n,
                         const int64_t* indptr, int64_t n_rows, int32_t* indices, float* values, int threads) {
  const std::unique_ptr<Rating[]> ratings(new Rating[n]);
  // By thread and row: how many of its slice's ratings there are, then where the next of them goes.
  std::vector<int64_t> places(threads * n_rows);
  const auto slice = [&](int t) { return n / threads * t + std::min<int64_t>(n % threads, t); };
  on_threads(threads, [&](int t) {
    int64_t* const counts = places.data() + t * n_rows;
    for (int64_t k = slice(t); k < slice(t + 1); ++k) ++counts[rows[k]];
  });
  on_threads(threads, [&](int t) {
    for (int64_t row = n_rows * t / threads; row < n_rows * (t + 1) / threads; ++row) {
      int64_t next = indptr[row];
      for (int of = 0; of < threads; ++of) {
        const int64_t count = places[of * n_rows + row];
        places[of * n_rows + row] = next;
        next += count;
      }
    }
  });
  on_threads(threads, [&](int t) {
    int64_t* const next = places.data() + t * n_rows;
    for (int64_t k = slice(t); k < slice(t + 1); ++k) ratings[next[rows[k]]++] = {columns[k], given[k]};
  });
  std::atomic<int64_t> turn{0};
  const auto before = [](const Rating& a, const Rating& b) { return a.column < b.column; };
  on_threads(threads, [&](int) {
    for (int64_t first; (first = turn.fetch_add(ROWS_A_TURN)) < n_rows;)
      for (int64_t row = first; row < std::min(first + ROWS_A_TURN, n_rows); ++row) {
        Rating *const begin = ratings.get() + indptr[row], *const end = ratings.get() + indptr[row + 1];
        if (!std::is_sorted(begin, end, before)) std::stable_sort(begin, end, before);
        for (int64_t k = indptr[row]; k < indptr[row + 1]; ++k) {
          indices[k] = ratings[k].column;
          values[k] = ratings[k].value;
        }
      }
  });
}
