// Contrastive divergence on a batch of users in three launches, all levels at once.
//
// The computation of thesis.cu, with the same draws. It differs in:
//   - weights are stored as (items, LEVELS, HIDDEN) in vectors of four hidden units: an item's levels are contiguous,
//     and a hidden update reads the one level that a rating has, not K times zeros and ones;
//   - work is split by ratings, not by users: a block takes a segment of a user's ratings (common/segments.cuh), a
//     group of lanes a rating, so that a user with thousands of ratings does not occupy one multiprocessor alone. The
//     last block of a user to arrive adds the parts in order: the same bits in every run;
//   - a step of Gibbs sampling is one launch: a group computes the K inputs of a rating, draws its level, and adds that
//     level's weights, which it has just read, to the next hidden update;
//   - the reconstruction is a level a rating, a byte instead of K zeros and ones;
//   - the weight update is limited to items with ratings in the batch, those with most ratings first; each weight is
//     read and written once. The sums of all levels are in registers: a rating's hidden probabilities are added to the
//     sum of its level, those of its reconstruction subtracted from the sum of the drawn level;
//   - the batches of all epochs, by user and by item, are on the device before the first epoch.
//
//   1. fast_hidden: p(h | v) of users.
//   2. fast_reconstruct: a step of Gibbs sampling.
//   3. fast_update: weights and biases.
// Measured (make gains), NVIDIA H200, Douban (synthetic), 128 units, an epoch:
//                 seconds  % of roofline  gain
//     fast (RBM)  0.14     0.88           10.6 x over thesis
#define FACTORS HIDDEN
#define GROUP_LANES QUAD_LANES
#include "common/group.cuh"
#include "common/segments.cuh"
#include "common/units.cuh"

constexpr int AT_ONCE = 4;  // entries whose loads overlap

__device__ inline float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ inline float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ inline void add_product(float4& sum, float a, float4 b) {
    sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
}

// The lane's quads of a row.
struct Row {
    float4 quads[QUADS_PER_LANE];

    // Calls use(index among the lane's quads, position in the row).
    template <class Use>
    __device__ static void for_each(Use use) {
#pragma unroll
        for (int q = 0; q < QUADS_PER_LANE; ++q)
            if (QUADS % LANES == 0 || group_lane() + q * LANES < QUADS) use(q, group_lane() + q * LANES);
    }
    __device__ void clear() {
#pragma unroll
        for (int q = 0; q < QUADS_PER_LANE; ++q) quads[q] = {};
    }
    __device__ void load(const float4* row) {
        for_each([&](int q, int place) { quads[q] = row[place]; });
    }
    __device__ void add(const float4* row) {
        for_each([&](int q, int place) { quads[q] = quads[q] + row[place]; });
    }
    __device__ void store(float4* row) const {
        for_each([&](int q, int place) { row[place] = quads[q]; });
    }
};

// The user's row of `probabilities` = sigmoid(biases + the sums of all groups and all segments). sums: shared, a row
// for each group. parts: a row for each segment of users with several.
__device__ inline void finish_hidden(const Row& mine, const Segment& segment, float4* sums, float4* parts,
                                     int* arrived, const float* hidden_biases, float* probabilities) {
    __shared__ bool last;
    const float* const of_groups = reinterpret_cast<const float*>(sums);
    float* const of_segments = reinterpret_cast<float*>(parts + segment.slot * (long long)QUADS);
    mine.store(sums + threadIdx.x / LANES * QUADS);
    __syncthreads();
    const auto sum_of_groups = [&](int j) {
        float sum = 0.0f;
        for (int g = 0; g < blockDim.x / LANES; ++g) sum += of_groups[g * QUADS * 4 + j];
        return sum;
    };
    if (segment.parts > 1) {
        for (int j = threadIdx.x; j < HIDDEN; j += blockDim.x)
            of_segments[segment.part * QUADS * 4 + j] = sum_of_groups(j);
        if (!last_of_row(segment, arrived, threadIdx.x, last, [] { __syncthreads(); })) return;
    }
    for (int j = threadIdx.x; j < QUADS * 4; j += blockDim.x) {
        float sum = 0.0f;
        if (j < HIDDEN) {
            if (segment.parts > 1)
                for (int part = 0; part < segment.parts; ++part) sum += __ldcg(&of_segments[part * QUADS * 4 + j]);
            else
                sum = sum_of_groups(j);
            sum = sigmoid(hidden_biases[j] + sum);
        }
        probabilities[segment.row * (long long)QUADS * 4 + j] = sum;
    }
}

