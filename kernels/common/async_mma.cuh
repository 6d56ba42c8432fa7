// Instructions that have no name in CUDA C++, each behind one function: tensor-core products, the loads for them,
// asynchronous copies to shared memory, half precision. kernels/emulator/tensor.h has the same functions for a CPU.
//
// Written as PTX, so that no header beyond NVRTC's own is needed. A half is stored in an unsigned short.
#pragma once

#ifndef __CUDACC__
#include "emulator/tensor.h"
#else

using half_bits = unsigned short;

__device__ inline half_bits to_half(float x) {
    half_bits h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

__device__ inline float from_half(half_bits h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

// Two numbers as halves, the first one in the low bits.
__device__ inline unsigned to_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
    unsigned halves;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
    return halves;
#else
    return to_half(low) | (unsigned)to_half(high) << 16;
#endif
}

// The products of two pairs of halves.
__device__ inline unsigned multiply_halves(unsigned a, unsigned b) {
    unsigned product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// What rounding took from `product`, the products of two pairs of halves.
__device__ inline unsigned multiply_halves_error(unsigned a, unsigned b, unsigned product) {
    unsigned error;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(error) : "r"(a), "r"(b), "r"(product ^ 0x80008000u));
    return error;
}

// Starts to copy 16 bytes from global to shared memory, through L1 or bypassing it; zeros instead where `valid` is
// false. L1 holds what is on its way: where shared memory leaves it little, that limits how much can be.
template <bool through_l1 = true>
__device__ inline void copy_async(void* shared, const void* global, bool valid) {
#if __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    const int bytes = valid ? 16 : 0;
    if constexpr (through_l1)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
    *static_cast<int4*>(shared) = valid ? *static_cast<const int4*>(global) : int4{0, 0, 0, 0};
#endif
}

// Starts to copy `bytes` (4, 8 or 16) from global to shared memory, through L1.
template <int bytes>
__device__ inline void copy_async(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(bytes) : "memory");
#else
    for (int k = 0; k < bytes / 4; ++k) static_cast<int*>(shared)[k] = static_cast<const int*>(global)[k];
#endif
}

// The same for 16 bytes, bypassing L1.
__device__ inline void copy_async_bypassing_l1(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#else
    *static_cast<int4*>(shared) = __ldcg(static_cast<const int4*>(global));
#endif
}

// Commits this thread's copies as a group.
__device__ inline void copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `left` of this thread's groups are pending.
template <int left>
__device__ inline void copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

// A 16 x 16 tile of halves as the first operand of `multiply_add`: its rows lie in shared memory, lane l gives the
// address of row l % 16, columns l / 16 * 8 to + 7.
__device__ inline void load_matrix(unsigned (&tile)[4], const half_bits* row) {
    const unsigned from = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
                 : "r"(from)
                 : "memory");
}

// A 16 x 16 tile of halves, transposed, as the first operand of `multiply_add`: its rows k = 0..15 lie in shared
// memory, lane l gives the address of row l % 8 + l / 16 * 8, columns l / 8 % 2 * 8 to + 7.
__device__ inline void load_transposed(unsigned (&tile)[4], const half_bits* row) {
    const unsigned from = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
                 : "r"(from)
                 : "memory");
}

// sum += a b for a: 16 x 16 and b: 16 x 8 (both halves) and sum: 16 x 8 (float), spread over the lanes of a warp: lane
// l holds of sum the rows l / 4 and l / 4 + 8, columns l % 4 * 2 and + 1.
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    for (int k = 0; k < 2; ++k)
        asm(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(k ? b1 : b0));
#endif
}

// The same for a: 16 x 32 and b: 32 x 8 of signed bytes, from compute capability 8.0 on, and sums exact below 2^31.
// Lane l gives of b column l / 4, rows l % 4 * 4 to + 3 (b0), and 16 more (b1); of a, likewise, row l / 4 (a[0], a[2])
// and row l / 4 + 8.
__device__ inline void multiply_add(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
    asm(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

#endif
