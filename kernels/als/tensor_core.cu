// ALS on the tensor cores: gather in half precision, multiply, and solve, without the matrix leaving the chip.
//
// For every row with ratings r over columns I, solve (F_I^T F_I + lambda n E) x = F_I^T r as in als/thesis.cu.
//
// Version tensor_core: what it changes against thesis_shared, and why.
//   - The other side's factors are gathered as FP16 rows, half the bytes, by copies that do not wait.
//   - F_I^T F_I is a matrix product over the ratings: tensor cores make it, 16 ratings at a time, FP32 sums in
//     registers. A tile of F loaded transposed is at once the left operand of its tile row and the right one of its
//     tile column, so each is loaded once for both; only tiles on and below the diagonal are made.
//   - The ratings are two more columns of F, r and the rest that half precision leaves of it: row FIRST of the
//     product, plus row FIRST + 1, is F_I^T r, at no cost where padding had room for them.
//   - A block works on a segment of a row. Long rows have many segments: each leaves its sums in global memory and
//     the last one to arrive adds them, in order, so that a popular item does not keep one block busy while the
//     rest of the GPU is idle. The segments come longest first.
//   - The system is solved where it is made (cumf, section 4: conjugate gradient, few steps, from the last epoch's
//     solution): thread i takes row i of the matrix into registers, and a step is one product with it.
// The same bits in every run: no sum depends on the order in which blocks arrive.
#include "common/segments.cuh"
#include "common/tensor.cuh"

#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

constexpr int FIRST = (FACTORS + 1) / 2 * 2;  // column of the ratings; even, so that both go in one word
constexpr int USED = FIRST + 2;
constexpr int TILES = (USED + 15) / 16;
constexpr int PADDED = TILES * 16;      // columns of a row of factors in half precision
constexpr int STRIDE = PADDED + 8;      // halves from row to row in shared memory: eight rows meet no bank twice
constexpr int WARPS = (TILES + 1) / 2;  // warp w makes tile row TILES - 1 - w and, if there is one, LOW_ROW below
constexpr int THREADS = 32 * WARPS;
constexpr int LOW = TILES / 2;  // most tiles of the second tile row
constexpr int SUMS = 8 * (TILES + LOW);

constexpr int STAGE = 64;  // ratings fetched together
constexpr int AHEAD = 1;   // stages under way while one is used
constexpr int STAGES = AHEAD + 2;
constexpr int CHUNKS = PADDED / 8;  // of 16 bytes, in a row of factors
constexpr int ROW_LANES = CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;  // that copy one row
constexpr int ROWS = THREADS / ROW_LANES;  // copied at a time
constexpr int COPIES = (STAGE + ROWS - 1) / ROWS;
constexpr int READS = (STAGE + THREADS - 1) / THREADS;

// The matrix in shared memory has 16-byte rows that eight threads can read at once without meeting a bank twice.
constexpr int WIDTH = (FACTORS + 3) / 4 % 2 ? (FACTORS + 3) / 4 * 4 : (FACTORS + 3) / 4 * 4 + 4;
constexpr int BLOCKS = FACTORS <= 100 ? 512 / THREADS : 2;  // to hold on a multiprocessor, by registers

// What a thread holds of the product: lane's share of 16 x 16 tiles, each as two of 16 x 8.
struct Sums {
    float high[TILES][2][4];
    float low[LOW > 0 ? LOW : 1][2][4];
};

__device__ inline int high_row() { return TILES - 1 - (int)threadIdx.x / 32; }
__device__ inline int low_row() { return TILES % 2 ? (int)threadIdx.x / 32 - 1 : (int)threadIdx.x / 32; }

template <class Use>
__device__ inline void for_each_sum(Sums& sums, Use use) {
#pragma unroll
    for (int k = 0; k < TILES * 8; ++k) use(k, sums.high[k / 8][k / 4 % 2][k % 4]);
#pragma unroll
    for (int k = 0; k < LOW * 8; ++k) use(TILES * 8 + k, sums.low[k / 8][k / 4 % 2][k % 4]);
}

struct Rating {
    int column;  // -1 beyond the end of the segment
    unsigned halves;
};

// The ratings of a segment on their way to the tensor cores, a stage after another: the ratings of stage s + AHEAD + 2
// are read while the factors of stage s + AHEAD are copied and those of stage s are multiplied.
struct Pipeline {
    const int* indices;
    const float* values;
    const half_bits* fixed;
    int length;
    half_bits (*stages)[STAGE][STRIDE];
    Rating (*ratings)[STAGE];
    int column[READS];  // of this thread's ratings, read but not yet used
    float value[READS];