// Grid: a block a segment. Block: whole warps. Dynamic shared memory: a row for each group. levels: (entries,).
extern "C" __global__ void fast_hidden(const Segment* __restrict__ segments, int first_segment,
                                       const int* __restrict__ items, const unsigned char* __restrict__ levels,
                                       const float4* __restrict__ weights, const float* __restrict__ hidden_biases,
                                       float4* parts, int* arrived, float* __restrict__ probabilities) {
    extern __shared__ __align__(16) float shared[];
    const Segment segment = segments[first_segment + blockIdx.x];
    const int groups = blockDim.x / LANES;
    Row sum;
    sum.clear();
#pragma unroll 4
    for (int t = threadIdx.x / LANES; t < segment.length; t += groups) {
        const long long entry = segment.begin + t;
        sum.add(weights + (items[entry] * (long long)LEVELS + levels[entry]) * QUADS);
    }
    finish_hidden(sum, segment, reinterpret_cast<float4*>(shared), parts, arrived, hidden_biases, probabilities);
}

// Grid: a block a segment. Block: whole warps. Dynamic shared memory: a row for each group. known, probabilities:
// (users, HIDDEN in whole quads), p(h | v) before and after the step. reconstruction: (entries of a batch,), the drawn
// levels from first_entry on.
extern "C" __global__ void fast_reconstruct(const Segment* __restrict__ segments, int first_segment,
                                            const int* __restrict__ items, const float4* __restrict__ weights,
                                            const float* __restrict__ visible_biases,
                                            const float* __restrict__ hidden_biases, const float* known,
                                            long long first_entry, unsigned long long hidden_key,
                                            unsigned long long visible_key, float4* parts, int* arrived,
                                            unsigned char* __restrict__ reconstruction, float* probabilities) {
    extern __shared__ __align__(16) float shared[];
    const Segment segment = segments[first_segment + blockIdx.x];
    const int groups = blockDim.x / LANES;
    float4* const units = reinterpret_cast<float4*>(shared);
    for (int j = threadIdx.x; j < QUADS * 4; j += blockDim.x)
        shared[j] = j < HIDDEN && drawn_unit(known[segment.row * (long long)QUADS * 4 + j], hidden_key, segment.row, j);
    __syncthreads();
    Row h, sum;
    h.clear();
    h.load(units);
    sum.clear();
    __syncthreads();  // the units are in registers; the sums overwrite them

    int item = 0;  // of the entry, prefetched
    const int mine = threadIdx.x / LANES;
    if (mine < segment.length) item = items[segment.begin + mine];
    for (int t = mine; t < segment.length; t += groups) {
        const long long entry = segment.begin + t, first = item * (long long)LEVELS;
        if (t + groups < segment.length) item = items[entry + groups];
        float p[LEVELS];
#pragma unroll
        for (int k = 0; k < LEVELS; ++k) {
            p[k] = 0.0f;
            Row::for_each([&](int q, int place) { p[k] += dot(h.quads[q], weights[(first + k) * QUADS + place]); });
        }
#pragma unroll
        for (int k = 0; k < LEVELS; ++k) p[k] = visible_biases[first + k] + group_sum(p[k]);
        softmax(p);
        const int level = drawn_level(p, random_uniform(visible_key, entry - first_entry));
        sum.add(weights + (first + level) * QUADS);
        if (group_lane() == 0) reconstruction[entry - first_entry] = level;
    }
    finish_hidden(sum, segment, units, parts, arrived, hidden_biases, probabilities);
}

