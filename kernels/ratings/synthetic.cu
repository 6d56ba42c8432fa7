// A synthetic data set of billions of ratings, generated on the device; src/gpumf/ratings/synthetic_device.py defines it.
//
// A user's items are hashes of the numbers of the user's draws, and a rating depends on its user and item alone. So the
// order of threads does not matter, and the transpose needs no sort: the users of a chunk mark their items in a matrix
// of bits, in which each item then finds its users in ascending order and computes the ratings again.
// Sums of float products are written as fmaf, which rounds once on every machine: the same bits everywhere.
#include "common/random.cuh"

#ifndef RANK
#error "compile with -DRANK=r"
#endif

constexpr int TRAITS = RANK + 1;  // of a user or an item: its low-rank part, then its bias
constexpr unsigned ALL = 0xffffffffu;

// One rating of each run of `every` is a test rating, and none after the first n_tests runs.
struct Split {
    long long n_tests;
    int every;
    unsigned long long key;

    __device__ int chosen(long long run) const { return (int)(splitmix64(key + run) % every); }
    __device__ bool tests(long long position) const {
        const long long run = position / every;
        return run < n_tests && chosen(run) == position % every;
    }
    __device__ long long before(long long position) const {  // test ratings
        const long long run = position / every;
        return run < n_tests ? run + (chosen(run) < position % every) : n_tests;
    }
    __device__ int& place(long long position, int* train, int* test) const {
        return tests(position) ? test[before(position)] : train[position - before(position)];
    }
};

// Items by their weights (Walker's alias method): cell c yields item c below thresholds[c] of total, else aliases[c].
struct Popularity {
    const unsigned* thresholds;
    const int* aliases;
    int n_items;
    unsigned total;

    __device__ int operator()(unsigned long long hash) const {
        const int cell = (int)((hash >> 32) * n_items >> 32);
        return (unsigned)((hash & ALL) * total >> 32) < thresholds[cell] ? cell : aliases[cell];
    }
};

struct Values {
    const float* user_traits;
    const float* item_traits;
    int n_items;
    float mean, noise;
    unsigned long long key;

    __device__ float operator()(long long user, int item) const {
        const float* const p = user_traits + user * TRAITS;
        const float* const q = item_traits + item * (long long)TRAITS;
        float value = mean + p[RANK];
        value += q[RANK];
#pragma unroll
        for (int k = 0; k < RANK; ++k) value = fmaf(p[k], q[k], value);
        return fmaf(noise, normal_deviate(key, user * n_items + item), value);
    }

    // A checksum term: the sum over all ratings, modulo 2^64, does not depend on their order.
    __device__ unsigned long long check(long long user, int item, float value) const {
        return splitmix64(splitmix64(user * n_items + item) + (unsigned long long)(long long)(value * 0x1p24f));
    }
};

__device__ inline long long warp_index() { return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; }

__device__ inline unsigned long long warp_sum(unsigned long long x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL, x, offset);
    return x;
}

// Inclusive prefix sum over the warp.
__device__ inline int running_sum(int x) {
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int before = __shfl_up_sync(ALL, x, offset);
        if (threadIdx.x % 32 >= offset) x += before;
    }
    return x;
}

// Clears a warp's bits, and calls take(place, bit) for each that was set, places counting from `at` in the order of the
// bits. Returns the place behind the last one.
template <class Take>
__device__ inline long long take_bits(unsigned* bits, int words, long long at, Take take) {
    for (int first = 0; first < words; first += 32) {
        const int w = first + threadIdx.x % 32;
        unsigned word = w < words ? bits[w] : 0;
        if (!__any_sync(ALL, word != 0)) continue;
        if (word) bits[w] = 0;
        const int until = running_sum(__popc(word));
        long long to = at + until - __popc(word);
        at += __shfl_sync(ALL, until, 31);
        for (; word; word &= word - 1) take(to++, w * 32ll + __ffs((int)word) - 1);
    }
    return at;
}

// traits: (n_users, TRAITS). Grid and block: a thread a trait.
extern "C" __global__ void draw_traits(float* __restrict__ traits, long long n_users, unsigned long long key,
                                       float bias) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k < n_users * TRAITS) traits[k] = normal_deviate(key, k) * (k % TRAITS == RANK ? bias : 1.0f);
}

