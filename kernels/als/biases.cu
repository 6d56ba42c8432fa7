// What the factors are left to explain where a model has biases: ratings less the biases of the side that is fixed.
// With them subtracted, a half-sweep of every solver in this folder is one without biases; see gpumf.models.als.biases.

// left: (n,). Grid and block: a thread a rating.
extern "C" __global__ void subtract_biases(const int* __restrict__ indices, const float* __restrict__ values,
                                           const float* __restrict__ biases, long long n, float* __restrict__ left) {
    const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t < n) left[t] = values[t] - biases[indices[t]];
}
