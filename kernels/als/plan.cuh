// The plan of tensor_core.cu: which warp of a team computes which tiles of A, in which order, decided at compile time.
//
// A tile (i, j) of A is 16 x 16, the product of the factors 16 i .. 16 i + 15 (left operand) with the factors
// 16 j .. 16 j + 15 (right operand) over the ratings. Warps load each operand once, so that a warp's tiles should share
// rows and columns. The order is down one pair of columns, up the next; warp w has an equal share of that order. For 64
// factors, 4 x 4 tiles and 2 warps, the tiles on and below the diagonal in order:
//
//           j = 0    1    2    3
//     i = 0     0
//         1     1    2                  warp 0: tiles 0 to 4, rows 0 1 2, columns 0 1
//         2     3    4  |  9            warp 1: tiles 5 to 9, rows 2 3,   columns 0 1 2 3
//             ----------+
//         3     5    6     7    8
//
// Tile 1: new_row, warp 0 loads the factors of row 1 as a left operand; its column 0 is loaded already.
// Tile 2: new_column and known_column, its right operand is row 1's left operand, reordered instead of loaded.
// Tile 8: last_row, no later tile of warp 1 is in row 3: its sums are complete.
//
// The product of factors 16 t .. 16 t + 15 with the ratings (a part of F_S^T r) needs them as a left operand alone.
// Rows 0 and 1 are computed by warp 0, the only one that has them, rows 2 and 3 by warp 1, which has fewer: right_place
// = {0, 1, -1, -1} of warp 0, {-1, -1, 0, 1} of warp 1.
//
// BLOCKED, with more than 12 x 12 tiles, warps share code, which compiles faster and is fetched once. Rows are of four
// groups, 0 1 2 3, of at most four tiles. Six warps have a rectangle each, the tiles of two groups; two warps the
// triangles on the diagonal of two groups each. Where all groups are of four, that is 16 or 20 tiles of eight operands:
//
//           j = 0    1    2    3
//     i = 0   w 0  w 2  w 4             first group, second group (a row of its own, a column): w 2 has 0, 1
//         1        w 0  w 3  w 5        w 2, w 3, w 6, w 7 multiply their first group by the ratings too
//         2             w 1  w 6        warps w and w + 4 share a scheduler: 36 or 40 and 36 or 32 of such products
//         3   w 7            w 1
//
// The tiles of a body of code are numbered as if its first group were rows 0 1 2 3 and its second 4 5 6 7.
#pragma once

#include "als/half_rows.cuh"

constexpr int ALL = TILES * (TILES + 1) / 2;  // tiles on and below the diagonal

// Of a team: a thread a factor, and by registers at most nine tiles a warp, or up to 17 where fewer, larger warps let
// two teams share a multiprocessor (up to 192 factors), or wait for each other less where only one fits.
constexpr int THREAD_A_FACTOR = (PADDED + 31) / 32;
constexpr int BY_TILES = TILES <= 10 ? (ALL + 8) / 9 : TILES <= 12 ? 6 : 8;
constexpr int WARPS = BY_TILES > THREAD_A_FACTOR ? BY_TILES : THREAD_A_FACTOR;

constexpr bool BLOCKED = TILES > 12;
constexpr int FIRST = BLOCKED ? 4 : TILES;         // rows of a body's numbers that are in its warp's first group
constexpr int OPERANDS = BLOCKED ? 8 : TILES;      // rows that a body's numbers have
constexpr int PARTS = BLOCKED ? 5 : 2 * WARPS;     // of a product with a vector: sums over different tiles, to add up
constexpr int WIDTH = PADDED;                      // of the vectors
static_assert(!BLOCKED || WARPS == 8);

struct Plan {
    // Of each body of code, one a warp unless BLOCKED:
    int bodies;
    unsigned warps[WARPS];             // that run it, a bit each
    int first[WARPS + 1];              // its first tile
    int right_place[WARPS][OPERANDS];  // of each 16 factors the index of the sums of their product with the ratings, or -1
    int quads;                         // most 16 x 8 sums
    // Of each tile of each body, in order:
    int row[ALL], column[ALL];
    bool new_row[ALL], new_column[ALL];      // the body's first tile in that row; in that column
    bool known_row[ALL], known_column[ALL];  // it has loaded the same factors as a right; as a left operand
    bool last_row[ALL], last_column[ALL];    // its last tile in that row; off the diagonal in that column
};

// BLOCKED: the first group of a warp or the second; a group's first row; its rows.
__device__ constexpr int group_of(int warp, bool second) {
    return (second ? 0x03322131u : 0x32101020u) >> 4 * warp & 15;
}
__device__ constexpr int begin_of(int group) {
    return group * (TILES / 4) + (group < TILES % 4 ? group : TILES % 4);
}
__device__ constexpr int size_of(int group) { return begin_of(group + 1) - begin_of(group); }
constexpr unsigned ON_DIAGONAL = 3;  // warps 0 and 1
__device__ constexpr bool on_diagonal(int warp) { return ON_DIAGONAL >> warp & 1; }

