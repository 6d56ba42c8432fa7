// Rows in vectors of four factors: the group of group.cuh where lane l has the quads l, l + LANES, ... of a row.
//
// A lane reads or writes a quad with one instruction, 8 bytes in half precision, and a row of f factors needs only as
// many lanes as it has quads. Rows are padded with zeros to whole quads; updates leave them zero.
#pragma once
#define GROUP_LANES QUAD_LANES
#include "common/group.cuh"
#include "common/sgd.cuh"
#include "common/async_mma.cuh"

constexpr bool FULL = QUADS == QUADS_PER_LANE * LANES;  // all lanes have QUADS_PER_LANE

struct __align__(8) HalfQuad {
    half_bits x[4];
};

__device__ inline float from_stored(float x) { return x; }
__device__ inline float from_stored(half_bits x) { return from_half(x); }

// Four factors in global memory, FP32 or FP16.
template <class Stored>
struct QuadOf;
template <>
struct QuadOf<half_bits> {
    using type = HalfQuad;
    using bits = uint2;
};
struct __align__(16) FloatQuad {
    float x[4];
};
template <>
struct QuadOf<float> {
    using type = FloatQuad;
    using bits = float4;
};
template <class Stored>
using Quad = typename QuadOf<Stored>::type;

// This lane's quads of a row, in the type in which they are stored.
template <class Stored>
struct Quads {
    Quad<Stored> quads[QUADS_PER_LANE];

    __device__ void load(const Quad<Stored>* rows, long long row) {
#pragma unroll
        for (int k = 0; k < QUADS_PER_LANE; ++k) {
            const int quad = group_lane() + k * LANES;
            if (FULL || quad < QUADS) quads[k] = rows[row * QUADS + quad];
        }
    }

    // The same bypassing L1: see load_current of group.cuh.
    __device__ void load_current(const Quad<Stored>* rows, long long row) {
#pragma unroll
        for (int k = 0; k < QUADS_PER_LANE; ++k) {
            const int quad = group_lane() + k * LANES;
            using Bits = typename QuadOf<Stored>::bits;
            union {
                Bits bits;
                Quad<Stored> quad;
            } read;
            if (FULL || quad < QUADS) {
                read.bits = __ldcg(reinterpret_cast<const Bits*>(&rows[row * QUADS + quad]));
                quads[k] = read.quad;
            }
        }
    }

    __device__ void store(Quad<Stored>* rows, long long row) const {
#pragma unroll
        for (int k = 0; k < QUADS_PER_LANE; ++k) {
            const int quad = group_lane() + k * LANES;
            if (FULL || quad < QUADS) rows[row * QUADS + quad] = quads[k];
        }
    }

    // Calls use(index among this lane's factors, column, stored factor).
    template <class Use>
    __device__ void for_each(Use use) {
#pragma unroll
        for (int k = 0; k < QUADS_PER_LANE; ++k) {
            const int quad = group_lane() + k * LANES;
            if (!FULL && quad >= QUADS) break;
#pragma unroll
            for (int e = 0; e < 4; ++e) use(4 * k + e, 4 * quad + e, quads[k].x[e]);
        }
    }
};
