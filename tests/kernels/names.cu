// Every name of CUDA that kernels/emulator gives a meaning to, for comparison with NumPy on every device.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// result: (4, threads)
extern "C" __global__ void shuffles(const float* values, int lanes, int width, float* result) {
    const int t = threadIdx.x, n = blockDim.x;
    const float x = values[t];
    result[t] = __shfl_sync(0xffffffffu, x, lanes, width);
    result[n + t] = __shfl_up_sync(0xffffffffu, x, lanes, width);
    result[2 * n + t] = __shfl_down_sync(0xffffffffu, x, lanes, width);
    result[3 * n + t] = __shfl_xor_sync(0xffffffffu, x, lanes, width);
}

// One vote of each kind in each half of a warp. result: (4, threads)
extern "C" __global__ void votes(const int* predicates, unsigned* result) {
    const int t = threadIdx.x, n = blockDim.x;
    const unsigned half_warp = 0xffffu << (t & 16);
    result[t] = __ballot_sync(half_warp, predicates[t]);
    result[n + t] = __any_sync(half_warp, predicates[t]);
    result[2 * n + t] = __all_sync(half_warp, predicates[t]);
    result[3 * n + t] = __match_any_sync(half_warp, predicates[t]);
}

// integers: the sum, the largest, the smallest, the last and the number of the values; sum: that of their halves.
extern "C" __global__ void atomics(const int* values, int* integers, float* sum, double* long_sum) {
    const int x = values[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&integers[0], x);
    atomicMax(&integers[1], x);
    atomicMin(&integers[2], x);
    atomicExch(&integers[3], x);
    int seen = integers[4], expected;
    do {
        expected = seen;
        seen = atomicCAS(&integers[4], expected, expected + 1);
    } while (seen != expected);
    atomicAdd(sum, 0.5f * x);
    atomicAdd(long_sum, 0.5 * x);
}

extern "C" __global__ void arithmetic(const unsigned long long* a, const unsigned long long* b,
                                      float not_a_number, unsigned long long* high, int* small,
                                      float* real) {
    const int t = threadIdx.x, n = blockDim.x;
    high[t] = __umul64hi(__ldg(a + t), __ldcg(b + t));
    const int x = (int)__ldca(a + t), y = (int)__ldcs(b + t);
    small[t] = min(x, y);
    small[n + t] = max(x, y);
    small[2 * n + t] = __popc(x);
    small[3 * n + t] = __ffs(x);
    small[4 * n + t] = (int)__byte_perm((unsigned)x, (unsigned)y, 0x7052);
    real[t] = min((float)x, not_a_number);
    real[n + t] = max((double)not_a_number, (double)y);
    real[2 * n + t] = rsqrtf((float)(x & 0xffff) + 1.0f);
    real[3 * n + t] = __uint_as_float(__float_as_uint((float)x) ^ 0x80000000u);
}

extern "C" __global__ void conversions(const float* values, int n, __half* halves, float* from_halves,
                                       __nv_bfloat16* bfloats, float* from_bfloats) {
    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x) {
        halves[t] = __float2half(values[t]);
        from_halves[t] = __half2float(halves[t]);
        bfloats[t] = __float2bfloat16(values[t]);
        from_bfloats[t] = __bfloat162float(bfloats[t]);
    }
}

// place: (blocks, threads, 12), the indices and sizes as a thread sees them.
extern "C" __global__ void places(unsigned* place) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned* mine = place + 12 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    mine[0] = threadIdx.x, mine[1] = threadIdx.y, mine[2] = threadIdx.z;
    mine[3] = blockIdx.x, mine[4] = blockIdx.y, mine[5] = blockIdx.z;
    mine[6] = blockDim.x, mine[7] = blockDim.y, mine[8] = blockDim.z;
    mine[9] = gridDim.x, mine[10] = gridDim.y, mine[11] = gridDim.z;
}
