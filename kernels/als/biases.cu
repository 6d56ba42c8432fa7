// What the factors are left to explain where a model has biases: ratings less the biases of the side that is fixed.
// With them subtracted, an update of every solver in this folder is one without biases; see gpumf.solvers.als_biases.

// left: (n,). Grid and block: a thread a rating.
extern "C" __global__ void subtract_biases(const int* __restrict__ indices, const float* __restrict__ values,
                                           const float* __restrict__ biases, long long n, float* __restrict__ left) {
    const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t < n) left[t] = values[t] - biases[indices[t]];
}

// Before a user or item update: zeros in one column of both sides. fixed: (n_fixed, width). solved: (n_solved, width). biases:
// (n_fixed,), what was there of the fixed side. Grid and block: a thread a row of the longer side.
extern "C" __global__ void set_biases_aside(float* __restrict__ fixed, int n_fixed, float* __restrict__ solved,
                                            int n_solved, int width, int column, float* __restrict__ biases) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const long long place = row * (long long)width + column;
    if (row < n_fixed) {
        biases[row] = fixed[place];
        fixed[place] = 0.0f;
    }
    if (row < n_solved) solved[place] = 0.0f;
}

// Behind it: the biases, and ones in the solved side. Arrays as of `set_biases_aside`. Grid and block: as there.
extern "C" __global__ void put_biases_back(float* __restrict__ fixed, int n_fixed, float* __restrict__ solved,
                                           int n_solved, int width, int column, const float* __restrict__ biases) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const long long place = row * (long long)width + column;
    if (row < n_fixed) fixed[place] = biases[row];
    if (row < n_solved) solved[place] = 1.0f;
}
