// Rows of a matrix by the functions of kernels/common that all solvers read and write them with.
#ifdef OF_QUADS
#include "common/vec4_rows.cuh"
#else
#include "common/group.cuh"
#endif

// One group: read row `from` in both ways, write it to row `to`. read: (2, FACTORS).
extern "C" __global__ void copies_rows(float* matrix, int from, int to, float* read) {
#ifdef OF_QUADS
    Quad<float>* const rows = reinterpret_cast<Quad<float>*>(matrix);
    Quads<float> a, b;
    a.load(rows, from);
    b.load_current(rows, from);
    a.store(rows, to);
    a.store(reinterpret_cast<Quad<float>*>(read), 0);
    b.store(reinterpret_cast<Quad<float>*>(read), 1);
#else
    float a[FACTORS_PER_LANE], b[FACTORS_PER_LANE];
    load_factors(a, matrix, from);
    load_current(b, matrix, from);
    store_factors(matrix, to, a);
    store_factors(read, 0, a);
    store_factors(read, 1, b);
#endif
}
