// Which multiprocessors run a grid's blocks. blocks: of each multiprocessor.
extern "C" __global__ void multiprocessors(int* blocks) {
    unsigned here;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
    atomicAdd(&blocks[here], 1);
    const long long begin = clock64();
    while (clock64() - begin < 100000) {
    }
}
