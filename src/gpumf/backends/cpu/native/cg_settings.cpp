// One update of a side by ALS on the processor by conjugate gradient, of several settings on the same ratings: lambda,
// alpha and weights differ. The settings are the lanes of vectors.
//
// The arithmetic is that of cg.cpp, with sums in another order. A vector has one factor of all settings: a rating's
// indices are read once for all of them, products need no sum over lanes, and no factors are padded.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "threads.h"
#include "vectors.h"

constexpr int CHUNK = 256;         // ratings, or rows of Q, summed up in one go
constexpr int ROWS = 4;            // of a block: G is read once for all of them
constexpr int TILE = 4;            // columns of G p at a time
constexpr int RATINGS = 4;         // that are gone over twice while the next ones are asked for
constexpr int A_THREAD = 1 << 18;  // vectors to go over in every step, which take longer than to start it

static inline Unaligned& of(float* p, int64_t k) { return at(p + k * LANES); }
static inline const Unaligned& of(const float* p, int64_t k) { return at(p + k * LANES); }

// Arrays of (.., LANES). biases: of the columns, from which targets count. alphas, gram (Q^T Q): of implicit feedback.
struct Given {
  const int64_t* indptr;
  const int32_t *indices, *order;
  const float *values, *biases, *ridges, *alphas, *q;
  int64_t n, columns, factors;
  bool implicit;
  int steps;
  double tolerance;
  const float* gram;

  const float* row(int64_t index) const { return q + index * factors * LANES; }
};

static float* floats(int64_t n) {
  return static_cast<float*>(::operator new(std::max<int64_t>(n, 1) * sizeof(float), std::align_val_t(64)));
}
struct Freed {
  void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
};
using Floats = std::unique_ptr<float, Freed>;

// A row on its way: x, the residual, the direction p and A p.
struct Row {
  int64_t begin, end;
  float *x, *residual, *p, *ap;
  Vector ridge;
  double square[LANES], enough[LANES];
  bool open[LANES];

  bool any_open() const {
    return std::any_of(open, open + LANES, [](bool one) { return one; });
  }
};

static void dot(const float* a, const float* b, int64_t factors, double* sums) {
  double even[LANES] = {}, odd[LANES] = {};
  int64_t k = 0;
  for (; k + 1 < factors; k += 2)
    for (int w = 0; w < LANES; ++w) {
      even[w] += static_cast<double>(a[k * LANES + w]) * b[k * LANES + w];
      odd[w] += static_cast<double>(a[(k + 1) * LANES + w]) * b[(k + 1) * LANES + w];
    }
  for (int w = 0; w < LANES; ++w)
    sums[w] = even[w] + odd[w] + (k < factors ? static_cast<double>(a[k * LANES + w]) * b[k * LANES + w] : 0.0);
}

// Some rows, which go step by step.
class Block {
 public:
  explicit Block(const Given& given) : given_(given), f_(given.factors), size_(f_ * LANES) {
    memory_.reset(floats((4 * ROWS + 3) * size_));
    float* next = memory_.get();
    for (Row& row : rows_)
      for (float** of : {&row.x, &row.residual, &row.p, &row.ap}) *of = next, next += size_;
    b_ = next, sums_ = next + size_, of_b_ = next + 2 * size_;
  }

  // Solves rows from the first on, in place; whether what it found is finite.
  Lanes solve(int64_t first, float* solved) {
    count_ = static_cast<int>(std::min<int64_t>(ROWS, given_.n - first));
    for (int r = 0; r < count_; ++r) {
      const int64_t number = given_.order[first + r];
      Row& row = rows_[r];
      row.begin = given_.indptr[number];
      row.end = given_.indptr[number + 1];
      row.ridge = of(given_.ridges, number);
      std::memcpy(row.x, solved + number * size_, size_ * sizeof(float));
      std::memcpy(row.p, row.x, size_ * sizeof(float));
    }
    bool open = true;
    for (int done = 0; open && done <= given_.steps; ++done) {
      open = false;
      start_products();
      for (int r = 0; r < count_; ++r) {
        Row& row = rows_[r];
        if (done == 0) {
          add_products<true>(row);
          start(row);
        } else if (row.any_open()) {
          add_products<false>(row);
          step(row);
        }
        open |= row.any_open();
      }
    }
    Lanes finite = ~Lanes{};
    for (int r = 0; r < count_; ++r) {
      std::memcpy(solved + given_.order[first + r] * size_, rows_[r].x, size_ * sizeof(float));
      for (int64_t k = 0; k < f_; ++k) {
        const Vector zero = of(rows_[r].x, k) - of(rows_[r].x, k);  // not a number where x is not finite
        finite &= zero == zero;
      }
    }
    return finite;
  }

