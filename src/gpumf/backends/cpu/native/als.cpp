// One update of a side by ALS on the processor, compiled for FACTORS: what backends/cpu/als.py does, by hand in SIMD registers.
//
// A row's matrix A = sum v v^T + ridge E is summed up in tiles of as many rows and columns as a register has numbers,
// which stay in registers for 256 ratings: a product costs one multiply-add with a broadcast operand, and nothing is
// stored. Sums of such sums keep the digits that one running sum over a long row would lose. Then A = L D L^T, whole
// registers at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>

#include "threads.h"
#include "vectors.h"

constexpr int PADDED = (FACTORS + LANES - 1) / LANES * LANES;
constexpr int CHUNK = 256;       // ratings whose columns' factors are together in the cache
constexpr int ROWS_A_TURN = 16;  // at most, that a thread takes before it asks for more
constexpr int A_THREAD = 1 << 22;  // multiply-adds, which take longer than to start it
// A pivot this far below its diagonal entry is nothing but rounding in FP32.
constexpr float ROUNDING = 1.0f / (1 << 21);

// What a thread works with. Of `a` the upper triangle of blocks is A; below it, L comes.
struct Workspace {
  alignas(64) float rows[CHUNK * PADDED];
  alignas(64) float a[PADDED * PADDED];
  alignas(64) float b[PADDED];
  float guard[FACTORS], inverse[FACTORS];
};

static void add_products(Workspace& w, const float* values, int n) {
  for (int i = 0; i < PADDED; i += LANES) {
    for (int k = i; k < PADDED; k += LANES) {
      Vector sums[LANES] = {};
      for (int t = 0; t < n; ++t) {
        float* row = w.rows + t * PADDED;
        const Vector right = at(row + k);
#pragma GCC unroll 16
        for (int r = 0; r < LANES; ++r) sums[r] += row[i + r] * right;
      }
      for (int r = 0; r < LANES; ++r) at(w.a + (i + r) * PADDED + k) += sums[r];
    }
  }
  for (int k = 0; k < PADDED; k += LANES) {
    Vector sum = {};
    for (int t = 0; t < n; ++t) sum += values[t] * at(w.rows + t * PADDED + k);
    at(w.b + k) += sum;
  }
}

// b becomes the solution of A x = b. Rows and right side are reduced alike; a row's lanes left of its diagonal take L.
// With noise z it becomes A^-1 b + L^-T D^-1/2 z, whose covariance is A^-1 where that of z is the identity.
static void solve(Workspace& w, const float* noise = nullptr) {
  float* const a = w.a;
  float* const b = w.b;
  for (int j = 0; j < FACTORS; ++j) {
    float* const pivot_row = a + j * PADDED;
    const int first = j / LANES * LANES;
    // An unknown whose pivot is rounding alone, which others make up for, becomes 0.
    const float inverse = pivot_row[j] > w.guard[j] ? 1.0f / pivot_row[j] : 0.0f;
    w.inverse[j] = inverse;
    const Vector right = LANE > j - first ? at(pivot_row + first) : Vector{};

    const float scaled_b = b[j] * inverse;
    at(b + first) -= scaled_b * right;
    for (int k = first + LANES; k < PADDED; k += LANES) at(b + k) -= scaled_b * at(pivot_row + k);

    const int last = std::min(first + LANES, FACTORS);
    for (int i = j + 1; i < last; ++i) {
      float* const row = a + i * PADDED;
      const float l = pivot_row[i] * inverse;
      at(row + first) = LANE == j - first ? l - Vector{} : at(row + first) - l * right;
      for (int k = first + LANES; k < PADDED; k += LANES) at(row + k) -= l * at(pivot_row + k);
    }
    for (int i = last; i < FACTORS; ++i) {
      float* const row = a + i * PADDED;
      const float l = pivot_row[i] * inverse;
      row[j] = l;
      for (int k = i / LANES * LANES; k < PADDED; k += LANES) at(row + k) -= l * at(pivot_row + k);
    }
  }
  for (int i = 0; i < FACTORS; ++i) b[i] *= w.inverse[i];
  for (int i = 0; noise && i < FACTORS; ++i) b[i] += std::sqrt(w.inverse[i]) * noise[i];
  for (int i = FACTORS - 1; i > 0; --i) {
    float* const row = a + i * PADDED;
    const int first = i / LANES * LANES;
    const float x = b[i];
    for (int k = 0; k < first; k += LANES) at(b + k) -= x * at(row + k);
    at(b + first) -= LANE < i - first ? x * at(row + first) : Vector{};
  }
}

// a and b become the sums of a row's v v^T and r v; v is multiplied by its rating's scale, where there are scales.
static void sum_up(Workspace& w, const int32_t* indices, const float* values, const float* scales, int64_t n,
                   const float* fixed) {
  std::memset(w.a, 0, sizeof w.a);
  std::memset(w.b, 0, sizeof w.b);
  for (int64_t begin = 0; begin < n; begin += CHUNK) {
    const int count = static_cast<int>(std::min<int64_t>(CHUNK, n - begin));
    for (int t = 0; t < count; ++t) {
      const float* v = fixed + static_cast<int64_t>(indices[begin + t]) * FACTORS;
      float* row = w.rows + t * PADDED;
      std::memcpy(row, v, FACTORS * sizeof(float));
      if (scales) {
        for (int k = 0; k < PADDED; k += LANES) at(row + k) *= scales[begin + t];
      }
    }
    add_products(w, values + begin, count);
  }
}

