// The best items of users by inner products on the processor.
//
// A tile of items stays in a core's cache while all users pass over it. In a panel of users each is a lane of vectors, so
// that an item's factor is loaded once for all of them; of few users each is computed alone, a register of items at a
// time. Items are what threads share out. Each has a list of its own for every user, and these are merged in the end.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "threads.h"
#include "vectors.h"

constexpr int ITEMS = LANES == 16 ? 12 : 6;  // at a time: with two registers of users, as many sums as fit registers
constexpr int USERS = 2 * LANES;             // of a panel
constexpr int FEW = USERS / 4;               // users whom a panel would keep waiting for
constexpr int64_t TILE_FLOATS = 1 << 15;     // of items, in a core's cache beside the users
constexpr int SLOTS = 24;                    // parts of the items, by whose largest scores lists of so many begin
constexpr int64_t MOST_ITEMS = 2016;         // of a tile: their scores for a panel stay in a core's cache
constexpr int AHEAD = 2 * LANES;             // items that are asked for from memory so many before their turn
constexpr int A_LINE = 16;                   // floats of a cache line
constexpr int A_THREAD = 1 << 20;            // products, which take longer than to start a thread

struct Entry {
  float score;
  int32_t item;
};

// An object, not a function: the heaps' code has it inlined.
constexpr auto better = [](const Entry& a, const Entry& b) {
  return a.score > b.score || (a.score == b.score && a.item < b.item);
};

struct Given {
  const float *p, *q;
  const int32_t *users, *chosen;  // chosen: the items to choose from, or null for all
  const int64_t* seen_indptr;
  const int32_t* seen_items;
  const int32_t* places;  // for panels: of items among the chosen, -1 of others; or null for all
  int64_t n_users, n_chosen, factors;
  int k;

  int32_t item(int64_t n) const { return chosen ? chosen[n] : static_cast<int32_t>(n); }
  const float* row(int64_t n) const { return q + item(std::min(n, n_chosen - 1)) * factors; }
};

// Heaps of the best entries of each user, the worst one first. A thread offers items in ascending order.
struct Lists {
  std::vector<Entry> entries;
  std::vector<int> counts;
  std::vector<int64_t> seen;  // where the seen items are that were not offered yet
  std::vector<float> least;   // above which a score gets in

  explicit Lists(const Given& given)
      : entries(given.n_users * given.k),
        counts(given.n_users),
        seen(given.n_users),
        least((given.n_users + USERS - 1) / USERS * USERS, std::numeric_limits<float>::infinity()) {
    std::fill_n(least.begin(), given.n_users, -std::numeric_limits<float>::infinity());
    for (int64_t user = 0; user < given.n_users; ++user) seen[user] = given.seen_indptr[given.users[user]];
  }

  // Overwrites a user's scores of seen ones among these items, USERS apart, by minus infinity.
  void leave_out_seen(const Given& given, int64_t user, int64_t begin, int64_t end, float* scores) {
    const int32_t *next = given.seen_items + seen[user], past = given.item(end - 1);
    const int32_t* const last = given.seen_items + given.seen_indptr[given.users[user] + 1];
    for (; next < last && *next <= past; ++next) {
      const int64_t n = given.places ? given.places[*next] : *next;
      if (n >= begin) scores[(n - begin) * USERS] = -std::numeric_limits<float>::infinity();
    }
    seen[user] = next - given.seen_items;
  }

  bool has_seen(const Given& given, int64_t user, int32_t item) const {
    const int64_t* const row = given.seen_indptr + given.users[user];
    return std::binary_search(given.seen_items + row[0], given.seen_items + row[1], item);
  }

  // Of an item that the user has not seen.
  void offer(const Given& given, int64_t user, int32_t item, float score) {
    if (!(score > least[user])) return;
    Entry* const list = &entries[user * given.k];
    int& count = counts[user];
    if (count == given.k)
      std::pop_heap(list, list + count, better);
    else
      ++count;
    list[count - 1] = {score, item};
    std::push_heap(list, list + count, better);
    if (count == given.k) least[user] = list[0].score;
  }
};