// Grid and block: n_warps warps, which stride over the users. A user draws items by popularity until enough are
// distinct; after max_draws the missing ones are taken in cyclic order. Each warp marks items in its own row of
// bits in `taken` (n_warps, words), all zero before and after. A round has at most as many draws as items are missing,
// so that the items are those of the first draws that suffice, whichever lane is first.
// checks[0] += checksum of the training ratings, checks[1] += of the test ratings.
extern "C" __global__ void draw_ratings(
    const long long* __restrict__ offsets, long long n_users, int n_warps, int words, unsigned* taken,
    const unsigned* __restrict__ thresholds, const int* __restrict__ aliases, int n_items, unsigned total,
    long long max_draws, unsigned long long draws, const float* __restrict__ user_traits,
    const float* __restrict__ item_traits, float mean, float noise, unsigned long long noise_key, long long n_tests,
    int every, unsigned long long test_key, int* train_items, float* __restrict__ train_values,
    int* __restrict__ test_users, int* test_items, float* __restrict__ test_values, int* __restrict__ item_counts,
    unsigned long long* __restrict__ checks) {
    if (warp_index() >= n_warps) return;
    const Popularity popular = {thresholds, aliases, n_items, total};
    const Values values = {user_traits, item_traits, n_items, mean, noise, noise_key};
    const Split split = {n_tests, every, test_key};
    unsigned* const mine = taken + warp_index() * words;
    const int lane = threadIdx.x % 32;
    unsigned long long train_check = 0, test_check = 0;
    for (long long user = warp_index(); user < n_users; user += n_warps) {
        const long long begin = offsets[user], end = offsets[user + 1];
        const unsigned long long key = splitmix64(draws + user);
        int missing = (int)(end - begin);
        for (long long draw = 1; missing > 0;) {
            const int drawing = min(missing, 32);
            bool fresh = false;
            if (lane < drawing) {
                const long long k = draw + lane;
                const int item = k <= max_draws ? popular(splitmix64(key + k)) : (int)(k % n_items);
                const unsigned bit = 1u << item % 32;
                fresh = !(atomicOr(&mine[item / 32], bit) & bit);
            }
            missing -= __popc(__ballot_sync(ALL, fresh));
            draw += drawing;
        }
        __syncwarp();
        take_bits(mine, words, begin, [&](long long to, long long item) {
            split.place(to, train_items, test_items) = (int)item;
        });
        __syncwarp();
        for (long long position = begin + lane; position < end; position += 32) {
            const int item = split.place(position, train_items, test_items);
            const float value = values(user, item);
            const long long tests = split.before(position);
            const unsigned long long check = values.check(user, item, value);
            if (split.tests(position)) {
                test_users[tests] = (int)user;
                test_values[tests] = value;
                test_check += check;
            } else {
                train_values[position - tests] = value;
                atomicAdd(&item_counts[item], 1);
                train_check += check;
            }
        }
    }
    train_check = warp_sum(train_check);
    test_check = warp_sum(test_check);
    if (lane == 0) {
        atomicAdd(&checks[0], train_check);
        atomicAdd(&checks[1], test_check);
    }
}

// Grid and block: a warp a user of the chunk that begins with first_user. Sets its training items' bits in `bits`
// (n_items, words), all zero before. Every bit is set once, so that an addition sets it.
extern "C" __global__ void mark_items(const long long* __restrict__ offsets, const int* __restrict__ items,
                                      long long first_user, int n_users, int words, unsigned* __restrict__ bits) {
    const long long user = warp_index();
    if (user >= n_users) return;
    const long long end = offsets[first_user + user + 1];
    for (long long k = offsets[first_user + user] + threadIdx.x % 32; k < end; k += 32)
        atomicAdd(&bits[items[k] * (long long)words + user / 32], 1u << user % 32);
}

// Grid and block: a warp an item. Appends the users of a chunk to its row, at next[item], and clears its bits.
// checks[2] += checksum of the ratings.
extern "C" __global__ void append_users(unsigned* __restrict__ bits, int words, long long first_user, int n_items,
                                        const float* __restrict__ user_traits, const float* __restrict__ item_traits,
                                        float mean, float noise, unsigned long long noise_key,
                                        long long* __restrict__ next, int* __restrict__ users,
                                        float* __restrict__ user_values, unsigned long long* __restrict__ checks) {
    const long long row = warp_index();
    if (row >= n_items) return;
    const int item = (int)row, lane = threadIdx.x % 32;
    const Values values = {user_traits, item_traits, n_items, mean, noise, noise_key};
    unsigned* const mine = bits + item * (long long)words;
    unsigned long long check = 0;
    const long long end = take_bits(mine, words, next[item], [&](long long to, long long bit) {
        const long long user = first_user + bit;
        const float value = values(user, item);
        users[to] = (int)user;
        user_values[to] = value;
        check += values.check(user, item, value);
    });
    check = warp_sum(check);
    if (lane == 0) {
        next[item] = end;
        atomicAdd(&checks[2], check);
    }
}
