/* onnx_piece.c: see onnx_piece.h. */
#include "engine/onnx/onnx_piece.h"

#include "engine/graph/weight_layout.h"

#include <stdlib.h>
#include <string.h>

struct onnx_piece onnx_piece_of(const struct onnx_value *value)
{
    struct onnx_piece piece = {.store = *value->store, .offset = value->offset, .count = 1};

    for (int r = 0; r < value->rank; r++) {
        int last = piece.rank - 1;

        piece.count *= value->extent[r];
        if (value->extent[r] == 1)
            continue;
        if (last >= 0 && piece.stride[last] == value->stride[r] * value->extent[r]) {
            piece.extent[last] *= value->extent[r];
            piece.stride[last] = value->stride[r];
            continue;
        }
        piece.extent[piece.rank] = value->extent[r];
        piece.stride[piece.rank++] = value->stride[r];
    }
    return piece;
}

bool onnx_piece_is_run(const struct onnx_piece *piece)
{
    return piece->rank == 0 || (piece->rank == 1 && piece->stride[0] == 1);
}

static struct weight_walk walk_from(const struct onnx_piece *piece, int64_t index)
{
    _Static_assert(WEIGHT_RANK_MAX >= (int)ONNX_RANK_MAX, "a piece has more axes than a walk");

    return weight_walk_from(piece->rank, piece->extent, piece->stride, piece->offset, index);
}

int64_t onnx_piece_place(const struct onnx_piece *piece, int64_t index)
{
    return walk_from(piece, index).place;
}

/* The first and the last place of the store at which it has a number. False: they cannot be
 * counted. */
static bool piece_range(const struct onnx_piece *piece, int64_t *first, int64_t *last)
{
    return weight_places_range(piece->rank, piece->extent, piece->stride, piece->offset, first,
                               last);
}

bool onnx_piece_is_within(const struct onnx_piece *piece)
{
    int64_t first, last;

    return piece_range(piece, &first, &last) && first >= 0 && last < piece->store.count;
}

void onnx_piece_read(const struct onnx_piece *piece, int64_t first, int64_t count, float *to)
{
    struct weight_walk walk = walk_from(piece, first);

    for (int64_t i = 0; i < count; i++, weight_walk_next(&walk))
        to[i] = (float)onnx_store_number(&piece->store, walk.place);
}

bool onnx_piece_equal(const struct onnx_piece *a, const struct onnx_piece *b)
{
    size_t bytes = (size_t)a->rank * sizeof *a->extent;

    return a->rank == b->rank && a->offset == b->offset && a->store.name == b->store.name &&
           memcmp(a->extent, b->extent, bytes) == 0 && memcmp(a->stride, b->stride, bytes) == 0;
}

bool onnx_pieces_overlap(const struct onnx_piece *a, const struct onnx_piece *b)
{
    /* two parameters of different sizes may lie at one place of a file */
    int64_t count = a->store.count > b->store.count ? a->store.count : b->store.count;
    int64_t first[2], last[2];
    bool overlap = false, *read;
    struct weight_walk walk;

    if (a->store.data != b->store.data || !a->store.trains)
        return false;
    /* a model may have thousands of parts of one parameter, one behind another */
    if (piece_range(a, &first[0], &last[0]) && piece_range(b, &first[1], &last[1]) &&
        (last[0] < first[1] || last[1] < first[0]))
        return false;
    read = calloc((size_t)count, sizeof *read);
    if (!read)
        return true;
    walk = walk_from(a, 0);
    for (int64_t i = 0; i < a->count; i++, weight_walk_next(&walk))
        read[walk.place] = true;
    walk = walk_from(b, 0);
    for (int64_t i = 0; i < b->count && !overlap; i++, weight_walk_next(&walk))
        overlap = read[walk.place];
    free(read);
    return overlap;
}
