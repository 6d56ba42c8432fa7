// Hopper's own instructions, each behind one function: products of warpgroups, and what connects warps that copy with
// warps that multiply. They need the target sm_90a. kernels/emulator/hopper.h has the same functions for a CPU.
#pragma once

#include "common/async_mma.cuh"

#ifndef __CUDACC__
#include "emulator/hopper.h"
#else

// Between writes to shared memory, finished copies too, and the multiply_strip that read them: by the threads that
// write, before a barrier, or by those that multiply, behind it.
__device__ inline void show_to_strips() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier in shared memory at which threads arrive before others wait for it; whoever waits sees what was written
// before.
struct Barrier {
    unsigned long long state;
};

__device__ inline unsigned place_in_shared(Barrier& barrier) { return (unsigned)__cvta_generic_to_shared(&barrier); }

// By one thread, before a barrier of the block.
__device__ inline void initialize(Barrier& barrier, int threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_in_shared(barrier)), "r"(threads) : "memory");
}

__device__ inline void arrive(Barrier& barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(place_in_shared(barrier))
                 : "memory");
}

// The thread arrives as soon as the asynchronous copies are done that it has started so far; it goes on at once.
__device__ inline void arrive_after_copies(Barrier& barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(place_in_shared(barrier)) : "memory");
}

// Until all have arrived for the time that is number 0, 2, .. or, with an odd parity, 1, 3, ..; of a barrier at which
// nobody has arrived yet, an odd time counts as over.
__device__ inline void wait(Barrier& barrier, int parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }" ::"r"(place_in_shared(barrier)),
        "r"(parity)
        : "memory");
}

// A barrier of so many threads, whole warps, that all come to the same number, from 1 to 15, each from its own place in
// the code. (With bar.sync, which is aligned, all of them would have to come from the same one.)
__device__ inline void sync_some(int number, int threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// By all warps of a warpgroup: from here on each thread has so many registers, fewer or more than before. Returns
// threadIdx.x, read again: what is known from before takes registers that the fewest include, or is spilled.
template <int registers>
__device__ inline unsigned shrink_registers() {
    unsigned thread;
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %1; mov.u32 %0, %%tid.x;" : "=r"(thread) : "n"(registers));
    return thread;
}
template <int registers>
__device__ inline unsigned grow_registers() {
    unsigned thread;
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %1; mov.u32 %0, %%tid.x;" : "=r"(thread) : "n"(registers));
    return thread;
}

// threadIdx.x, read again: what is computed from it takes no registers before.
__device__ inline unsigned thread_again() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
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
        return from >> 4 | (unsigned long long)(to_block >> 4) << 16 | fixed;
    }

    static constexpr unsigned long long to_eight_rows = 1024 / 16, permuted = 1;
    static constexpr unsigned long long fixed = to_eight_rows << 32 | permuted << 62;
};

// The same, where others are a constant number of bytes away, a multiple of 16: one instruction finds their addresses.
struct StripPlace {
    unsigned low;  // of the descriptor, the address first

    __device__ explicit StripPlace(const StripOperand& operand) : low((unsigned)operand.descriptor()) {}
    __device__ StripPlace further(int bytes) const {
        StripPlace result = *this;
        result.low += bytes >> 4;
        return result;
    }
    __device__ unsigned long long descriptor() const { return low | StripOperand::fixed; }
};

// Two columns of 16 halves each in shared memory, for multiply_strip, and six more that count for nothing:
// halves[k / 8][column][k % 8].
struct PairOperand {
    const half_bits* halves;

    __device__ unsigned long long descriptor() const {
        const unsigned from = (unsigned)__cvta_generic_to_shared(halves);
        constexpr unsigned long long to_eight_more = 128 / 16;
        return from >> 4 | to_eight_more << 16;
    }
};

#define QUADS_1(q) "+f"(all[q][0]), "+f"(all[q][1]), "+f"(all[q][2]), "+f"(all[q][3])
#define QUADS_2(q) QUADS_1(q), QUADS_1(q + 1)
#define QUADS_4(q) QUADS_2(q), QUADS_2(q + 2)
#define QUADS_8(q) QUADS_4(q), QUADS_4(q + 4)
#define QUADS_16(q) QUADS_8(q), QUADS_8(q + 8)
#define PLACES_8 "%0, %1, %2, %3"
#define PLACES_16 PLACES_8 ", %4, %5, %6, %7"
#define PLACES_32 PLACES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES_48 PLACES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define PLACES_64 PLACES_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_72 PLACES_64 ", %32, %33, %34, %35"
#define PLACES_80 PLACES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define PLACES_96 PLACES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define PLACES_112 PLACES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define PLACES_128 PLACES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define PLACES_136 PLACES_128 ", %64, %65, %66, %67"
#define PLACES_144 PLACES_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define PLACES_160 PLACES_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define PLACES_176 PLACES_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define PLACES_192 PLACES_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define PLACES_200 PLACES_192 ", %96, %97, %98, %99"
#define PLACES_208 PLACES_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define PLACES_224 PLACES_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define PLACES_240 PLACES_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define PLACES_256 PLACES_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define STRIP(width, left, right, more, ...)                                                                     \
    if constexpr (columns == width)                                                                              \
        asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #more ", 0;\n"                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32.f16.f16 {" PLACES_##width "}, %" #left \
                     ", %" #right ", add, 1, 1, 1, 1; }"                                                        \
                     : __VA_ARGS__                                                                              \
                     : "l"(a), "l"(b), "r"((int)add));

