/* onnx_piece.h: strided views of the numbers of a file's parameters, of which weights consist. */
#pragma once

#include "engine/onnx/onnx_value.h"

#include <stdbool.h>
#include <stdint.h>

/* A strided view of a store's numbers, which the model or the caller owns. */
struct onnx_piece {
    struct onnx_store store;
    int rank;
    int64_t extent[ONNX_RANK_MAX], stride[ONNX_RANK_MAX], offset, count;
};

/* The numbers of a constant that has no parts. Axes of extent 1 are left out, and those joined that
 * lie one behind another. */
struct onnx_piece onnx_piece_of(const struct onnx_value *value);
/* Whether all its numbers stand in the store. Views are worked out from what files say, so nothing
 * is read before this is known. */
bool onnx_piece_is_within(const struct onnx_piece *piece);
/* Whether its numbers lie side by side. */
bool onnx_piece_is_run(const struct onnx_piece *piece);
/* Where number `index` of the piece stands in the store. */
int64_t onnx_piece_place(const struct onnx_piece *piece, int64_t index);
/* Reads `count` numbers of a piece from its number `first` on. */
void onnx_piece_read(const struct onnx_piece *piece, int64_t first, int64_t count, float *to);
bool onnx_piece_equal(const struct onnx_piece *a, const struct onnx_piece *b);
/* Whether both read a number of the same parameter. Without memory to tell, it counts as one. */
bool onnx_pieces_overlap(const struct onnx_piece *a, const struct onnx_piece *b);