 private:
  // ap = G p + ridge p.
  void start_products() {
    for (int64_t k = 0; k < f_; k += TILE)
      if (given_.implicit && k + TILE <= f_ && count_ == ROWS)
        start_tile<ROWS, TILE>(0, k);
      else
        for (int r = 0; r < count_; ++r)
          for (int64_t j = k; j < std::min(k + TILE, f_); ++j) start_tile<1, 1>(r, j);
  }

  template <int rows, int columns>
  void start_tile(int first, int64_t k) {
    Vector sums[rows][columns];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) sums[r][c] = rows_[first + r].ridge * of(rows_[first + r].p, k + c);
    if (given_.implicit)
      for (int64_t i = 0; i < f_; ++i) {
        const float* const gram = given_.gram + (k * f_ + i) * LANES;
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          const Vector p = of(rows_[first + r].p, i);
#pragma GCC unroll 4
          for (int c = 0; c < columns; ++c) sums[r][c] += p * of(gram, c * f_);
        }
      }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) of(rows_[first + r].ap, k + c) = sums[r][c];
  }

  // ap += sum w (q . p) q over a row's ratings; with FIRST b = sum (1 + w) q, or sum r q, on the way.
  template <bool FIRST>
  void add_products(Row& row) {
    if (FIRST) std::memset(b_, 0, size_ * sizeof(float));
    for (int64_t chunk = row.begin; chunk < row.end; chunk += CHUNK) {
      const int64_t end = std::min(chunk + CHUNK, row.end);
      std::memset(sums_, 0, 2 * size_ * sizeof(float));  // and of_b_
      int64_t t = chunk;
      for (; t + RATINGS <= end; t += RATINGS) add_ratings<FIRST, RATINGS>(row.p, t);
      for (; t < end; ++t) add_ratings<FIRST, 1>(row.p, t);
      for (int64_t k = 0; k < f_; ++k) {
        of(row.ap, k) += of(sums_, k);
        if (FIRST) of(b_, k) += of(of_b_, k);
      }
    }
  }

  template <bool FIRST, int n>
  void add_ratings(const float* p, int64_t first) {
    const float *q[n], *next[n];
    Vector dots[n] = {}, targets[n];
#pragma GCC unroll 4
    for (int j = 0; j < n; ++j) {
      q[j] = given_.row(given_.indices[first + j]);
      next[j] = given_.row(given_.indices[std::min(first + n + j, given_.indptr[given_.n] - 1)]);
    }
    for (int64_t k = 0; k < f_; ++k) {
      const Vector of_p = of(p, k);
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) dots[j] += of_p * of(q[j], k);
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; ++j) {
      const float value = given_.values[first + j];
      if (given_.implicit) {
        const Vector weight = of(given_.alphas, 0) * (value > 0 ? value : -value);
        dots[j] *= weight;
        targets[j] = value > 0 ? weight + 1.0f : Vector{};
      } else {
        targets[j] = value - of(given_.biases, given_.indices[first + j]);
      }
    }
    for (int64_t k = 0; k < f_; ++k) {
      Vector sum = of(sums_, k), of_b = FIRST ? of(of_b_, k) : Vector{};
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) {
        const Vector of_q = of(q[j], k);
        sum += dots[j] * of_q;
        if (FIRST) of_b += targets[j] * of_q;
        __builtin_prefetch(next[j] + k * LANES);
      }
      of(sums_, k) = sum;
      if (FIRST) of(of_b_, k) = of_b;
    }
  }

  // The residual at the start; where zero has a smaller one, from zero.
  void start(Row& row) {
    double right[LANES];
    bool from_zero[LANES];
    for (int64_t k = 0; k < f_; ++k) of(row.residual, k) = of(b_, k) - of(row.ap, k);
    dot(b_, b_, f_, right);
    dot(row.residual, row.residual, f_, row.square);
    for (int w = 0; w < LANES; ++w) {
      from_zero[w] = !(row.square[w] < right[w]);
      row.square[w] = from_zero[w] ? right[w] : row.square[w];
      row.enough[w] = given_.tolerance * given_.tolerance * right[w];
      row.open[w] = !(row.square[w] <= row.enough[w]);
    }
    for (int64_t k = 0; k < f_; ++k)
      for (int w = 0; w < LANES; ++w) {
        row.x[k * LANES + w] = from_zero[w] ? 0.0f : row.x[k * LANES + w];
        row.residual[k * LANES + w] = from_zero[w] ? b_[k * LANES + w] : row.residual[k * LANES + w];
      }
    std::memcpy(row.p, row.residual, size_ * sizeof(float));
  }

  void step(Row& row) {
    double curvature[LANES], of_p[LANES], before[LANES];
    Vector along, kept;
    dot(row.p, row.ap, f_, curvature);
    dot(row.p, row.p, f_, of_p);
    for (int w = 0; w < LANES; ++w) {
      // A less than the ridge in any direction is nothing but rounding.
      const double most = std::max(curvature[w], static_cast<double>(row.ridge[w]) * of_p[w]);
      along[w] = row.open[w] ? static_cast<float>(row.square[w] / most) : 0.0f;
      before[w] = row.square[w];
    }
    for (int64_t k = 0; k < f_; ++k) {
      of(row.x, k) += along * of(row.p, k);
      of(row.residual, k) -= along * of(row.ap, k);
    }
    dot(row.residual, row.residual, f_, row.square);
    for (int w = 0; w < LANES; ++w) {
      kept[w] = row.open[w] ? static_cast<float>(row.square[w] / before[w]) : 0.0f;
      row.open[w] &= !(row.square[w] <= row.enough[w]);
    }
    for (int64_t k = 0; k < f_; ++k) of(row.p, k) = of(row.residual, k) + kept * of(row.p, k);
  }

  const Given& given_;
  const int64_t f_, size_;
  int count_;
  Floats memory_;
  Row rows_[ROWS];
  float *b_, *sums_, *of_b_;
};