// all[first + ..] += left^T right for 64 columns and so many, by a warpgroup: its warp w has rows 16 w to + 15 of the
// sums, spread over the lanes as by multiply_add. Without `add` it is = in the place of +=. It goes on behind the call;
// see strips_wait.
template <int columns, int first, int n, class Operand>
__device__ inline void multiply_strip(float (&all)[n][4], const Operand& left, const Operand& right,
                                      bool add = true) {
    static_assert(columns % 64 == 8 || columns % 16 == 0);
    static_assert(columns <= 256 && first + columns / 8 <= n);
    const unsigned long long a = left.descriptor(), b = right.descriptor();
    STRIP(8, 4, 5, 6, QUADS_1(first))
    STRIP(16, 8, 9, 10, QUADS_2(first))
    STRIP(32, 16, 17, 18, QUADS_4(first))
    STRIP(48, 24, 25, 26, QUADS_4(first), QUADS_2(first + 4))
    STRIP(64, 32, 33, 34, QUADS_8(first))
    STRIP(72, 36, 37, 38, QUADS_8(first), QUADS_1(first + 8))
    STRIP(80, 40, 41, 42, QUADS_8(first), QUADS_2(first + 8))
    STRIP(96, 48, 49, 50, QUADS_8(first), QUADS_4(first + 8))
    STRIP(112, 56, 57, 58, QUADS_8(first), QUADS_4(first + 8), QUADS_2(first + 12))
    STRIP(128, 64, 65, 66, QUADS_16(first))
    STRIP(136, 68, 69, 70, QUADS_16(first), QUADS_1(first + 16))
    STRIP(144, 72, 73, 74, QUADS_16(first), QUADS_2(first + 16))
    STRIP(160, 80, 81, 82, QUADS_16(first), QUADS_4(first + 16))
    STRIP(176, 88, 89, 90, QUADS_16(first), QUADS_4(first + 16), QUADS_2(first + 20))
    STRIP(192, 96, 97, 98, QUADS_16(first), QUADS_8(first + 16))
    STRIP(200, 100, 101, 102, QUADS_16(first), QUADS_8(first + 16), QUADS_1(first + 24))
    STRIP(208, 104, 105, 106, QUADS_16(first), QUADS_8(first + 16), QUADS_2(first + 24))
    STRIP(224, 112, 113, 114, QUADS_16(first), QUADS_8(first + 16), QUADS_4(first + 24))
    STRIP(240, 120, 121, 122, QUADS_16(first), QUADS_8(first + 16), QUADS_4(first + 24), QUADS_2(first + 28))
    STRIP(256, 128, 129, 130, QUADS_16(first), QUADS_16(first + 16))
}

// The same for a pair of columns: all[first] += left^T right.
template <int columns, int first, int n, class Operand>
__device__ inline void multiply_strip(float (&all)[n][4], const Operand& left, const PairOperand& right,
                                      bool add = true) {
    static_assert(columns == 8);
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {" PLACES_8 "}, %4, %5, add, 1, 1, 1, 0; }"
                 : QUADS_1(first)
                 : "l"(left.descriptor()), "l"(right.descriptor()), "r"((int)add));
}

// The same with the left operand in registers, of each warp its 16 columns as load_transposed gives them. Behind a
// strips_begin that comes after they are written; they are read until strips_wait.
#define STRIP_OF_REGISTERS(width, l0, l1, l2, l3, right, more, ...)                                              \
    if constexpr (columns == width)                                                                             \
        asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #more ", 0;\n"                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32.f16.f16 {" PLACES_##width "}, {%" #l0   \
                     ", %" #l1 ", %" #l2 ", %" #l3 "}, %" #right ", add, 1, 1, 1; }"                            \
                     : __VA_ARGS__                                                                              \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(b), "r"((int)add));
template <int columns, int first, int n>
__device__ inline void multiply_strip(float (&all)[n][4], const unsigned (&left)[4], const StripPlace& right,
                                      bool add = true) {
    static_assert(columns % 16 == 0 && columns <= 128 && first + columns / 8 <= n);
    const unsigned long long b = right.descriptor();
    STRIP_OF_REGISTERS(16, 8, 9, 10, 11, 12, 13, QUADS_2(first))
    STRIP_OF_REGISTERS(32, 16, 17, 18, 19, 20, 21, QUADS_4(first))
    STRIP_OF_REGISTERS(48, 24, 25, 26, 27, 28, 29, QUADS_4(first), QUADS_2(first + 4))
    STRIP_OF_REGISTERS(64, 32, 33, 34, 35, 36, 37, QUADS_8(first))
    STRIP_OF_REGISTERS(80, 40, 41, 42, 43, 44, 45, QUADS_8(first), QUADS_2(first + 8))
    STRIP_OF_REGISTERS(96, 48, 49, 50, 51, 52, 53, QUADS_8(first), QUADS_4(first + 8))
    STRIP_OF_REGISTERS(112, 56, 57, 58, 59, 60, 61, QUADS_8(first), QUADS_4(first + 8), QUADS_2(first + 12))
    STRIP_OF_REGISTERS(128, 64, 65, 66, 67, 68, 69, QUADS_16(first))
}
template <int columns, int first, int n>
__device__ inline void multiply_strip(float (&all)[n][4], const unsigned (&left)[4], const PairOperand& right,
                                      bool add = true) {
    static_assert(columns == 8);
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %9, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {" PLACES_8
                 "}, {%4, %5, %6, %7}, %8, add, 1, 1, 0; }"
                 : QUADS_1(first)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right.descriptor()), "r"((int)add));
}

#undef STRIP
#undef STRIP_OF_REGISTERS
#endif
