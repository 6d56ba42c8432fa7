// ESGD: ratings loaded as they lie, used in random order out of shared memory.
// Source: Nassar et al., section 3, Algorithms 1 and 2.
//
// Nothing is sorted or shuffled beforehand. A block of th_size threads loads sh_size = th_size * st ratings, coalesced,
// in st steps, and uses them in the order of Rand, one permutation of 0..sh_size-1 for all blocks. k consecutive
// threads take a rating, so that reads and writes of a vector are coalesced, and th_size / k ratings are used at a
// time. Their products are summed in shared memory, their gradients added to the vectors, both atomically.
//
// As published, the ratings are less their baseline predictors, and a row is k factors without biases.
//
// Who races on what: ratings in use at the same time that share a user or an item, on its row: reads against atomic
// additions. No addition is lost.
//
// Slips of the source, implemented as the text says:
//   - Algorithm 2, lines 12 to 17: Rand is read at thIdx + st * th_size, the same position in each of the st steps, and
//     its entry not used; here the j-th rating of a block is entry Rand[j] of shared memory, each used once;
//   - sh_pred is never set to zero; here it is, before every use, followed by a barrier;
//   - the barrier that ends a use of sh_pred before the next one begins is missing after line 29;
//   - line 25 reads sh_pred after one barrier (line 24), lines 1 to 4 compute indices of which only the last line's is
//     used, and the square grid is there for an old limit on blocks; here the grid is one-dimensional;
//   - Table 1 has th_size = 1000 with k = 16, though th_size has to be a multiple of k (section 3);
//   - the ratings' number need not be a multiple of sh_size; the last block has fewer, and skips entries beyond them.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 128 factors, as many updates as ratings:
//                     seconds  % of roofline  gain
//     esgd            –        –              diverged
//     esgd, shuffled  0.481    0.42           0.723 x over bsgd
#include "common/sgd.cuh"

#ifndef MAX_THREADS
#error "compile with -DMAX_THREADS=threads, the most of a block"
#endif

constexpr int MAX_GROUPS = MAX_THREADS / FACTORS;  // of k threads in a block

// Grid: a block a chunk of sh_size ratings. Block: a multiple of FACTORS. Dynamic shared memory: 12 sh_size bytes.
extern "C" __global__ void esgd(const int* __restrict__ users, const int* __restrict__ items,
                                const float* __restrict__ values, long long n_ratings, const int* __restrict__ rand,
                                int sh_size, float* user_factors, float* item_factors,
                                const Steps<float>* __restrict__ steps_now) {
    extern __shared__ float shared[];
    __shared__ float sh_pred[MAX_GROUPS];
    const Steps<float> steps = *steps_now;
    float* const sh_value = shared;
    int* const sh_user = reinterpret_cast<int*>(shared + sh_size);
    int* const sh_item = sh_user + sh_size;

    const long long first = blockIdx.x * (long long)sh_size;
    for (int k = threadIdx.x; k < sh_size; k += blockDim.x)
        if (first + k < n_ratings) {
            sh_user[k] = users[first + k];
            sh_item[k] = items[first + k];
            sh_value[k] = values[first + k];
        }
    __syncthreads();

    const int group = threadIdx.x / FACTORS, groups = blockDim.x / FACTORS, column = threadIdx.x % FACTORS;
    for (int j = 0; j < sh_size; j += groups) {
        // Threads without a rating take part in the barriers.
        const int chosen = j + group < sh_size ? rand[j + group] : sh_size;
        const bool mine = chosen < sh_size && first + chosen < n_ratings;
        if (column == 0) sh_pred[group] = 0.0f;
        __syncthreads();
        float *to_p = nullptr, *to_q = nullptr;
        float p = 0.0f, q = 0.0f;
        if (mine) {
            to_p = &user_factors[sh_user[chosen] * (long long)FACTORS + column];
            to_q = &item_factors[sh_item[chosen] * (long long)FACTORS + column];
            p = __ldcg(to_p), q = __ldcg(to_q);  // bypassing L1: other multiprocessors write them too
            atomicAdd(&sh_pred[group], p * q);
        }
        __syncthreads();
        if (mine) {
            float new_p = p, new_q = q;
            update(new_p, new_q, sh_pred[group] - sh_value[chosen], column, steps);
            atomicAdd(to_p, new_p - p);
            atomicAdd(to_q, new_q - q);
        }
        __syncthreads();
    }
}
