// Occupies a multiprocessor, so that another kernel has fewer of them, as on an old GPU.
// Not published; the thesis (section 6.4) explains its Figure 6.7 by the 8 multiprocessors of its GPU.
//
// A block has one thread and all shared memory of a multiprocessor, so that no other block fits. It increments
// `waiting` and polls until `go` is set, or, after max_polls, increments `gave_up`. It sleeps a microsecond or so
// between polls, so that the L2 is left to the other kernel, and 10**8 polls last longer than what is measured.

// Grid: a block a multiprocessor to occupy. Block: 1, with all dynamic shared memory.

extern "C" __global__ void occupy(int* waiting, int* gave_up, const int* go, long long max_polls) {
    atomicAdd(waiting, 1);
    const volatile int* signal = go;  // volatile: loaded in every poll
    for (long long poll = 0; poll < max_polls; ++poll) {
        if (*signal) return;
#ifdef __CUDA_ARCH__
        __nanosleep(1000);
#endif
    }
    atomicAdd(gave_up, 1);
}