static void solve_row(Workspace& w, const int32_t* indices, const float* values, int64_t n, const float* fixed,
                      float ridge, float* solved) {
  if (n == 0) {
    std::fill(solved, solved + FACTORS, 0.0f);
    return;
  }
  sum_up(w, indices, values, nullptr, n, fixed);
  for (int i = 0; i < FACTORS; ++i) {
    float& diagonal = w.a[i * PADDED + i];
    diagonal += ridge;
    w.guard[i] = ROUNDING * diagonal;
  }
  solve(w);
  std::memcpy(solved, w.b, FACTORS * sizeof(float));
}

// Calls of_row(workspace, row) for each row. Every row is one thread's work, so that the result does not depend on how
// many there are: no more than have A_THREAD to do. Of few rows, which may be long, they take fewer at a time.
template <class Function>
static void each_row(const int64_t* indptr, int64_t n_rows, int threads, Function of_row) {
  const int64_t work = (indptr[n_rows] - indptr[0] + n_rows * FACTORS / 3) * PADDED * PADDED;
  threads = busy(threads, work, A_THREAD);
  const int64_t turn = std::max<int64_t>(1, std::min<int64_t>(ROWS_A_TURN, n_rows / (ROWS_A_TURN * threads)));
  std::atomic<int64_t> next{0};
  on_threads(threads, [&](int) {
    auto w = std::make_unique<Workspace>();
    std::memset(w->rows, 0, sizeof w->rows);  // the lanes behind FACTORS stay so
    for (int64_t first; (first = next.fetch_add(turn)) < n_rows;) {
      for (int64_t row = first; row < std::min(first + turn, n_rows); ++row) of_row(*w, row);
    }
  });
}

// Overwrites `solved` (rows, FACTORS) given the CSR rows and `fixed` (columns, FACTORS).
extern "C" void side_update(const int64_t* indptr, const int32_t* indices, const float* values, const float* fixed,
                           float* solved, int64_t n_rows, float regularization, bool weighted, int threads) {
  each_row(indptr, n_rows, threads, [=](Workspace& w, int64_t row) {
    const int64_t begin = indptr[row], n = indptr[row + 1] - begin;
    const float ridge = weighted ? regularization * static_cast<float>(n) : regularization;
    solve_row(w, indices + begin, values + begin, n, fixed, ridge, solved + row * FACTORS);
  });
}

// Overwrites `systems`: of each row the lower triangle of its sum v v^T, row by row, and its sum r v. Of workers that
// have some of a row's ratings each, these add up. `scales` may be null.
extern "C" void sums(const int64_t* indptr, const int32_t* indices, const float* values, const float* scales,
                     const float* fixed, float* systems, int64_t n_rows, int threads) {
  each_row(indptr, n_rows, threads, [=](Workspace& w, int64_t row) {
    const int64_t begin = indptr[row];
    sum_up(w, indices + begin, values + begin, scales ? scales + begin : nullptr, indptr[row + 1] - begin, fixed);
    float* to = systems + row * (FACTORS * (FACTORS + 1) / 2 + FACTORS);
    for (int i = 0; i < FACTORS; ++i) {
      for (int k = 0; k <= i; ++k) *to++ = w.a[k * PADDED + i];
    }
    std::memcpy(to, w.b, FACTORS * sizeof(float));
  });
}

// Overwrites `drawn` (rows, FACTORS) by draws from the normal distributions with the precision
// A = precision * sum v v^T + Lambda and the mean A^-1 (precision * sum r v + Lambda mu), given standard normal `noise`
// (rows, FACTORS) and `prior` (FACTORS, FACTORS + 1), the columns of Lambda and Lambda mu.
extern "C" void draw(const int64_t* indptr, const int32_t* indices, const float* values, const float* fixed,
                     const float* prior, const float* noise, float* drawn, int64_t n_rows, float precision,
                     int threads) {
  each_row(indptr, n_rows, threads, [=](Workspace& w, int64_t row) {
    const int64_t begin = indptr[row];
    sum_up(w, indices + begin, values + begin, nullptr, indptr[row + 1] - begin, fixed);
    for (int i = 0; i < FACTORS; ++i) {
      const float* of_row = prior + i * (FACTORS + 1);
      float* a = w.a + i * PADDED;
      for (int k = i / LANES * LANES; k < FACTORS; ++k) a[k] = precision * a[k] + of_row[k];
      w.b[i] = precision * w.b[i] + of_row[FACTORS];
      w.guard[i] = ROUNDING * a[i];
    }
    solve(w, noise + row * FACTORS);
    std::memcpy(drawn + row * FACTORS, w.b, FACTORS * sizeof(float));
  });
}
