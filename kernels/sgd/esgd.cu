// ESGD: ratings loaded as they lie, used in random order out of shared memory.
// Source: Nassar et al., section 3, Algorithms 1 and 2.
//
// Nothing is sorted or shuffled beforehand. A block of th_size threads loads sh_size = th_size * st ratings, coalesced, in
// st steps, and uses them in the order of Rand, a permutation of 0..sh_size-1 that is made once. k consecutive threads
// take a rating, so that reads and writes of a vector are coalesced, and th_size / k ratings are used at a time. Their
// products are added up in shared memory, their gradients to the vectors, both atomically.
//
// As published, the ratings come without their baseline predictors, and the rows have k factors and nothing else.
//
// Who races on what: the ratings that are used at a time, in a block and in others, on the row of a user or item that they
// share. One reads what another one is adding to; what is added is never lost.
//
// Slips of the source, implemented as the text says:
//   - Algorithm 2, lines 12 to 17: Rand is read at thIdx + st * th_size, the same place in each of the st steps, and its
//     entry then not used; here rating number j of a block is shared memory's entry Rand[j], each used once;
//   - sh_pred is never set to zero; here it is before every use, with a barrier behind it;
//   - the barrier that ends a use of sh_pred before the next one begins is missing after line 29;
//   - line 25 reads sh_pred after one barrier (line 24), lines 1 to 4 compute indices of which only the last line's is
//     used, and the square grid is there for an old limit on blocks; here the grid is one-dimensional;
//   - Table 1 has th_size = 1000 with k = 16, though th_size has to be a multiple of k (section 3);
//   - the ratings' number need not be a multiple of sh_size; the last block has fewer, and skips entries beyond them.
// What it gains is measured in book/sgd_schemes.ipynb.
#include "common/sgd.cuh"

constexpr int MOST_GROUPS = 1024 / FACTORS;  // of k threads in a block

// A block's chunk are the ratings blockIdx.x * sh_size and on. blockDim.x is a multiple of FACTORS.
// Dynamic shared memory: 12 sh_size bytes.
extern "C" __global__ void esgd(const int* __restrict__ users, const int* __restrict__ items,
                                const float* __restrict__ values, long long n_ratings, const int* __restrict__ rand,
                                int sh_size, float* user_factors, float* item_factors,
                                const Steps<float>* __restrict__ steps_now) {
    extern __shared__ float shared[];
    __shared__ float sh_pred[MOST_GROUPS];
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
        // Everybody comes to the barriers, also those without a rating.
        const int chosen = j + group < sh_size ? rand[j + group] : sh_size;
        const bool mine = chosen < sh_size && first + chosen < n_ratings;
        if (column == 0) sh_pred[group] = 0.0f;
        __syncthreads();
        float *to_p = nullptr, *to_q = nullptr;
        float p = 0.0f, q = 0.0f;
        if (mine) {
            to_p = &user_factors[sh_user[chosen] * (long long)FACTORS + column];
            to_q = &item_factors[sh_item[chosen] * (long long)FACTORS + column];
            p = __ldcg(to_p), q = __ldcg(to_q);  // past L1: other multiprocessors write them too
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
