/* onnx_piece.c: see onnx_piece.h. */
#include "engine/onnx/onnx_piece.h"

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

int64_t onnx_piece_place(const struct onnx_piece *piece, int64_t index)
{
    int64_t place = piece->offset;

    for (int r = piece->rank - 1; r >= 0; r--) {
        place += index % piece->extent[r] * piece->stride[r];
        index /= piece->extent[r];
    }
    return place;
}

/* The first and the last place of the store at which it has a number. False: they cannot be
 * counted. */
static bool piece_range(const struct onnx_piece *piece, int64_t *first, int64_t *last)
{
    int64_t reach;

    *first = *last = piece->offset;
    for (int r = 0; r < piece->rank; r++)
        if (__builtin_mul_overflow(piece->extent[r] - 1, piece->stride[r], &reach) ||
            __builtin_add_overflow(reach < 0 ? *first : *last, reach, reach < 0 ? first : last))
            return false;
    return true;
}

bool onnx_piece_is_within(const struct onnx_piece *piece)
{
    int64_t first, last;

    return piece_range(piece, &first, &last) && first >= 0 && last < piece->store.count;
}

void onnx_piece_read(const struct onnx_piece *piece, int64_t first, int64_t count, float *to)
{
    int64_t at[ONNX_RANK_MAX], place = piece->offset, rest = first;

    for (int r = piece->rank - 1; r >= 0; r--) {
        at[r] = rest % piece->extent[r];
        rest /= piece->extent[r];
        place += at[r] * piece->stride[r];
    }
    for (int64_t i = 0; i < count; i++) {
        to[i] = (float)onnx_store_number(&piece->store, place);
        for (int r = piece->rank - 1; r >= 0; r--) {
            place += piece->stride[r];
            if (++at[r] < piece->extent[r])
                break;
            place -= at[r] * piece->stride[r];
            at[r] = 0;
        }
    }
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

    if (a->store.data != b->store.data || !a->store.trains)
        return false;
    /* a model may have thousands of parts of one parameter, one behind another */
    if (piece_range(a, &first[0], &last[0]) && piece_range(b, &first[1], &last[1]) &&
        (last[0] < first[1] || last[1] < first[0]))
        return false;
    read = calloc((size_t)count, sizeof *read);
    if (!read)
        return true;
    for (int64_t i = 0; i < a->count; i++)
        read[onnx_piece_place(a, i)] = true;
    for (int64_t i = 0; i < b->count && !overlap; i++)
        overlap = read[onnx_piece_place(b, i)];
    free(read);
    return overlap;
}
