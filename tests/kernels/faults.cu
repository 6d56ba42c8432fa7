// Kernels with one fault each, which a launch on device='emulator' has to name.

// Half of the block never comes to the barrier.
extern "C" __global__ void ended_before_barrier(float* out) {
    if (threadIdx.x >= 32) return;
    __syncthreads();
    out[threadIdx.x] = 1.0f;
}

// Both halves wait, at two barriers.
extern "C" __global__ void two_barriers(float* out) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void ended_before_syncwarp(float* out) {
    if (threadIdx.x % 32 == 7) return;
    __syncwarp();
    out[threadIdx.x] = 1.0f;
}

// Two lanes hold up the shuffle of the others.
extern "C" __global__ void shuffle_against_barrier(float* out) {
    if (threadIdx.x < 2) __syncthreads();
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
}

extern "C" __global__ void shuffle_from_ended(float* out) {
    if (threadIdx.x == 3) return;
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 3);
}

extern "C" __global__ void shuffle_from_outside_the_mask(float* out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 20);
}

extern "C" __global__ void outside_its_own_mask(float* out) {
    out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 0);
}

extern "C" __global__ void reads_past_the_end(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x + 1]; }

extern "C" __global__ void writes_before_the_begin(float* out) { out[(int)threadIdx.x - 1] = 1.0f; }

extern "C" __global__ void past_dynamic_shared_memory(float* out) {
    extern __shared__ float shared[];
    shared[2 * threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = shared[0];
}

extern "C" __global__ void past_static_shared_memory(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x + 1];
}

// The word after the first array is one of the second.
extern "C" __global__ void past_a_member(float* out) {
    __shared__ struct {
        float first[16], second[64];
    } both;
    both.first[threadIdx.x] = 1.0f;
    both.second[threadIdx.x] = 1.0f;
    out[threadIdx.x] = both.first[0];
}

extern "C" __global__ void unwritten_static_shared_memory(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x & ~1u] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void unwritten_dynamic_shared_memory(float* out) {
    extern __shared__ float shared[];
    if (blockIdx.x == 0) shared[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = shared[threadIdx.x];
}

extern "C" __global__ void atomic_past_the_end(int* out) { atomicAdd(&out[threadIdx.x], 1); }

// Nothing that a single order shows: the barrier between writing and reading another thread's word is missing.
extern "C" __global__ void missing_barrier(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 0.0f;
    __syncthreads();
    tile[threadIdx.x] = 1.0f + threadIdx.x;
    out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}

// For UBSan alone: a launch has nothing to say of it.
extern "C" __global__ void overflows(float* out) { out[threadIdx.x] = (float)(0x7fffffff + (int)threadIdx.x); }
