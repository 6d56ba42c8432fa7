// The best items of users by inner products on the processor. No score is stored: what is no better than a list's last
// entry is dropped from the register that it was computed in.
//
// A tile of items stays in a core's cache while all users pass over it. In a panel of users each is a lane of vectors, so
// that an item's factor is loaded once for all of them; of few users each is computed alone, a register of items at a
// time. Items are what threads share out. Each has a list of its own for every user, and these are merged in the end.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "threads.h"
#include "vectors.h"

constexpr int ITEMS = LANES == 16 ? 12 : 6;  // at a time: with two registers of users, as many sums as fit registers
constexpr int USERS = 2 * LANES;             // of a panel
constexpr int FEW = USERS / 4;               // users whom a panel would keep waiting for
constexpr int64_t TILE_FLOATS = 1 << 15;     // of items, in a core's cache beside the users
constexpr int AHEAD = 2 * LANES;             // items that are asked for from memory so many before their turn
constexpr int A_LINE = 16;                   // floats of a cache line
constexpr int A_THREAD = 1 << 20;            // products, which take longer than to start a thread

struct Entry {
  float score;
  int32_t item;
};

static bool better(const Entry& a, const Entry& b) {
  return a.score > b.score || (a.score == b.score && a.item < b.item);
}

struct Given {
  const float *p, *q;
  const int32_t *users, *chosen;  // chosen: the items to choose from, or null for all
  const int64_t* seen_indptr;
  const int32_t* seen_items;
  int64_t n_users, n_chosen, factors;
  int k;

  int32_t item(int64_t n) const { return chosen ? chosen[n] : static_cast<int32_t>(n); }
  const float* row(int64_t n) const { return q + item(std::min(n, n_chosen - 1)) * factors; }
  bool has_seen(int64_t user, int32_t item) const {
    const int64_t row = users[user];
    return std::binary_search(seen_items + seen_indptr[row], seen_items + seen_indptr[row + 1], item);
  }
};

// Heaps of the best entries of each user, the worst one first. A thread offers items in ascending order.
struct Lists {
  std::vector<Entry> entries;
  std::vector<int> counts;
  std::vector<float> least;  // above which a score gets in

  explicit Lists(const Given& given)
      : entries(given.n_users * given.k),
        counts(given.n_users),
        least((given.n_users + USERS - 1) / USERS * USERS, std::numeric_limits<float>::infinity()) {
    std::fill_n(least.begin(), given.n_users, -std::numeric_limits<float>::infinity());
  }

  void offer(const Given& given, int64_t user, int32_t item, float score) {
    if (!(score > least[user]) || given.has_seen(user, item)) return;
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

static bool any(Lanes found) {
  bool result = false;
  for (int lane = 0; lane < LANES; ++lane) result |= found[lane] != 0;
  return result;
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
    if (!any(scores > lists.least[user] - Vector{})) continue;
    const int count = static_cast<int>(std::min<int64_t>(LANES, end - first));
    for (int t = 0; t < count; ++t) lists.offer(given, user, given.item(first + t), scores[t]);
  }
}

// USERS users from the first on, whose factors are the columns of the panel, and these items.
static void add_panel(const Given& given, Lists& lists, const float* panel, int64_t user, int64_t begin, int64_t end) {
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
    const Vector least[2] = {at(&lists.least[user]), at(&lists.least[user + LANES])};
    Lanes found = {};
#pragma GCC unroll 12
    for (int j = 0; j < ITEMS; ++j) found |= (sums[j][0] > least[0]) | (sums[j][1] > least[1]);
    if (!any(found)) continue;
    const int count = static_cast<int>(std::min<int64_t>(ITEMS, end - first));
    for (int j = 0; j < count; ++j)
      for (int half = 0; half < 2; ++half)
        for (int lane = 0; lane < LANES; ++lane) {
          const int64_t one = user + half * LANES + lane;
          if (sums[j][half][lane] > lists.least[one])
            lists.offer(given, one, given.item(first + j), sums[j][half][lane]);
        }
  }
}

// Writes the k best items of each of n_users users, best first, -1 and NaN where there are fewer. Of equal scores the
// lower item comes first; NaN and minus infinity never come. Rows of seen items are ascending. The result does not
// depend on the number of threads.
extern "C" void top_items(const float* p, const float* q, int64_t factors, const int32_t* users, int64_t n_users,
                          const int32_t* chosen, int64_t n_chosen, const int64_t* seen_indptr,
                          const int32_t* seen_items, int k, int32_t* items, float* best, int threads) {
  const Given given{p, q, users, chosen, seen_indptr, seen_items, n_users, n_chosen, factors, k};
  const int64_t in_panels = n_users % USERS > FEW ? n_users : n_users / USERS * USERS;
  std::vector<float> panels((in_panels + USERS - 1) / USERS * USERS * factors);
  for (int64_t user = 0; user < in_panels; ++user)
    for (int64_t f = 0; f < factors; ++f)
      panels[(user / USERS * factors + f) * USERS + user % USERS] = p[users[user] * factors + f];
  constexpr int64_t step = 3 * 16;  // a whole number of ITEMS and of LANES
  const int64_t tile = std::max<int64_t>(TILE_FLOATS / factors / step, 1) * step;
  const int on = static_cast<int>(std::min<int64_t>(busy(threads, n_users * n_chosen * factors, A_THREAD),
                                                    std::max<int64_t>((n_chosen + tile - 1) / tile, 1)));
  std::vector<Lists> lists(on, Lists(given));
  std::atomic<int64_t> next{0};
  on_threads(on, [&](int thread) {
    for (int64_t begin; (begin = next.fetch_add(tile)) < n_chosen;) {
      const int64_t end = std::min(begin + tile, n_chosen);
      for (int64_t user = 0; user < in_panels; user += USERS)
        add_panel(given, lists[thread], &panels[user * factors], user, begin, end);
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
