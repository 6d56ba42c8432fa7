// The weight of a rating in A and in b: 1 and r for explicit ratings; for implicit feedback alpha |r|, and 1 + alpha r
// where r > 0 and 0 elsewhere.
#pragma once

#ifndef IMPLICIT
#error "compile with -DIMPLICIT=0 or 1"
#endif

// At least 1e-30 where r is not 0, so that the weight in b is a finite multiple of it.
__device__ inline float weight_in_a(float rating, float alpha) {
    return IMPLICIT ? rating != 0.0f ? max(alpha * fabsf(rating), 1e-30f) : 0.0f : 1.0f;
}
__device__ inline float weight_in_b(float rating, float alpha) {
    return IMPLICIT ? rating > 0.0f ? 1.0f + alpha * rating : 0.0f : rating;
}