    __device__ void read(int stage) {
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = threadIdx.x + k * THREADS, rating = stage * STAGE + t;
            const bool valid = t < STAGE && rating < length;
            column[k] = valid ? indices[rating] : -1;
            value[k] = valid ? values[rating] : 0.0f;
        }
    }

    __device__ void keep(int stage) {
#pragma unroll
        for (int k = 0; k < READS; ++k) {
            const int t = threadIdx.x + k * THREADS;
            if (t >= STAGE) break;
            const half_bits whole = to_half(value[k]);
            const half_bits rest = to_half(value[k] - from_half(whole));
            ratings[stage % STAGES][t] = {column[k], whole | (unsigned)rest << 16};
        }
    }

    // Calls use(rating, row of the stage) for the rows of which this thread copies a chunk.
    template <class Use>
    __device__ void for_each_row(int stage, Use use) {
#pragma unroll
        for (int k = 0; k < COPIES; ++k) {
            const int row = threadIdx.x / ROW_LANES + k * ROWS;
            if (STAGE % ROWS == 0 || row < STAGE) use(ratings[stage % STAGES][row], stages[stage % STAGES][row]);
        }
    }

    __device__ void copy(int stage) {
        const int chunk = threadIdx.x % ROW_LANES;
        if (chunk < CHUNKS)
            for_each_row(stage, [&](const Rating& rating, half_bits* row) {
                const half_bits* from = fixed + max(rating.column, 0) * (long long)PADDED;
                copy_async(row + chunk * 8, from + chunk * 8, rating.column >= 0);
            });
        copy_commit();
    }

    // Waits for a stage. Who copied the place of a rating puts the rating there: its own copy is surely done.
    __device__ void finish(int stage) {
        copy_wait<AHEAD>();
        if (threadIdx.x % ROW_LANES == FIRST / 8)
            for_each_row(stage, [&](const Rating& rating, half_bits* row) {
                *reinterpret_cast<unsigned*>(row + FIRST) = rating.halves;
            });
        __syncthreads();
    }
};

// Adds the products of 16 ratings to the sums.
__device__ inline void multiply(Sums& sums, const half_bits (*rows)[STRIDE]) {
    const int lane = threadIdx.x % 32, high = high_row(), low = low_row();
    const half_bits* mine = &rows[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];
    unsigned left_high[4], left_low[4], right[4];
    load_transposed(left_high, mine + high * 16);
    load_transposed(left_low, mine + (low < 0 ? 0 : low) * 16);
#pragma unroll
    for (int j = 0; j < TILES; ++j) {
        if (j > high) break;
        load_transposed(right, mine + j * 16);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            multiply_add(sums.high[j][h], left_high, right[h], right[h + 2]);
            if (j < LOW && j <= low) multiply_add(sums.low[j][h], left_low, right[h], right[h + 2]);
        }
    }
}

// One tile row of the sums to the matrix in shared memory, rows and columns; the ratings' rows FIRST and FIRST + 1 too.
__device__ inline void store_tiles(float (*matrix)[WIDTH], int tile_row, const float (*tiles)[2][4], int most) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const int row = tile_row * 16 + lane / 4 + k * 8;
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            if (j >= most || j > tile_row) break;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int column = j * 16 + h * 8 + lane % 4 * 2;
                const float a = tiles[j][h][2 * k], b = tiles[j][h][2 * k + 1];
                if (j < tile_row || column < FACTORS) *reinterpret_cast<float2*>(&matrix[row][column]) = {a, b};
                if (j < tile_row && row < FACTORS) {
                    matrix[column][row] = a;
                    matrix[column + 1][row] = b;
                }
            }
        }
    }
}

// The sum over the block, the same bits on every thread. `scratch` has WARPS floats that nobody reads any more.
__device__ inline float block_sum(float x, float* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    if (WARPS == 1) return x;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) total += scratch[w];
    return total;
}

// Conjugate gradient on the system in shared memory from x; thread i has x_i and returns it.
__device__ inline float solve(const float (*matrix)[WIDTH], float* direction, float (*scratch)[WARPS], float x,
                              float ridge, int steps, float tolerance) {
    const int i = threadIdx.x;
    const bool mine = i < FACTORS;
    float row[FACTORS] = {};
    if (mine) {
#pragma unroll
        for (int j = 0; j + 4 <= FACTORS; j += 4) {
            const float4 four = *reinterpret_cast<const float4*>(&matrix[i][j]);
            row[j] = four.x, row[j + 1] = four.y, row[j + 2] = four.z, row[j + 3] = four.w;
        }
#pragma unroll
        for (int j = FACTORS / 4 * 4; j < FACTORS; ++j) row[j] = matrix[i][j];
    }
    const float b = mine ? matrix[FIRST][i] + matrix[FIRST + 1][i] : 0.0f;
    // The ridge is added to the product instead of to the diagonal: that would be an index known at run time only.
    auto product = [&](float p) {
        if (mine) direction[i] = p;
        __syncthreads();
        float sum = ridge * p;
#pragma unroll
        for (int j = 0; j < FACTORS; ++j) sum += row[j] * direction[j];
        return sum;
    };

    float residual = b - product(x);  // zero beyond the factors, as b, x and the row are
    float p = residual;
    const float enough = tolerance * tolerance * block_sum(b * b, scratch[0]);
    float square = block_sum(residual * residual, scratch[1]);
    for (int step = 0; step < steps && square > enough; ++step) {
        const float q = product(p);
        const float alpha = square / block_sum(p * q, scratch[0]);
        x += alpha * p;
        residual -= alpha * q;
        const float old = square;
        square = block_sum(residual * residual, scratch[1]);
        p = residual + square / old * p;
    }
    return x;
}

