/* weight_layout.h: where the numbers of a parameter stand in the weights of a file, if a graph
 * keeps them in another order or shape, or only a part of them: a matrix that a product takes
 * transposed, the rows of one matrix that two layers share out. */
#pragma once

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
