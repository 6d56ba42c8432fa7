// Keeps a multiprocessor busy with nothing, so that another kernel has only the others: as few as an old GPU has.
// No publication's; the thesis (section 6.4) explains its Figure 6.7 by the 8 multiprocessors of its GPU.
//
// One thread a block, and as much shared memory as a multiprocessor has: no second block fits beside it, whatever it
// asks for. It counts itself among those that wait, and waits until it is told to go. `most_polls` bounds the wait
// where nobody tells it; it then counts itself among those that gave up.

extern "C" __global__ void occupy(int* waiting, int* gave_up, const int* go, long long most_polls) {
    atomicAdd(waiting, 1);
    const volatile int* told = go;  // read again each time, past what a compiler or a cache keeps
    for (long long poll = 0; poll < most_polls; ++poll) {
        if (*told) return;
    }
    atomicAdd(gave_up, 1);
}