// A block a segment. Dynamic shared memory: the stages, then in the same place the matrix, whichever is more.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tensor_core(const Segment* __restrict__ segments, const int* __restrict__ indices,
                const float* __restrict__ values, const half_bits* __restrict__ fixed, float* __restrict__ solved,
                half_bits* __restrict__ solved_half, float* __restrict__ partial, int* __restrict__ arrived,
                float regularization, int weighted, int cg_steps, float cg_tolerance) {
    extern __shared__ __align__(16) float shared[];
    __shared__ __align__(16) float direction[FACTORS];
    __shared__ float scratch[2][WARPS];
    __shared__ Rating ratings[STAGES][STAGE];

    const Segment segment = segments[blockIdx.x];
    const int i = threadIdx.x;
    float* const solution = solved + segment.row * (long long)FACTORS;
    half_bits* const solution_half = solved_half + segment.row * (long long)PADDED;
    if (segment.count == 0) {
        if (i < FACTORS) {
            solution[i] = 0.0f;
            solution_half[i] = 0;
        }
        return;
    }

    const float start = i < FACTORS ? solution[i] : 0.0f;  // read long before it is used
    Sums sums = {};
    const int n_stages = (segment.length + STAGE - 1) / STAGE;
    Pipeline pipeline = {indices + segment.begin, values + segment.begin, fixed, segment.length,
                         reinterpret_cast<half_bits(*)[STAGE][STRIDE]>(shared), ratings};
#pragma unroll
    for (int stage = 0; stage <= AHEAD; ++stage) {
        pipeline.read(stage);
        pipeline.keep(stage);
    }
    pipeline.read(AHEAD + 1);
    __syncthreads();
#pragma unroll
    for (int stage = 0; stage < AHEAD; ++stage) pipeline.copy(stage);
    for (int stage = 0; stage < n_stages; ++stage) {
        pipeline.copy(stage + AHEAD);
        pipeline.keep(stage + AHEAD + 1);
        pipeline.read(stage + AHEAD + 2);
        pipeline.finish(stage);
        const int here = min(STAGE, segment.length - stage * STAGE);
        for (int k = 0; k < here; k += 16) multiply(sums, &pipeline.stages[stage % STAGES][k]);
    }

    if (segment.parts > 1) {
        auto at = [&](int part) { return partial + (segment.slot + part) * (long long)(SUMS * THREADS) + i; };
        float* const mine = at(segment.part);
        for_each_sum(sums, [&](int k, float& sum) { mine[k * THREADS] = sum; });
        if (!last_of_row(segment, arrived)) return;
        sums = {};
        for (int part = 0; part < segment.parts; ++part)
            for_each_sum(sums, [&](int k, float& sum) { sum += __ldcg(&at(part)[k * THREADS]); });
    }

    copy_wait<0>();
    __syncthreads();  // the stages have been used up
    auto matrix = reinterpret_cast<float(*)[WIDTH]>(shared);
    store_tiles(matrix, high_row(), sums.high, TILES);
    store_tiles(matrix, low_row(), sums.low, LOW);
    __syncthreads();
    const float ridge = weighted ? regularization * (float)segment.count : regularization;
    const float x = solve(matrix, direction, scratch, start, ridge, cg_steps, cg_tolerance);
    if (i < FACTORS) {
        solution[i] = x;
        solution_half[i] = to_half(x);
    }
}

// FP32 rows to padded rows of halves, zeros in the padding; a thread an element of the padded matrix.
extern "C" __global__ void round_factors(const float* __restrict__ factors, half_bits* __restrict__ rounded,
                                         int n_rows) {
    const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (k >= n_rows * (long long)PADDED) return;
    const int column = (int)(k % PADDED);
    rounded[k] = column < FACTORS ? to_half(factors[k / PADDED * FACTORS + column]) : 0;
}
