/* weight_layout.h: where the numbers of a parameter stand in the weights of a file, if a graph
 * keeps them in another order or shape, or only a part of them: a matrix that a product takes
 * transposed, the rows of one matrix that two layers share out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WEIGHT_RANK_MAX = 8, WEIGHT_PIECES_MAX = 16 };

/* Number i of the piece, counted row by row over `extent`, is the file's number `offset` + the sum
 * of its indices times `stride`. */
struct weight_piece {
    const char *name; /* of the file's weight */
    int weight_rank;
    int64_t weight_shape[WEIGHT_RANK_MAX];
    int rank;
    int64_t extent[WEIGHT_RANK_MAX], stride[WEIGHT_RANK_MAX], offset;
};

/* The numbers of the parameter are those of the pieces, one behind another. */
struct weight_layout {
    int count;
    struct weight_piece piece[WEIGHT_PIECES_MAX];
};

/* The first and the last place at which such numbers stand; strides may be negative. False: they
 * cannot be counted. */
static inline bool weight_places_range(int rank, const int64_t *extent, const int64_t *stride,
                                       int64_t offset, int64_t *first, int64_t *last)
{
    int64_t reach;

    *first = *last = offset;
    for (int r = 0; r < rank; r++)
        if (__builtin_mul_overflow(extent[r] - 1, stride[r], &reach) ||
            __builtin_add_overflow(reach < 0 ? *first : *last, reach, reach < 0 ? first : last))
            return false;
    return true;
}

/* Where one number after another stands. */
struct weight_walk {
    int rank;
    const int64_t *extent, *stride;
    int64_t at[WEIGHT_RANK_MAX], place;
};

/* Begins at number `index`. The lists must outlive the walk. */
static inline struct weight_walk weight_walk_from(int rank, const int64_t *extent,
                                                  const int64_t *stride, int64_t offset,
                                                  int64_t index)
{
    struct weight_walk walk = {.rank = rank, .extent = extent, .stride = stride, .place = offset};

    for (int r = rank - 1; r >= 0; r--) {
        walk.at[r] = index % extent[r];
        index /= extent[r];
        walk.place += walk.at[r] * stride[r];
    }
    return walk;
}

static inline void weight_walk_next(struct weight_walk *walk)
{
    for (int r = walk->rank - 1; r >= 0; r--) {
        walk->place += walk->stride[r];
        if (++walk->at[r] < walk->extent[r])
            return;
        walk->place -= walk->at[r] * walk->stride[r];
        walk->at[r] = 0;
    }
}
