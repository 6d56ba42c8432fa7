// What the kernels that rank have in common.
#pragma once

constexpr unsigned WARP = 0xffffffffu;  // mask of all lanes

// Minus infinity, below every score.
__device__ inline float lowest() { return __uint_as_float(0xff800000u); }

// The score in the results where there is no item.
__device__ inline float not_a_score() { return __uint_as_float(0x7fffffffu); }

struct Entry {
    float score;
    int item;  // -1 where there is none
};

// Binary search of a lane's value in a sorted range.
__device__ inline bool contains(const int* sorted, long long begin, long long end, int value) {
    while (begin < end) {
        const long long middle = (begin + end) / 2;
        if (sorted[middle] < value)
            begin = middle + 1;
        else if (sorted[middle] > value)
            end = middle;
        else
            return true;
    }
    return false;
}