// Where a warp's numbers of rows begin, of its first FIRST and of those after; whether it multiplies by the ratings; the
// part of a product with a vector to which its tiles add, and to which their transposes.
__device__ constexpr int origin(int warp, bool second) {
    return BLOCKED ? begin_of(group_of(warp, second)) - second * FIRST : 0;
}
__device__ constexpr bool has_ratings(int warp) { return !BLOCKED || warp / 2 % 2 == 1; }
__device__ constexpr int part_of(int warp, bool transposed) {
    if (!BLOCKED) return warp + transposed * WARPS;
    if (on_diagonal(warp)) return transposed * 4;
    // Each group meets each of the three others once.
    return (group_of(warp, !transposed) - group_of(warp, transposed)) & 3;
}

__device__ constexpr void add_tile(Plan& plan, int& n, int row, int column) {
    plan.row[n] = row;
    plan.column[n++] = column;
}

// Each warp has an equal share of the tiles down one pair of columns, up the next: consecutive tiles share rows and
// columns.
__device__ constexpr void share_out(Plan& plan) {
    int n = 0;
    for (int first = 0; first < TILES; first += 2)
        for (int step = 0; step < TILES - first; ++step) {
            const int row = first / 2 % 2 ? TILES - 1 - step : first + step;
            for (int column = first; column < first + 2 && column <= row; ++column) add_tile(plan, n, row, column);
        }
    plan.bodies = WARPS;
    for (int w = 0; w < WARPS; ++w) {
        plan.warps[w] = 1u << w;
        plan.first[w + 1] = ALL * (w + 1) / WARPS;
    }
}

// A body for each shape of a warp's groups.
__device__ constexpr void share_bodies(Plan& plan) {
    int shapes[WARPS] = {}, n = 0;
    for (int w = 0; w < WARPS; ++w) {
        const int rows = size_of(group_of(w, false)), columns = size_of(group_of(w, true));
        const int shape = rows * 16 + columns * 2 + on_diagonal(w);
        int b = 0;
        while (b < plan.bodies && shapes[b] != shape) ++b;
        plan.warps[b] |= 1u << w;
        if (b < plan.bodies) continue;
        shapes[plan.bodies++] = shape;
        if (on_diagonal(w)) {
            for (int k = 0; k < rows; ++k)
                for (int j = 0; j <= k; ++j) add_tile(plan, n, k, j);
            for (int k = 0; k < columns; ++k)
                for (int j = 0; j <= k; ++j) add_tile(plan, n, FIRST + k, FIRST + j);
        } else {
            for (int j = 0; j < columns; ++j)
                for (int k = 0; k < rows; ++k) add_tile(plan, n, k, FIRST + j);
        }
        plan.first[b + 1] = n;
    }
}

__device__ constexpr Plan make_plan() {
    Plan plan = {};
    if (BLOCKED)
        share_bodies(plan);
    else
        share_out(plan);
    bool rows[WARPS][OPERANDS] = {}, columns[WARPS][OPERANDS] = {};
    for (int b = 0; b < plan.bodies; ++b)
        for (int k = plan.first[b]; k < plan.first[b + 1]; ++k) {
            const int row = plan.row[k], column = plan.column[k];
            plan.new_row[k] = !rows[b][row];
            plan.known_row[k] = columns[b][row];
            rows[b][row] = true;
            plan.new_column[k] = !columns[b][column];
            plan.known_column[k] = rows[b][column];
            columns[b][column] = true;
            plan.last_row[k] = true;
            plan.last_column[k] = row != column;
            for (int j = k + 1; j < plan.first[b + 1]; ++j) {
                if (plan.row[j] == row) plan.last_row[k] = false;
                if (plan.column[j] == column && plan.row[j] != column) plan.last_column[k] = false;
            }
        }
    // The product of 16 factors with the ratings: in all rectangles, of which some use it; unless BLOCKED in the body
    // with the fewest such products of those that have the factors as a left operand.
    int n[WARPS] = {};
    for (int t = 0; t < OPERANDS; ++t) {
        int chosen = -1;
        for (int b = 0; b < plan.bodies; ++b) {
            plan.right_place[b][t] = -1;
            if (!rows[b][t]) continue;
            if (BLOCKED && !(plan.warps[b] & ON_DIAGONAL)) plan.right_place[b][t] = n[b]++;
            if (chosen < 0 || n[b] < n[chosen]) chosen = b;
        }
        if (!BLOCKED) plan.right_place[chosen][t] = n[chosen]++;
    }
    for (int b = 0; b < plan.bodies; ++b) {
        const int quads = 2 * (plan.first[b + 1] - plan.first[b]) + n[b];
        if (quads > plan.quads) plan.quads = quads;
    }
    return plan;
}
constexpr Plan PLAN = make_plan();
constexpr int QUADS = PLAN.quads;

__device__ constexpr int n_tiles(int body) { return PLAN.first[body + 1] - PLAN.first[body]; }
// The 16 x 8 sums of a body's product of 16 factors with the ratings, behind those of its tiles.
__device__ constexpr int right_quad(int body, int t) { return 2 * n_tiles(body) + PLAN.right_place[body][t]; }

// Calls use(Number<b>{}) with the body b of the warp.
template <int b = 0, class Use>
__device__ __forceinline__ void as_warp(int warp, Use use) {
    constexpr unsigned warps = PLAN.warps[b];
    if constexpr (b + 1 < PLAN.bodies)
        if (!(warps >> warp & 1)) return as_warp<b + 1>(warp, use);
    use(Number<b>{});
}
