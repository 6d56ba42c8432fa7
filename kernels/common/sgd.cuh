// One update of stochastic gradient descent, the same in every scheme of kernels/sgd; the schemes differ in the order
// of the updates, in the threads that compute them, and in the memory where the factors are.
//     e = p_u . q_i - r;   p_u -= rate (e q_i + lambda_u p_u);   q_i -= rate (e p_u + lambda_i q_i)
// computed as p_u = (1 - rate lambda_u) p_u - (rate e) q_i, two instructions a factor, and q_i likewise.
//
// Biases are two more columns, one of which is constant on each side, so that the inner product includes them:
//     p_u = (.., b_u, 1),   q_i = (.., 1, b_i),   p_u . q_i = .. + b_u + b_i,   ratings less their mean
// BIASES is 0 without them, 1 where they are learned, 2 where they are fixed (a baseline predictor).
#pragma once

#if !defined(FACTORS) || !defined(BIASES)
#error "compile with -DFACTORS=columns -DBIASES=0, 1 or 2"
#endif

constexpr int USER_BIAS = FACTORS - 2, ITEM_BIAS = FACTORS - 1;  // columns, where there are biases

// Learning rate and decays, computed by the host, in device memory: recorded launches read those of the current epoch.
template <class Real>
struct Steps {
    Real rate;
    Real user_decay, item_decay, user_bias_decay, item_bias_decay;  // 1 - rate lambda of each
};

// The steps of a row whose rate is so many times the others'.
template <class Real>
__device__ inline Steps<Real> scaled(const Steps<Real>& s, Real by) {
    return {by * s.rate, 1 - by * (1 - s.user_decay), 1 - by * (1 - s.item_decay), 1 - by * (1 - s.user_bias_decay),
            1 - by * (1 - s.item_bias_decay)};
}

__device__ inline bool is_factor(int column) { return BIASES == 0 || column < USER_BIAS || column >= FACTORS; }

// Updates one column of both vectors by steps that are rate e of each.
template <class Real>
__device__ inline void update(Real& p, Real& q, Real user_step, Real item_step, int column, const Steps<Real>& steps) {
    const Real p_old = p;
    if (is_factor(column)) {
        p = steps.user_decay * p_old - user_step * q;
        q = steps.item_decay * q - item_step * p_old;
    } else if (BIASES == 1 && column == USER_BIAS) {
        p = steps.user_bias_decay * p - user_step;
    } else if (BIASES == 1) {
        q = steps.item_bias_decay * q - item_step;
    }
}

// Updates one column of both vectors; error = p_u . q_i - r.
template <class Real>
__device__ inline void update(Real& p, Real& q, Real error, int column, const Steps<Real>& steps) {
    const Real step = steps.rate * error;
    update(p, q, step, step, column, steps);
}
