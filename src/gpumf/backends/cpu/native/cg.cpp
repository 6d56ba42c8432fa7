// One update of a side by ALS on the processor by conjugate gradient, compiled for FACTORS and IMPLICIT (0 or 1).
//
// No row's matrix is summed up: A p = sum w (q . p) q + G p + ridge p over the row's ratings, a pass over them a step
// (Takács, Pilászy and Tikk 2011), from the solution before. w = 1 and G = 0; with IMPLICIT w = alpha |r| and
// G = Q^T Q. A block of rows goes step by step, so that G is read once for all of them. Sums of chunks of ratings keep
// the digits that one running sum over a long row would lose, and scalars are FP64, which squares of FP32 fit.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "threads.h"
#include "vectors.h"

constexpr int PADDED = (FACTORS + LANES - 1) / LANES * LANES;
constexpr int CHUNK = 256;      // ratings summed up in one go
constexpr int PART = 16384;     // rows of Q whose products are summed up for G in one go
constexpr int A_THREAD = 1 << 18;  // numbers of rows of Q to go over in every step, which take longer than to start it
constexpr int64_t TILES = PADDED / LANES, PAIRS = TILES * (TILES + 1) / 2;
constexpr int ROWS = LANES == 16 ? 8 : 4;  // of a block: twice as many registers

struct Rows {
  const int64_t* indptr;
  const int32_t* indices;
  const float* values;
  const int32_t* order;  // in which they are taken, the longest first
  const float* ridges;   // what is added to the diagonal of each one's A
  int64_t n;
  const float *q, *gram;  // (columns, PADDED); in TILES columns of (PADDED, LANES), as it is read
};

struct Parameters {
  float alpha;
  int steps;
  double tolerance;
};

// A row on its way: x, the residual, the direction p and A p.
struct Row {
  int64_t begin, length;
  float *solution, ridge;
  double square, enough;
  bool open;
};

struct Workspace {
  alignas(64) float x[ROWS][PADDED], residual[ROWS][PADDED], p[ROWS][PADDED], ap[ROWS][PADDED];
  alignas(64) float b[PADDED], sums[2][PADDED], none[PADDED];
  Row rows[ROWS];
};

// `width` registers of sum += the rows of Q, four times `quads` of them, each times its coefficient.
template <int width>
static void add_columns(float* sum, const float* const* q, const float* coefficients, int quads, int k) {
  constexpr int chains = width == 1 ? 4 : 2;  // for the latency of a multiply-add
  Vector s[chains][width] = {};
  for (int t = 0; t < 4 * quads; t += chains)
#pragma GCC unroll 4
    for (int j = 0; j < chains; ++j) {
      const Vector coefficient = coefficients[t + j] - Vector{};
#pragma GCC unroll 4
      for (int i = 0; i < width; ++i) s[j][i] += coefficient * at(q[t + j] + k + i * LANES);
    }
#pragma GCC unroll 4
  for (int i = 0; i < width; ++i) {
    Vector total = s[0][i] + s[1][i];
    if (chains == 4) total += s[chains - 2][i] + s[chains - 1][i];
    at(sum + k + i * LANES) += total;
  }
}

static void add_rows(float* sum, const float* const* q, const float* coefficients, int quads) {
  constexpr int whole = PADDED / (4 * LANES) * (4 * LANES);
  for (int k = 0; k < whole; k += 4 * LANES) add_columns<4>(sum, q, coefficients, quads, k);
  if constexpr (whole < PADDED) add_columns<(PADDED - whole) / LANES>(sum, q, coefficients, quads, whole);
}

// ap += sum w (q . p) q over a row's ratings; with FIRST b = sum (1 + w) q, or sum r q, on the way.
template <bool FIRST>
static void add_products(Workspace& w, int r, const Rows& rows, float alpha) {
  const Row& row = w.rows[r];
  const float* const p = w.p[r];
  if (FIRST) std::memset(w.b, 0, sizeof w.b);
  for (int64_t chunk = 0; chunk < row.length; chunk += CHUNK) {
    const int64_t end = row.begin + std::min(chunk + CHUNK, row.length);
    std::memset(w.sums, 0, sizeof w.sums);
    for (int64_t first = row.begin + chunk; first < end; first += LANES) {
      const int count = static_cast<int>(std::min<int64_t>(LANES, end - first)), quads = (count + 3) / 4;
      const float* q[LANES];
      Vector value = {}, dots[LANES] = {};
      if (count == LANES) {
        value = at(rows.values + first);
#pragma GCC unroll 16
        for (int t = 0; t < LANES; ++t) q[t] = rows.q + static_cast<int64_t>(rows.indices[first + t]) * PADDED;
      } else {
        for (int t = 0; t < 4 * quads; ++t) {
          q[t] = t < count ? rows.q + static_cast<int64_t>(rows.indices[first + t]) * PADDED : w.none;
          value[t] = t < count ? rows.values[first + t] : 0.0f;
        }
      }
      const Vector zero = {}, one = 1.0f - zero;
      const Vector weights = !IMPLICIT ? one : value > zero ? alpha * value : -alpha * value;
      const Vector targets = !IMPLICIT ? value : value > zero ? 1.0f + alpha * value : zero;
      for (int t = 0; t < 4 * quads; t += 4) {
        Vector s[4] = {};
#pragma GCC unroll 2
        for (int k = 0; k < PADDED; k += LANES) {
          const Vector of_p = at(p + k);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) s[j] += of_p * at(q[t + j] + k);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) dots[t + j] = s[j];
      }
      alignas(64) float coefficients[LANES];
      at(coefficients) = weights * totals(dots);
      add_rows(w.sums[0], q, coefficients, quads);
      if (FIRST) {
        at(coefficients) = targets;
        add_rows(w.sums[1], q, coefficients, quads);
      }
    }
    for (int k = 0; k < PADDED; k += LANES) {
      at(w.ap[r] + k) += at(w.sums[0] + k);
      if (FIRST) at(w.b + k) += at(w.sums[1] + k);
    }
  }
}

