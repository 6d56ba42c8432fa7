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
// Rows 0 and 1 are computed by warp 0, the only one that has them, rows 2 and 3 by warp 1, which has fewer: right_warp
// = {0, 0, 1, 1}, right_place = {0, 1, 0, 1}, rights = 2.
#pragma once

#ifndef FACTORS
#error "compile with -DFACTORS=f"
#endif

constexpr int TILES = (FACTORS + 15) / 16;
constexpr int PADDED = TILES * 16;            // columns of a row of factors in half precision
constexpr int ALL = TILES * (TILES + 1) / 2;  // tiles on and below the diagonal

// Of a team: a thread a factor, and by registers at most nine tiles a warp, or up to 17 where fewer, larger warps let
// two teams share a multiprocessor (up to 192 factors), or wait for each other less where only one fits.
constexpr int THREAD_A_FACTOR = (PADDED + 31) / 32;
constexpr int BY_TILES = TILES <= 10 ? (ALL + 8) / 9 : TILES <= 12 ? 6 : 8;
constexpr int WARPS = BY_TILES > THREAD_A_FACTOR ? BY_TILES : THREAD_A_FACTOR;

// A number as a type, for loops whose every round is compiled on its own.
template <int n>
struct Number {
    static constexpr int value = n;
};
template <int n, int k = 0, class Use>
__device__ __forceinline__ void for_each(Use use) {
    if constexpr (k < n) {
        use(Number<k>{});
        for_each<n, k + 1>(use);
    }
}

struct Plan {
    // Of each tile, in order:
    int row[ALL], column[ALL];
    bool new_row[ALL], new_column[ALL];      // the warp's first tile in that row; in that column
    bool known_row[ALL], known_column[ALL];  // the warp has loaded the same factors as a right; as a left operand
    bool last_row[ALL], last_column[ALL];    // the warp's last tile in that row; off the diagonal in that column
    // Of each 16 factors:
    int right_warp[TILES], right_place[TILES];  // the warp that multiplies them by the ratings; index of its sums
    int rights;                                 // the most such products of a warp
};

// The tiles of warp w: first_tile(w) to first_tile(w + 1) - 1.
__device__ constexpr int first_tile(int warp) { return ALL * warp / WARPS; }
__device__ constexpr int n_tiles(int warp) { return first_tile(warp + 1) - first_tile(warp); }

__device__ constexpr Plan make_plan() {
    Plan plan = {};
    // Down one pair of columns, up the next: consecutive tiles share rows and columns.
    int k = 0;
    for (int first = 0; first < TILES; first += 2)
        for (int step = 0; step < TILES - first; ++step) {
            const int row = first / 2 % 2 ? TILES - 1 - step : first + step;
            for (int column = first; column < first + 2 && column <= row; ++column) {
                plan.row[k] = row;
                plan.column[k++] = column;
            }
        }
    bool rows[WARPS][TILES] = {}, columns[WARPS][TILES] = {};
    for (int w = 0; w < WARPS; ++w)
        for (k = first_tile(w); k < first_tile(w + 1); ++k) {
            const int row = plan.row[k], column = plan.column[k];
            plan.new_row[k] = !rows[w][row];
            plan.known_row[k] = columns[w][row];
            rows[w][row] = true;
            plan.new_column[k] = !columns[w][column];
            plan.known_column[k] = rows[w][column];
            columns[w][column] = true;
            plan.last_row[k] = true;
            plan.last_column[k] = row != column;
            for (int j = k + 1; j < first_tile(w + 1); ++j) {
                if (plan.row[j] == row) plan.last_row[k] = false;
                if (plan.column[j] == column && plan.row[j] != column) plan.last_column[k] = false;
            }
        }
    // Products with the ratings: the warp with the fewest of those that have the factors as a left operand.
    int n[WARPS] = {};
    for (int t = 0; t < TILES; ++t) {
        int chosen = -1;
        for (int w = 0; w < WARPS; ++w)
            if (rows[w][t] && (chosen < 0 || n[w] < n[chosen])) chosen = w;
        plan.right_warp[t] = chosen;
        plan.right_place[t] = n[chosen]++;
        if (n[chosen] > plan.rights) plan.rights = n[chosen];
    }
    return plan;
}
constexpr Plan PLAN = make_plan();

// Calls use(Number<w>{}) with w = warp, so that each warp runs code of its own.
template <int w = 0, class Use>
__device__ __forceinline__ void as_warp(int warp, Use use) {
    if constexpr (w + 1 < WARPS)
        if (warp != w) return as_warp<w + 1>(warp, use);
    use(Number<w>{});
}
