// What CUDA's names mean on a CPU, so that the kernels of this repository run, unchanged, without a GPU.
//
// A thread of a block is a fiber: it runs until it waits for others (a barrier, a shuffle, a vote) or ends, then the
// next one runs. Cores take one block each at a time. What the compiler's thread sanitizer would report of every
// read and write goes to runtime.cpp instead, which knows the arrays of the launch and what has been written to
// shared memory. src/gpumf/backends/emulator.py compiles a kernel behind this header and launches it.
//
// It has what the kernels use and little more; a kernel that needs another name adds it here, and to
// tests/kernels/names.cu.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// One copy for each core, as a core runs one block at a time. Both forms work: `__shared__ float a[8]` inside a
// function is static by itself, and `extern __shared__ float shared[]`, which has to be called so, is defined by
// HOST_SOURCE.
#define __shared__ thread_local
constexpr size_t MAX_SHARED = 227 << 10;  // bytes of one block, compute capability 9.0

struct uint3 {
    unsigned x, y, z;
};
using dim3 = uint3;
struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};

// The same value each time within a thread, which lets the compiler keep it, as a GPU would in a register.
__attribute__((const)) uint3 thread_index();
__attribute__((const)) uint3 block_index();
__attribute__((const)) dim3 block_size();
__attribute__((const)) dim3 grid_size();
#define threadIdx thread_index()
#define blockIdx block_index()
#define blockDim block_size()
#define gridDim grid_size()
constexpr int warpSize = 32;

// Where in the source something is asked for. As a default argument it is the place of the call.
struct Here {
    const char* file;
    int line;
};
constexpr Here here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }

// Barriers. All threads of the block, or all lanes in the mask, have to come to the same one.

void __syncthreads(Here = here());
void __syncwarp(unsigned mask = 0xffffffffu, Here = here());
void __threadfence();

// For what CUDA C++ has no name (emulator/hopper.h). A barrier of so many threads, by its number from 1 to 15; and a
// thread waits until another one of the block wakes all that wait for the same object.

void sync_some(unsigned number, unsigned threads, Here = here());
void wait_for(const char* what, const void* object, Here);
void wake(const void* object);

// Shuffles and votes: every lane in the mask gives a value and gets the one of lane `source`.

unsigned lane_index();
uint64_t exchange(const char* what, unsigned mask, uint64_t value, unsigned source, Here);
unsigned __ballot_sync(unsigned mask, int predicate, Here = here());

template <class T>
T shuffle(const char* what, unsigned mask, T value, unsigned source, Here place) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = exchange(what, mask, bits, source, place);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, Here place = here()) {
    const unsigned first = lane_index() & ~(width - 1u);
    return shuffle("__shfl_sync", mask, value, first + (source & (width - 1u)), place);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, Here place = here()) {
    const unsigned lane = lane_index(), inside = lane & (width - 1u);
    return shuffle("__shfl_up_sync", mask, value, inside < delta ? lane : lane - delta, place);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, Here place = here()) {
    const unsigned lane = lane_index(), inside = lane & (width - 1u);
    return shuffle("__shfl_down_sync", mask, value, inside + delta < unsigned(width) ? lane + delta : lane, place);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, Here place = here()) {
    const unsigned lane = lane_index(), other = lane ^ unsigned(lanes);
    return shuffle("__shfl_xor_sync", mask, value, other > (lane | (width - 1u)) ? lane : other, place);
}

inline int __any_sync(unsigned mask, int predicate, Here place = here()) {
    return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, Here place = here()) {
    return __ballot_sync(mask, predicate, place) == mask;
}

template <class T>
unsigned __match_any_sync(unsigned mask, T value, Here place = here()) {
    unsigned same = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) same |= unsigned(shuffle("__match_any_sync", mask, value, lane, place) == value) << lane;
    return same;
}

// Atomic operations. What the sanitizer would call for them is touch_atomically().