// A bit for each lane in which a > b.
static inline unsigned above(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
#else
  unsigned result = 0;
  for (int lane = 0; lane < LANES; ++lane) result |= (a[lane] > b[lane]) << lane;
  return result;
#endif
}

// One user and the items begin..end of the chosen ones; from_memory: nobody has read these before.
static void add_alone(const Given& given, Lists& lists, int64_t user, int64_t begin, int64_t end, bool from_memory) {
  const float* const p = given.p + given.users[user] * given.factors;
  const int64_t whole = given.factors / LANES * LANES;
  for (int64_t first = begin; first < end; first += LANES) {
    const float* q[LANES];
    for (int t = 0; t < LANES; ++t) q[t] = given.row(first + t);
    if (from_memory)
      for (int t = 0; t < LANES; ++t) {
        const float* const ahead = given.row(first + AHEAD + t);
        for (int64_t k = 0; k < given.factors; k += A_LINE) __builtin_prefetch(ahead + k);
      }
    Vector sums[LANES];
    for (int t = 0; t < LANES; t += 4) {
      Vector s[4] = {};
      for (int64_t k = 0; k < whole; k += LANES) {
        const Vector of_user = at(p + k);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) s[j] += of_user * at(q[t + j] + k);
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[t + j] = s[j];
    }
    Vector scores = totals(sums);
    for (int64_t k = whole; k < given.factors; ++k)
      for (int t = 0; t < LANES; ++t) scores[t] += p[k] * q[t][k];
    if (!above(scores, lists.least[user] - Vector{})) continue;
    const int count = static_cast<int>(std::min<int64_t>(LANES, end - first));
    for (int t = 0; t < count; ++t)
      if (scores[t] > lists.least[user] && !lists.has_seen(given, user, given.item(first + t)))
        lists.offer(given, user, given.item(first + t), scores[t]);
  }
}

// v, or the next float below it.
static Vector below(Vector v) { return v - (v < 0 ? -v : v) * 0x1p-22f - 0x1p-126f; }

// USERS users from the first on, whose factors are the columns of the panel, and these items. Their scores are kept, those
// of seen items as minus infinity, until the largest ones of SLOTS parts of the items say what is too low for a list.
static void add_panel(const Given& given, Lists& lists, const float* panel, int64_t user, int64_t begin, int64_t end,
                      float* scores) {
  const int64_t n_users = std::min<int64_t>(USERS, given.n_users - user);
  for (int64_t first = begin; first < end; first += ITEMS) {
    const float* q[ITEMS];
    for (int j = 0; j < ITEMS; ++j) q[j] = given.row(first + j);
    Vector sums[ITEMS][2] = {};
    for (int64_t k = 0; k < given.factors; ++k) {
      const Vector left = at(panel + k * USERS), right = at(panel + k * USERS + LANES);
#pragma GCC unroll 12
      for (int j = 0; j < ITEMS; ++j) {
        const Vector factor = q[j][k] - Vector{};
        sums[j][0] += factor * left;
        sums[j][1] += factor * right;
      }
    }
#pragma GCC unroll 12
    for (int j = 0; j < ITEMS; ++j)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) at(scores + (first - begin + j) * USERS + half * LANES) = sums[j][half];
  }
  for (int64_t one = 0; one < n_users; ++one) lists.leave_out_seen(given, user + one, begin, end, scores + one);
  for (int half = 0; half < 2; ++half) {
    Vector least = at(&lists.least[user + half * LANES]);
    const float* const of_half = scores + half * LANES;
    if (given.k <= SLOTS) {
      Vector largest[SLOTS];
      for (Vector& one : largest) one = -std::numeric_limits<float>::infinity() - Vector{};
      for (int64_t first = 0; first < end - begin; first += SLOTS)
        for (int64_t j = 0; j < std::min<int64_t>(SLOTS, end - begin - first); ++j) {
          const Vector score = at(of_half + (first + j) * USERS);
          largest[j] = score > largest[j] ? score : largest[j];
        }
      // At least k items are no worse than the k-th of the largest.
      Vector best[SLOTS];
      for (int rank = 0; rank < given.k; ++rank) best[rank] = -std::numeric_limits<float>::infinity() - Vector{};
      for (Vector one : largest)
        for (int rank = 0; rank < given.k; ++rank) {
          const Vector more = one > best[rank] ? one : best[rank];
          one = one > best[rank] ? best[rank] : one;
          best[rank] = more;
        }
      const Vector bound = below(best[given.k - 1]);
      least = bound > least ? bound : least;
    }
    for (int64_t j = 0; j < end - begin; ++j) {
      const float* const of_item = of_half + j * USERS;
      for (unsigned open = above(at(of_item), least); open; open &= open - 1) {
        const int lane = __builtin_ctz(open);
        lists.offer(given, user + half * LANES + lane, given.item(begin + j), of_item[lane]);
      }
    }
  }
}

