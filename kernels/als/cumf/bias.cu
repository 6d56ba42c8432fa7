// get_bias: b = sum r theta of every row, a phase of its own as published.
// Source: Tan et al. 2018, section 2.2. hermitian.cu computes the same b from the theta that it has read anyway.
//
// A group of lanes takes a rating, its lanes the factors; the groups of the block add their sums in order, and the
// blocks of a long row add theirs as in common/segments.cuh: the same bits in every run.
// Measured (make gains), NVIDIA H200, Netflix (synthetic), 100 factors, all right sides:
//               seconds  % of roofline  gain
//     get_bias  0.00921  8.5            –
#include "als/cumf/weights.cuh"
#include "common/group.cuh"
#include "common/segments.cuh"

constexpr int BIAS_GROUPS = 128 / LANES;

// Grid: a block a segment. Block: 128, a group of LANES a rating. partial: FACTORS floats a slot.
extern "C" __global__ void __launch_bounds__(128)
    get_bias(const Segment* __restrict__ segments, const int* __restrict__ indices, const float* __restrict__ values,
             const float* __restrict__ fixed, float* __restrict__ biases, float* __restrict__ partial,
             int* __restrict__ arrived, float alpha) {
    __shared__ float of_groups[BIAS_GROUPS][FACTORS];
    const Segment segment = segments[blockIdx.x];
    if (segment.count == 0) return;
    const int group = threadIdx.x / LANES;
    float sums[FACTORS_PER_LANE] = {};
#pragma unroll 4
    for (int t = group; t < segment.length; t += BIAS_GROUPS) {
        const float weight = weight_in_b(values[segment.begin + t], alpha);
        float theta[FACTORS_PER_LANE];
        load_factors(theta, fixed, indices[segment.begin + t]);
#pragma unroll
        for (int k = 0; k < FACTORS_PER_LANE; ++k) sums[k] += weight * theta[k];
    }
    store_factors(of_groups[0], group, sums);
    __syncthreads();
    float* const bias = biases + segment.row * (long long)FACTORS;
    float* const parts = partial + segment.slot * (long long)FACTORS;
    for (int k = threadIdx.x; k < FACTORS; k += 128) {
        float sum = 0.0f;
        for (int g = 0; g < BIAS_GROUPS; ++g) sum += of_groups[g][k];
        (segment.parts > 1 ? parts + segment.part * FACTORS : bias)[k] = sum;
    }
    if (segment.parts == 1 || !last_part(segment, arrived)) return;
    for (int k = threadIdx.x; k < FACTORS; k += 128) {
        float sum = 0.0f;
        for (int part = 0; part < segment.parts; ++part) sum += __ldcg(&parts[part * FACTORS + k]);
        bias[k] = sum;
    }
}
