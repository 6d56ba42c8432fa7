// RBM-CF: contrastive divergence on a batch of users, one matrix product for each of the K levels.
// Source: Kampffmeyer 2015, section 4.2.2, Algorithm 4.2 and Table 4.1, after Cai et al. 2012.
//
// A batch is a sparse matrix of items (rows) and users (columns) for each level k: its entries are 1 for ratings of
// this level, 0 for others. All k share the positions of the entries. Weights are K matrices W^k of items by hidden
// units. One kernel for each step of Algorithm 4.2:
//   thesis_hidden: tr(W^k) v^k from columns (CSC): one block a user, one thread a hidden unit; v^k is zero or one, so
//     that the product is a sum;
//   thesis_sigmoid: sigmoid of the sum of the K products and the bias;
//   thesis_draw: the hidden units, zeros and ones;
//   thesis_visible: W^k h from single entries (COO): one block an entry, one thread a hidden unit, a parallel
//   reduction;
//     h is zero or one, so that the product is a sum;
//   thesis_softmax: an entry's level, drawn from the probabilities of all K, as zeros and ones;
//   thesis_weights: v^k tr(h) from rows (CSR), which find the entries' values by `mapping`: one block a row, also of
//     items without ratings in the batch, one thread a hidden unit; changes W^k and the visible biases;
//   thesis_hidden_biases: one thread a hidden unit.
//
// Where the source is silent or slips:
//   - which variables are drawn and which are probabilities: the two products with zeros and ones need draws. The
//     source says of the third one that neither factor is binary, but p(v' | h) p(h | v') would not have the mean <v
//     h>_T, since p(h | v') depends on the drawn v'; so v' is binary here too, multiplied as in the source;
//   - its equation 4.4 has one visible bias an item; there is one for each level;
//   - the set over which avg() in line 19 averages: see gpumf.RBM.
// Measured (make gains), NVIDIA H200, Douban (synthetic), 128 units, an epoch:
//             seconds  % of roofline  gain
//     thesis  1.48     0.083          –
#include "common/tree_sum.cuh"
#include "common/units.cuh"

// Grid: a block a user. Block: HIDDEN. products: (users, HIDDEN) of the batch. values: (entries,).
extern "C" __global__ void thesis_hidden(const long long* __restrict__ indptr, const int* __restrict__ items,
                                         const unsigned char* __restrict__ values, const float* __restrict__ weights,
                                         float* __restrict__ products) {
    float sum = 0.0f;
    for (long long t = indptr[blockIdx.x]; t < indptr[blockIdx.x + 1]; ++t)
        if (values[t]) sum += weights[items[t] * (long long)HIDDEN + threadIdx.x];
    products[blockIdx.x * HIDDEN + threadIdx.x] = sum;
}

// Grid: a block a user. Block: HIDDEN. products: (LEVELS, users, HIDDEN).
extern "C" __global__ void thesis_sigmoid(const float* __restrict__ products, const float* __restrict__ hidden_biases,
                                          float* __restrict__ probabilities) {
    float sum = hidden_biases[threadIdx.x];
    for (int k = 0; k < LEVELS; ++k) sum += products[(k * gridDim.x + blockIdx.x) * HIDDEN + threadIdx.x];
    probabilities[blockIdx.x * HIDDEN + threadIdx.x] = sigmoid(sum);
}

// Grid: a block a user. Block: HIDDEN.
extern "C" __global__ void thesis_draw(const int* __restrict__ users, const float* __restrict__ probabilities,
                                       unsigned long long key, unsigned char* __restrict__ units) {
    const int place = blockIdx.x * HIDDEN + threadIdx.x;
    units[place] = drawn_unit(probabilities[place], key, users[blockIdx.x], threadIdx.x);
}

// Grid: a block an entry. Block: HIDDEN, with a float of dynamic shared memory a thread. columns: (entries,), the
// user's position in the batch. biases: (items,), of this level. inputs: (entries,).
extern "C" __global__ void thesis_visible(const int* __restrict__ items, const int* __restrict__ columns,
                                          const unsigned char* __restrict__ units, const float* __restrict__ weights,
                                          const float* __restrict__ biases, float* __restrict__ inputs) {
    extern __shared__ float shared[];
    const int item = items[blockIdx.x], j = threadIdx.x;
    const bool on = units[columns[blockIdx.x] * HIDDEN + j];
    const float sum = tree_sum(on ? weights[item * (long long)HIDDEN + j] : 0.0f, shared);
    if (j == 0) inputs[blockIdx.x] = biases[item] + sum;
}

// Grid and block: a thread an entry. inputs, values: (LEVELS, entries).
extern "C" __global__ void thesis_softmax(int n_entries, unsigned long long key, const float* __restrict__ inputs,
                                          unsigned char* __restrict__ values) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n_entries) return;
    float p[LEVELS];
#pragma unroll
    for (int k = 0; k < LEVELS; ++k) p[k] = inputs[k * n_entries + t];
    softmax(p);
    const int level = drawn_level(p, random_uniform(key, t));
#pragma unroll
    for (int k = 0; k < LEVELS; ++k) values[k * n_entries + t] = k == level;
}

// Grid: a block an item. Block: HIDDEN. values, reconstruction: (entries,), of the data and drawn. positive, negative:
// (users, HIDDEN). weights, biases and their previous changes (unused without momentum): of this level.
extern "C" __global__ void thesis_weights(const int* __restrict__ row_indptr, const int* __restrict__ mapping,
                                          const int* __restrict__ columns, const unsigned char* __restrict__ values,
                                          const unsigned char* __restrict__ reconstruction,
                                          const float* __restrict__ positive, const float* __restrict__ negative,
                                          float* __restrict__ weights, float* __restrict__ biases,
                                          float* __restrict__ last_weights, float* __restrict__ last_biases,
                                          float rate, int n_users, int per_item, float momentum, float weight_decay) {
    const int begin = row_indptr[blockIdx.x], end = row_indptr[blockIdx.x + 1], j = threadIdx.x;
    if (begin == end) return;
    float gradient = 0.0f, bias_gradient = 0.0f;
    for (int s = begin; s < end; ++s) {
        const int t = mapping[s], place = columns[t] * HIDDEN + j;
        gradient += values[t] * positive[place] - reconstruction[t] * negative[place];
        bias_gradient += values[t] - reconstruction[t];
    }
    const Change change = {rate, momentum, weight_decay};
    const float step = rate / (float)(per_item ? end - begin : n_users);
    const long long place = blockIdx.x * (long long)HIDDEN + j;
    weights[place] = change.applied(weights[place], gradient, step, weight_decay, last_weights + place);
    if (j == 0) biases[blockIdx.x] = change.applied(biases[blockIdx.x], bias_gradient, step, 0.0f, last_biases + blockIdx.x);
}

// Grid: 1. Block: HIDDEN.
extern "C" __global__ void thesis_hidden_biases(const float* __restrict__ positive, const float* __restrict__ negative,
                                                int n_users, float* __restrict__ biases, float* __restrict__ last,
                                                float rate, float momentum) {
    float gradient = 0.0f;
    for (int c = 0; c < n_users; ++c)
        gradient += positive[c * HIDDEN + threadIdx.x] - negative[c * HIDDEN + threadIdx.x];
    const Change change = {rate, momentum, 0.0f};
    biases[threadIdx.x] =
        change.applied(biases[threadIdx.x], gradient, rate / (float)n_users, 0.0f, last + threadIdx.x);
}