// `width` registers of ap = G p + ridge p for all rows of a block.
template <int width>
static void start_columns(Workspace& w, const float* gram, int k) {
  Vector sums[ROWS][width];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < width; ++j) sums[r][j] = w.rows[r].ridge * at(w.p[r] + k + j * LANES);
  if (IMPLICIT)
    for (int i = 0; i < FACTORS; ++i) {
      Vector right[width];
#pragma GCC unroll 2
      for (int j = 0; j < width; ++j) right[j] = at(gram + (k + j * LANES) * PADDED + i * LANES);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; ++r) {
        const Vector left = w.p[r][i] - Vector{};
#pragma GCC unroll 2
        for (int j = 0; j < width; ++j) sums[r][j] += left * right[j];
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < width; ++j) at(w.ap[r] + k + j * LANES) = sums[r][j];
}

static void start_products(Workspace& w, const float* gram) {
  constexpr int whole = PADDED / (2 * LANES) * (2 * LANES);
  for (int k = 0; k < whole; k += 2 * LANES) start_columns<2>(w, gram, k);
  if constexpr (whole < PADDED) start_columns<1>(w, gram, whole);
}

static double dot(const float* a, const float* b) {
  double sum = 0;
  for (int k = 0; k < PADDED; ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

// The residual at the start; where zero has a smaller one, from zero.
static void start(Workspace& w, int r, double tolerance) {
  Row& row = w.rows[r];
  float *const x = w.x[r], *const residual = w.residual[r];
  for (int k = 0; k < PADDED; ++k) residual[k] = w.b[k] - w.ap[r][k];
  const double right = dot(w.b, w.b);
  row.square = dot(residual, residual);
  if (!(row.square < right)) {
    std::memset(x, 0, sizeof w.x[r]);
    std::memcpy(residual, w.b, sizeof w.b);
    row.square = right;
  }
  row.enough = tolerance * tolerance * right;
  row.open = !(row.square <= row.enough);
  std::memcpy(w.p[r], residual, sizeof w.p[r]);
}

static void step(Workspace& w, int r) {
  Row& row = w.rows[r];
  float *const x = w.x[r], *const residual = w.residual[r], *const p = w.p[r];
  // A less than the ridge in any direction is nothing but rounding.
  const double curvature = std::max(dot(p, w.ap[r]), static_cast<double>(row.ridge) * dot(p, p));
  const double length = row.square / curvature;
  const float along = static_cast<float>(length);
  for (int k = 0; k < PADDED; ++k) {
    x[k] += along * p[k];
    residual[k] -= along * w.ap[r][k];
  }
  const double before = row.square;
  row.square = dot(residual, residual);
  const float kept = static_cast<float>(row.square / before);
  for (int k = 0; k < PADDED; ++k) p[k] = residual[k] + kept * p[k];
  row.open = !(row.square <= row.enough);
}

static void solve_block(Workspace& w, const Rows& rows, int64_t first, float* solved, const Parameters& given) {
  const int count = static_cast<int>(std::min<int64_t>(ROWS, rows.n - first));
  std::memset(w.p, 0, sizeof w.p);
  for (int r = 0; r < count; ++r) {
    const int64_t number = rows.order[first + r], begin = rows.indptr[number];
    Row& row = w.rows[r];
    row.begin = begin;
    row.length = rows.indptr[number + 1] - begin;
    row.solution = solved + number * FACTORS;
    row.ridge = rows.ridges[number];
    std::memcpy(w.p[r], row.solution, FACTORS * sizeof(float));
    std::memcpy(w.x[r], w.p[r], sizeof w.x[r]);
  }
  for (int done = 0; done <= given.steps; ++done) {
    start_products(w, rows.gram);
    bool open = false;
    for (int r = 0; r < count; ++r) {
      if (done == 0) {
        add_products<true>(w, r, rows, given.alpha);
        start(w, r, given.tolerance);
      } else if (w.rows[r].open) {
        add_products<false>(w, r, rows, given.alpha);
        step(w, r);
      }
      open |= w.rows[r].open;
    }
    if (!open) break;
  }
  for (int r = 0; r < count; ++r) std::memcpy(w.rows[r].solution, w.x[r], FACTORS * sizeof(float));
}

// A tile of G, over one part of the rows of Q.
static void add_tile(const float* q, int64_t begin, int64_t end, int i, int k, float* tile) {
  for (int64_t chunk = begin; chunk < end; chunk += CHUNK) {
    Vector sums[LANES] = {};
    for (int64_t t = chunk; t < std::min(chunk + CHUNK, end); ++t) {
      const float* const row = q + t * PADDED;
      const Vector right = at(row + k);
#pragma GCC unroll 16
      for (int r = 0; r < LANES; ++r) sums[r] += row[i + r] * right;
    }
    for (int r = 0; r < LANES; ++r) at(tile + r * LANES) += sums[r];
  }
}

// G = Q^T Q. Every part of every tile is one thread's work, and the parts are added in order.
static void multiply(const float* q, int64_t columns, float* gram, int threads) {
  const int64_t parts = std::max<int64_t>((columns + PART - 1) / PART, 1);
  std::vector<float> tiles(parts * PAIRS * LANES * LANES);
  std::vector<int> above, left;
  for (int i = 0; i < PADDED; i += LANES)
    for (int k = i; k < PADDED; k += LANES) above.push_back(i), left.push_back(k);
  std::atomic<int64_t> next{0};
  on_threads(static_cast<int>(std::min<int64_t>(threads, parts * PAIRS)), [&](int) {
    for (int64_t n; (n = next.fetch_add(1)) < parts * PAIRS;) {
      const int64_t begin = n / PAIRS * PART;
      add_tile(q, begin, std::min(begin + PART, columns), above[n % PAIRS], left[n % PAIRS], &tiles[n * LANES * LANES]);
    }
  });
  for (int64_t n = 0; n < PAIRS; ++n)
    for (int i = 0; i < LANES; ++i)
      for (int k = 0; k < LANES; ++k) {
        float sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += tiles[((part * PAIRS + n) * LANES + i) * LANES + k];
        gram[left[n] * PADDED + (above[n] + i) * LANES + k] = gram[above[n] * PADDED + (left[n] + k) * LANES + i] = sum;
      }
}

static float* aligned_floats(int64_t n) {
  return static_cast<float*>(::operator new(std::max<int64_t>(n, 1) * sizeof(float), std::align_val_t(64)));
}
struct Freed {
  void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
};
using Floats = std::unique_ptr<float, Freed>;

// Improves `solved` (rows, FACTORS) given the CSR rows, their order and `fixed` (columns, FACTORS), which is read faster
// where it begins at a cache line. Every row is one thread's work: the result does not depend on how many there are.
extern "C" void side_update(const int64_t* indptr, const int32_t* indices, const float* values, const int32_t* order,
                           const float* fixed, float* solved, const float* ridges, int64_t n_rows, int64_t n_columns,
                           float alpha, int steps, float tolerance, int threads) {
  Floats padded;
  if (PADDED != FACTORS) {
    padded.reset(aligned_floats(n_columns * PADDED));
    for (int64_t column = 0; column < n_columns; ++column) {
      float* const row = padded.get() + column * PADDED;
      std::memcpy(row, fixed + column * FACTORS, FACTORS * sizeof(float));
      std::fill(row + FACTORS, row + PADDED, 0.0f);
    }
  }
  const float* const q = padded ? padded.get() : fixed;
  Floats gram(aligned_floats(IMPLICIT ? PADDED * PADDED : 0));
  // 16 of its multiply-adds take no longer than a number of a row of Q in all steps.
  if (IMPLICIT) multiply(q, n_columns, gram.get(), busy(threads, n_columns * PADDED * PADDED / 16, A_THREAD));

  threads = busy(threads, (indptr[n_rows] - indptr[0] + (IMPLICIT ? n_rows * FACTORS / ROWS : 0)) * PADDED, A_THREAD);
  const Rows rows = {indptr, indices, values, order, ridges, n_rows, q, gram.get()};
  const Parameters given = {alpha, steps, tolerance};
  std::atomic<int64_t> next{0};
  on_threads(threads, [&](int) {
    auto w = std::make_unique<Workspace>();  // all zeros: the lanes behind FACTORS stay so
    for (int64_t first; (first = next.fetch_add(ROWS)) < n_rows;) solve_block(*w, rows, first, solved, given);
  });
}
