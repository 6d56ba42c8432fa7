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

// The products of two pairs of halves.
__device__ inline unsigned multiply_halves(unsigned a, unsigned b) {
    unsigned product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
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

#if WGMMA  // Hopper's own instructions, which need the target sm_90a

// Makes this thread's writes to shared memory, its finished copies too, visible to multiply_strip after a barrier.
__device__ inline void show_to_strips() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier in shared memory at which threads arrive before they wait for it; whoever waits sees what was written before.
struct Barrier {
    unsigned long long state;
};

// By one thread, before a barrier of the block.
__device__ inline void initialize(Barrier& barrier, int threads) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(threads) : "memory");
}

__device__ inline void arrive(Barrier& barrier) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(at) : "memory");
}

// Until all have arrived for the time that is number 0, 2, .. or, with an odd parity, 1, 3, ..
__device__ inline void wait(Barrier& barrier, int parity) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }" ::"r"(at),
        "r"(parity)
        : "memory");
}

// Before the first multiply_strip, and after other accesses to the sums.
__device__ inline void strips_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits this warpgroup's products as a group.
__device__ inline void strips_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `left` of this warpgroup's groups are pending.
template <int left>
__device__ inline void strips_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

// 16 rows of halves in shared memory, for multiply_strip: in blocks of 64 columns, so many bytes apart, a row of 128
// bytes, its 16-byte chunks permuted so that eight rows are in different banks.
struct StripOperand {
    const half_bits* halves;
    int to_block;

    __device__ unsigned long long descriptor() const {
        const unsigned from = (unsigned)__cvta_generic_to_shared(halves);
        constexpr unsigned long long to_eight_rows = 1024 / 16, permuted = 1;
        return from >> 4 | (unsigned long long)(to_block >> 4) << 16 | to_eight_rows << 32 | permuted << 62;
    }
};

// Two columns of 16 halves each in shared memory, for multiply_strip, and six more that count for nothing: halves[k / 8][column][k % 8].
struct PairOperand {
    const half_bits* halves;

    __device__ unsigned long long descriptor() const {
        const unsigned from = (unsigned)__cvta_generic_to_shared(halves);
        constexpr unsigned long long to_eight_more = 128 / 16;
        return from >> 4 | to_eight_more << 16;
    }
};

#define QUAD(q) "+f"(all[q][0]), "+f"(all[q][1]), "+f"(all[q][2]), "+f"(all[q][3])
#define QUADS_8(q) QUAD(q), QUAD(q + 1), QUAD(q + 2), QUAD(q + 3), QUAD(q + 4), QUAD(q + 5), QUAD(q + 6), QUAD(q + 7)
#define PLACES_64                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_128                                                                                                     \
    PLACES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
              "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PLACES_192                                                                                                     \
    PLACES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
               "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// all[first + ..] += left^T right for 64 columns and 64, 128 or 192, by a warpgroup: its warp w has rows 16 w to + 15 of the
// sums, spread over the lanes as by multiply_add. It goes on behind the call; see strips_wait.
template <int columns, int first, int n>
__device__ inline void multiply_strip(float (&all)[n][4], const StripOperand& left, const StripOperand& right) {
    static_assert(columns == 64 || columns == 128 || columns == 192);
    const unsigned long long a = left.descriptor(), b = right.descriptor();
    if constexpr (columns == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" PLACES_64 "}, %32, %33, 1, 1, 1, 1, 1;"
                     : QUADS_8(first)
                     : "l"(a), "l"(b));
    else if constexpr (columns == 128)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" PLACES_128 "}, %64, %65, 1, 1, 1, 1, 1;"
                     : QUADS_8(first), QUADS_8(first + 8)
                     : "l"(a), "l"(b));
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {" PLACES_192 "}, %96, %97, 1, 1, 1, 1, 1;"
                     : QUADS_8(first), QUADS_8(first + 8), QUADS_8(first + 16)
                     : "l"(a), "l"(b));
}

// The same for a pair of columns: all[first] += left^T right.
template <int columns, int first, int n>
__device__ inline void multiply_strip(float (&all)[n][4], const StripOperand& left, const PairOperand& right) {
    static_assert(columns == 8);
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 1, 0;"
                 : QUAD(first)
                 : "l"(left.descriptor()), "l"(right.descriptor()));
}

#endif
#endif