#ifdef __clang__  // whose no_sanitize leaves atomic operations to the sanitizer
#define UNCHECKED __attribute__((disable_sanitizer_instrumentation))
#else
#define UNCHECKED __attribute__((no_sanitize("thread")))
#endif
void touch_atomically(const void* address, size_t bytes);

template <class T, class Next>
UNCHECKED T atomically(T* address, Next next) {
    touch_atomically(address, sizeof(T));
    T old, wanted;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do wanted = next(old);
    while (!__atomic_compare_exchange(address, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

template <class T> struct same { using type = T; };  // a parameter of this type takes no part in deducing T
template <class T> using Same = typename same<T>::type;

template <class T>
T atomicAdd(T* address, Same<T> value) {
    return atomically(address, [=](T old) UNCHECKED { return T(old + value); });
}
template <class T>
T atomicMax(T* address, Same<T> value) {
    return atomically(address, [=](T old) UNCHECKED { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* address, Same<T> value) {
    return atomically(address, [=](T old) UNCHECKED { return value < old ? value : old; });
}
template <class T>
T atomicOr(T* address, Same<T> value) {
    return atomically(address, [=](T old) UNCHECKED { return T(old | value); });
}
template <class T>
T atomicExch(T* address, Same<T> value) {
    return atomically(address, [=](T) UNCHECKED { return value; });
}
template <class T>
T atomicCAS(T* address, Same<T> expected, Same<T> value) {
    return atomically(address, [=](T old) UNCHECKED { return old == expected ? value : old; });
}

// Loads that say which cache they want.

template <class T> T __ldg(const T* address) { return *address; }
template <class T> T __ldca(const T* address) { return *address; }
template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }

// Arithmetic that C has not, or has under another name.

template <class A, class B> auto min(A a, B b) { return b < a ? b : a; }
template <class A, class B> auto max(A a, B b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned chosen) {
    const uint64_t both = low | uint64_t(high) << 32;
    unsigned result = 0;
    for (int k = 0; k < 4; ++k) result |= unsigned(both >> (chosen >> 4 * k & 7) * 8 & 0xff) << 8 * k;
    return result;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}

// The bits of a float, for the types in cuda_fp16.h and cuda_bf16.h.
inline uint32_t bits_of(float x) {
    uint32_t bits;
    return __builtin_memcpy(&bits, &x, sizeof x), bits;
}
inline float from_bits(uint32_t bits) {
    float x;
    return __builtin_memcpy(&x, &bits, sizeof x), x;
}

inline unsigned __float_as_uint(float x) { return bits_of(x); }
inline float __uint_as_float(unsigned bits) { return from_bits(bits); }

// How host.py starts one thread: with pointers to the arguments, as cuLaunchKernel takes them.

template <class... T, size_t... k>
UNCHECKED void call(void (*kernel)(T...), void** arguments, std::index_sequence<k...>) {
    kernel(*static_cast<T*>(arguments[k])...);
}
template <class... T>
UNCHECKED void call(void (*kernel)(T...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<T...>());
}

#define EXPORTED UNCHECKED __attribute__((visibility("default")))
// Clang calls the function in the asm, which could initialise `shared`, before it uses that; it does nothing.
#define HOST_SOURCE                                                                                    \
    alignas(128) thread_local char dynamic_shared_memory[MAX_SHARED] asm("shared");                   \
    asm(".pushsection .text\n.globl _ZTH6shared\n.hidden _ZTH6shared\n_ZTH6shared: ret\n.popsection"); \
    extern "C" EXPORTED char* dynamic_shared() { return dynamic_shared_memory; }
// The types of its parameters, as Python read them in the source and checks arguments by, follow the name of a kernel.
#define HOST_KERNEL(name, ...)                                                                                   \
    static_assert(std::is_same_v<decltype(name), void(__VA_ARGS__)>, "the parameters are not what Python reads"); \
    extern "C" EXPORTED void run_thread_of_##name(void** arguments) { call(name, arguments); }