// Writes the k best items of each of n_users users, best first, -1 and NaN where there are fewer. Of equal scores the
// lower item comes first; NaN and minus infinity never come. Rows of seen items are ascending. The result does not
// depend on the number of threads.
extern "C" void top_items(const float* p, const float* q, int64_t factors, const int32_t* users, int64_t n_users,
                          const int32_t* chosen, int64_t n_chosen, const int64_t* seen_indptr,
                          const int32_t* seen_items, int k, int32_t* items, float* best, int threads) {
  const int64_t in_panels = n_users % USERS > FEW ? n_users : n_users / USERS * USERS;
  std::vector<int32_t> places(chosen && n_chosen && in_panels ? chosen[n_chosen - 1] + 1 : 0, -1);
  for (int64_t n = 0; !places.empty() && n < n_chosen; ++n) places[chosen[n]] = n;
  const int32_t* const of_items = chosen ? places.data() : nullptr;
  const Given given{p, q, users, chosen, seen_indptr, seen_items, of_items, n_users, n_chosen, factors, k};
  std::vector<float> panels((in_panels + USERS - 1) / USERS * USERS * factors);
  for (int64_t user = 0; user < in_panels; ++user)
    for (int64_t f = 0; f < factors; ++f)
      panels[(user / USERS * factors + f) * USERS + user % USERS] = p[users[user] * factors + f];
  constexpr int64_t step = 3 * 16;  // a whole number of ITEMS and of LANES
  const int64_t tile = std::max<int64_t>(std::min(TILE_FLOATS / factors, MOST_ITEMS) / step, 1) * step;
  const int on = static_cast<int>(std::min<int64_t>(busy(threads, n_users * n_chosen * factors, A_THREAD),
                                                    std::max<int64_t>((n_chosen + tile - 1) / tile, 1)));
  std::vector<Lists> lists(on, Lists(given));
  std::atomic<int64_t> next{0};
  on_threads(on, [&](int thread) {
    std::vector<float> scores(in_panels ? (tile + ITEMS) * USERS : 0);
    for (int64_t begin; (begin = next.fetch_add(tile)) < n_chosen;) {
      const int64_t end = std::min(begin + tile, n_chosen);
      for (int64_t user = 0; user < in_panels; user += USERS)
        add_panel(given, lists[thread], &panels[user * factors], user, begin, end, scores.data());
      for (int64_t user = in_panels; user < n_users; ++user)
        add_alone(given, lists[thread], user, begin, end, user == 0);
    }
  });
  std::vector<Entry> found;
  for (int64_t user = 0; user < n_users; ++user) {
    found.clear();
    for (const Lists& own : lists)
      found.insert(found.end(), &own.entries[user * k], &own.entries[user * k] + own.counts[user]);
    const int count = static_cast<int>(std::min<int64_t>(k, found.size()));
    std::partial_sort(found.begin(), found.begin() + count, found.end(), better);
    for (int rank = 0; rank < k; ++rank) {
      items[user * k + rank] = rank < count ? found[rank].item : -1;
      best[user * k + rank] = rank < count ? found[rank].score : std::numeric_limits<float>::quiet_NaN();
    }
  }
}
