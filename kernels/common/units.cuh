// The units of a restricted Boltzmann machine for ratings: HIDDEN binary units, and a softmax over LEVELS for every
// rating.
#pragma once
#include "common/random.cuh"

#if !defined HIDDEN || !defined LEVELS
#error "compile with -DHIDDEN=units -DLEVELS=K"
#endif

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Draws hidden unit j of a user: true with the given probability, from the stream `key`.
__device__ inline bool drawn_unit(float probability, unsigned long long key, int user, int j) {
    return random_uniform(key, user * (unsigned long long)HIDDEN + j) < probability;
}

// p = softmax(p), in place (thesis, equation 4.1).
__device__ inline void softmax(float (&p)[LEVELS]) {
    float largest = p[0], total = 0.0f;
#pragma unroll
    for (int k = 1; k < LEVELS; ++k) largest = max(largest, p[k]);
#pragma unroll
    for (int k = 0; k < LEVELS; ++k) total += p[k] = expf(p[k] - largest);
#pragma unroll
    for (int k = 0; k < LEVELS; ++k) p[k] /= total;
}

// The first level with p_0 + .. + p_level > draw.
__device__ inline int drawn_level(const float (&p)[LEVELS], float draw) {
    float below = 0.0f;
    int level = 0;
#pragma unroll
    for (int k = 0; k < LEVELS - 1; ++k) {
        below += p[k];
        level += below <= draw;
    }
    return level;
}

// Gradient step with momentum and weight decay.
struct Change {
    float rate, momentum, weight_decay;

    // x + change. step: rate / number of summands in the gradient. last: the previous change of x, unused without
    // momentum.
    __device__ float applied(float x, float gradient, float step, float decay, float* last) const {
        float change = step * gradient - rate * decay * x;
        if (momentum > 0.0f) *last = change += momentum * *last;
        return x + change;
    }
};