// G = Q^T Q, summed up by chunks of the rows of Q. Every row of it is one thread's work.
static void multiply(const Given& given, float* gram, int threads) {
  const int64_t f = given.factors;
  std::memset(gram, 0, f * f * LANES * sizeof(float));
  std::atomic<int64_t> next{0};
  on_threads(threads, [&](int) {
    for (int64_t i; (i = next.fetch_add(1)) < f;)
      for (int64_t chunk = 0; chunk < given.columns; chunk += CHUNK)
        for (int64_t k = 0; k <= i; k += TILE) {
          Vector sums[TILE] = {};
          for (int64_t t = chunk; t < std::min(chunk + CHUNK, given.columns); ++t) {
            const Vector left = of(given.row(t), i);
#pragma GCC unroll 4
            for (int c = 0; c < TILE; ++c) sums[c] += left * of(given.row(t), std::min(k + c, i));
          }
          for (int64_t c = k; c < std::min<int64_t>(k + TILE, i + 1); ++c)
            of(gram, c * f + i) = of(gram, i * f + c) += sums[c - k];
        }
  });
}

extern "C" int lanes() { return LANES; }

// Improves `solved` (rows, factors, LANES) given the CSR rows, their order and `fixed` (columns, factors, LANES), and
// sets `finite` (LANES) to 0 for each setting of which something found is not finite. Every row is one thread's work:
// the result does not depend on how many there are, and that of a setting not on the others.
extern "C" void side_update(const int64_t* indptr, const int32_t* indices, const float* values, const int32_t* order,
                            const float* biases, const float* fixed, float* solved, const float* ridges,
                            const float* alphas, int32_t* finite, int64_t n_rows, int64_t n_columns, int64_t factors,
                            int implicit, int steps, float tolerance, int threads) {
  const Floats gram(floats(implicit ? factors * factors * LANES : 0));
  const Given given{indptr, indices,   order,   values,        biases, ridges,    alphas,    fixed,
                    n_rows, n_columns, factors, implicit != 0, steps,  tolerance, gram.get()};
  if (implicit) multiply(given, gram.get(), busy(threads, n_columns * factors * factors / 16, A_THREAD));
  threads = busy(threads, (indptr[n_rows] - indptr[0] + (implicit ? n_rows * factors / ROWS : 0)) * factors, A_THREAD);
  std::atomic<int64_t> next{0};
  std::atomic<uint32_t> found{~0u};  // a bit for each setting
  on_threads(threads, [&](int) {
    Block block(given);
    Lanes own = ~Lanes{};
    for (int64_t first; (first = next.fetch_add(ROWS)) < n_rows;) own &= block.solve(first, solved);
    for (int w = 0; w < LANES; ++w)
      if (!own[w]) found &= ~(1u << w);
  });
  for (int w = 0; w < LANES; ++w) finite[w] &= found >> w & 1;
}
