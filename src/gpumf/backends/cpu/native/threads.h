// What the processor's sources share: how many threads a piece of work is worth, and how they run.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

// As many threads as have `a_thread` to do, of work in any unit: what takes longer than to start one.
static inline int busy(int threads, int64_t work, int64_t a_thread) {
  return static_cast<int>(std::min<int64_t>(threads, 1 + work / a_thread));
}

// Not inlined where the calling thread works along: another copy of code that sums floats could be rounded otherwise.
template <class Work>
__attribute__((noinline)) static void work_along(Work& work, int thread) {
  work(thread);
}

// Calls work(thread) on so many threads, of which the calling one is the first.
template <class Work>
static void on_threads(int threads, Work work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work_along<Work>, std::ref(work), t);
  work_along(work, 0);
  for (auto& other : others) other.join();
}
