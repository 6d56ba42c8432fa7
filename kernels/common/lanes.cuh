// How many lanes a group has, by the way in which its lanes share a row; all derived from FACTORS.
//
// group.cuh: a lane has the factors l, l + ROW_LANES, ...: the thesis (section 5.1) gives one half-warp to a row of 16
// factors, and a group is a half-warp up to 16 factors and a warp above. vec4_rows.cuh: a lane has the quads, vectors of four
// factors, l, l + QUAD_LANES, ..., so that a row needs only as many lanes as it has quads, four at least.
#pragma once

#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

constexpr int ROW_LANES = FACTORS <= 16 ? 16 : 32;
constexpr int QUAD_LANES = FACTORS <= 16 ? 4 : FACTORS <= 32 ? 8 : FACTORS <= 64 ? 16 : 32;
constexpr int QUADS = (FACTORS + 3) / 4;  // of a row, the last one padded with zeros
constexpr int QUADS_PER_LANE = (QUADS + QUAD_LANES - 1) / QUAD_LANES;