// Grid: block 0 updates the hidden biases; in the others a group takes LANES quads of an item. Block: whole warps.
// row_items, rows: of the batch, positions in `mapping` from `first_entry` on; mapping and reconstruction count entries
// from there. positive, negative: (users, HIDDEN in whole quads). last_...: previous changes, unused without momentum.
extern "C" __global__ void fast_update(
    const int* __restrict__ row_items, const long long* __restrict__ rows, long long first_row, int n_rows,
    const int* __restrict__ mapping, long long first_entry, const int* __restrict__ entry_users,
    const unsigned char* __restrict__ levels, const unsigned char* __restrict__ reconstruction,
    const float4* __restrict__ positive, const float4* __restrict__ negative, const int* __restrict__ users,
    long long first_user, int n_users, float4* __restrict__ weights, float* __restrict__ visible_biases,
    float* __restrict__ hidden_biases, float4* __restrict__ last_weights, float* __restrict__ last_visible_biases,
    float* __restrict__ last_hidden_biases, float rate, int per_item, float momentum, float weight_decay) {
    const Change change = {rate, momentum, weight_decay};
    if (blockIdx.x == 0) {
        const float *data = reinterpret_cast<const float*>(positive), *model = reinterpret_cast<const float*>(negative);
        for (int j = threadIdx.x; j < HIDDEN; j += blockDim.x) {
            float gradient = 0.0f;
#pragma unroll 4
            for (int c = 0; c < n_users; ++c) {
                const long long place = users[first_user + c] * (long long)QUADS * 4 + j;
                gradient += data[place] - model[place];
            }
            hidden_biases[j] =
                change.applied(hidden_biases[j], gradient, rate / (float)n_users, 0.0f, last_hidden_biases + j);
        }
        return;
    }
    const int work = (blockIdx.x - 1) * (blockDim.x / LANES) + threadIdx.x / LANES;
    const int row = work / QUADS_PER_LANE, quad = work % QUADS_PER_LANE * LANES + group_lane();
    if (row >= n_rows) return;
    const bool there = quad < QUADS;  // lanes beyond the row only load entries

    const long long begin = rows[first_row + row], end = rows[first_row + row + 1];
    float4 gradient[LEVELS] = {};
    float bias_gradients[LEVELS] = {};
    for (long long first = begin; first < end; first += LANES) {
        // Each lane loads one entry; then the group processes all of them.
        const int count = (int)min(end - first, (long long)LANES);
        const int mine = mapping[first + min(group_lane(), count - 1)];
        const int user = entry_users[first_entry + mine];
        const int its_level = levels[first_entry + mine], its_drawn = reconstruction[mine];
        for (int e = 0; e < count; e += AT_ONCE) {
            float4 data[AT_ONCE], model[AT_ONCE];
            int level[AT_ONCE], drawn[AT_ONCE];
#pragma unroll
            for (int a = 0; a < AT_ONCE; ++a) {
                const int source = min(e + a, count - 1);
                const long long place = __shfl_sync(group_mask(), user, source, LANES) * (long long)QUADS + quad;
                data[a] = there ? positive[place] : float4{};
                model[a] = there ? negative[place] : float4{};
                level[a] = __shfl_sync(group_mask(), its_level, source, LANES);
                drawn[a] = __shfl_sync(group_mask(), its_drawn, source, LANES);
            }
#pragma unroll
            for (int a = 0; a < AT_ONCE; ++a) {
                if (e + a >= count) break;
#pragma unroll
                for (int k = 0; k < LEVELS; ++k) {
                    // No `if`: the compiler may turn it into an index, which moves `gradient` to local memory.
                    const float added = level[a] == k, taken = drawn[a] == k;
                    add_product(gradient[k], added, data[a]);
                    add_product(gradient[k], -taken, model[a]);
                    bias_gradients[k] += added - taken;
                }
            }
        }
    }
    if (!there) return;

    const long long item = row_items[first_row + row];
    const float step = rate / (float)(per_item ? end - begin : n_users);
#pragma unroll
    for (int k = 0; k < LEVELS; ++k) {
        const long long place = (item * LEVELS + k) * QUADS + quad;
        const float4 w = weights[place], g = gradient[k];
        float* const last = reinterpret_cast<float*>(last_weights + place);
        weights[place] = {change.applied(w.x, g.x, step, weight_decay, last),
                          change.applied(w.y, g.y, step, weight_decay, last + 1),
                          change.applied(w.z, g.z, step, weight_decay, last + 2),
                          change.applied(w.w, g.w, step, weight_decay, last + 3)};
        if (quad == 0) {
            float* const bias = visible_biases + item * LEVELS + k;
            *bias = change.applied(*bias, bias_gradients[k], step, 0.0f, last_visible_biases + item * LEVELS + k);
        }
    }
}

// The geometry of the three for the host. Grid: 1. Block: 1. Lanes of a group, quads of a row, and of a lane; bytes of
// dynamic shared memory of a group.
extern "C" __global__ void shape(int* __restrict__ lanes, int* __restrict__ quads, int* __restrict__ quads_per_lane,
                                 int* __restrict__ group_bytes) {
    *lanes = LANES;
    *quads = QUADS;
    *quads_per_lane = QUADS_PER_LANE;
    *group_bytes = QUADS * sizeof(float4);
}
