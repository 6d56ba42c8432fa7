// Random numbers as a function of position; the device side of gpumf._util.counter_rng, bit for bit.
#pragma once

__device__ inline unsigned long long splitmix64(unsigned long long x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// x with splitmix64(x) = z: its steps inverted in reverse order, the multipliers' inverses modulo 2^64.
__device__ inline unsigned long long splitmix64_inverse(unsigned long long z) {
    z = (z ^ (z >> 31) ^ (z >> 62)) * 0x319642B2D24D8EC3ull;
    z = (z ^ (z >> 27) ^ (z >> 54)) * 0x96DE1B173F119089ull;
    return (z ^ (z >> 30) ^ (z >> 60)) - 0x9E3779B97F4A7C15ull;
}

// A number on [0, 1), a multiple of 2^-24, for draw number `draw` of the stream `key`.
__device__ inline float random_uniform(unsigned long long key, unsigned long long draw) {
    return (float)(splitmix64(key + draw) >> 40) * 0x1p-24f;
}

// A uniform position below n for draw number `draw` of the stream `key`: 64 bits scaled to n, with a bias of at most
// n 2^-64.
__device__ inline long long random_position(unsigned long long key, unsigned long long draw, long long n) {
    return (long long)__umul64hi(splitmix64(key + draw), (unsigned long long)n);
}

// The k-th normal deviate of the stream `key`: twelve uniform 16-bit integers, as in gpumf.ratings.synthetic.
__device__ inline float normal_deviate(unsigned long long key, unsigned long long k) {
    int total = -393210;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
        const unsigned long long h = splitmix64(key + 3 * k + j);
        total += (int)(h & 0xffff) + (int)(h >> 16 & 0xffff) + (int)(h >> 32 & 0xffff) + (int)(h >> 48);
    }
    return (float)total * 0x1p-16f;
}
