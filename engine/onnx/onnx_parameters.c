/* onnx_parameters.c: see onnx_parameters.h. The first values of a parameter are read from the
 * model when they are asked for, so they are held once. */
#include "engine/onnx/onnx_parameters.h"

#include "base/cleanup.h"
#include "engine/graph/forward.h"
#include "engine/graph/weight_layout.h"
#include "engine/onnx/onnx_piece.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onnx_lent {
    struct initial_values values; /* first: graphs point to it */
    char name[GRAPH_NAME_MAX];
    struct onnx_piece piece[ONNX_PARTS_MAX];
    int count;
    void *own;
    struct weight_layout *layout; /* NULL: the file's own */
    bool rest;                    /* numbers that no layer reads */
    struct onnx_lent *next;
};

static void lent_free(struct onnx_lent *lent)
{
    free(lent->own);
    free(lent->layout);
    free(lent);
}

void onnx_lent_release(struct onnx_model *model)
{
    while (model->lent) {
        struct onnx_lent *lent = model->lent;

        model->lent = lent->next;
        lent_free(lent);
    }
}

static void lent_read(const struct initial_values *values, int64_t first, int64_t end, float *to)
{
    const struct onnx_lent *lent = (const struct onnx_lent *)values;
    int64_t begin = 0;

    for (int i = 0; i < lent->count; i++) {
        const struct onnx_piece *piece = &lent->piece[i];
        int64_t from = first > begin ? first : begin;
        int64_t until = end < begin + piece->count ? end : begin + piece->count;

        if (from < until)
            onnx_piece_read(piece, from - begin, until - from, to + (from - first));
        begin += piece->count;
    }
}

/* ---- lending ---- */

static bool pieces_equal(const struct onnx_lent *a, const struct onnx_lent *b)
{
    bool equal = a->count == b->count;

    for (int i = 0; equal && i < a->count; i++)
        equal = onnx_piece_equal(&a->piece[i], &b->piece[i]);
    return equal;
}

/* Adds a piece; one that goes on where the last one ends becomes part of it. */
static int lent_add(struct onnx_import *import, struct onnx_lent *lent,
                    const struct onnx_value *value)
{
    struct onnx_piece piece;

    for (int i = 0; i < value->part_count; i++)
        if (lent_add(import, lent, &value->parts[i]))
            return import->error.code;
    if (value->part_count)
        return 0;
    if (value->kind != ONNX_CONSTANT || !value->store)
        return onnx_fail(import, "its weights are not constant");
    if (value->counts_samples)
        return onnx_fail(import,
                         "it computes with the number of samples in a batch, which changes");
    if (onnx_is_picked(value))
        return onnx_fail(import, "its weights are numbers of a parameter in another order");
    piece = onnx_piece_of(value);
    if (!onnx_piece_is_within(&piece))
        return onnx_fail(import, "its weights end beyond the parameter that they are part of");
    for (int r = 0; r < piece.rank; r++) {
        if (piece.stride[r] != 0)
            continue;
        if (piece.store.trains)
            return onnx_fail(import,
                             "its weights are the parameter %s, which repeats along an axis; "
                             "the repeats would train apart. Store the weights in their full shape",
                             piece.store.name);
        piece.store.name = NULL; /* a computed constant: it has more numbers than the file */
    }
    if (lent->count) {
        struct onnx_piece *last = &lent->piece[lent->count - 1];

        if (onnx_piece_is_run(last) && onnx_piece_is_run(&piece) &&
            last->store.data == piece.store.data && last->store.count == piece.store.count &&
            last->store.type == piece.store.type && last->offset + last->count == piece.offset) {
            last->count += piece.count;
            last->extent[0] = last->count;
            last->stride[0] = last->rank = 1;
            return 0;
        }
    }
    if (lent->count == ONNX_PARTS_MAX)
        return onnx_fail(import, "its weights have more than %d parts", ONNX_PARTS_MAX);
    lent->piece[lent->count++] = piece;
    return 0;
}

/* The initialiser all of whose numbers these are; NULL: there is none. */
static const char *whole_of(const struct onnx_lent *lent, bool *in_order)
{
    const struct onnx_store *store = &lent->piece[0].store;
    int64_t count = 0;

    *in_order = false;
    for (int i = 0; i < lent->count; i++) {
        count += lent->piece[i].count;
        if (lent->piece[i].store.data != store->data)
            return NULL;
    }
    *in_order = count == store->count && lent->count == 1 && onnx_piece_is_run(&lent->piece[0]);
    return count == store->count ? store->name : NULL;
}

/* Whether the graph has something else by that name: what it reads. */
static bool is_reserved(const char *name)
{
    return strcmp(name, "input") == 0 || strcmp(name, "target") == 0 ||
           strcmp(name, "lengths") == 0;
}

static const struct onnx_initializer *initializer_find(const struct onnx_model *model,
                                                       const char *name)
{
    for (int i = 0; i < model->initializer_count; i++)
        if (strcmp(model->initializers[i].store.name, name) == 0)
            return &model->initializers[i];
    return NULL;
}

/* Whether exports have a tensor of that shape in the shape of the file. A convolution of signals
 * has an axis for the row, which is dropped again (dropped_axis). */
static bool shape_is_kept(const struct onnx_initializer *given, const struct graph_shape *shape)
{
    bool signals = shape->rank == 4 && given->rank == 3 && shape->extent[2] == 1;

    if (given->rank != shape->rank && !signals)
        return false;
    for (int r = 0; r < given->rank; r++)
        if (given->extent[r] != shape->extent[r + (signals && r == 2)])
            return false;
    return true;
}

/* Names the tensor. `shape`: in which a layer wants it; NULL: that of the file. */
static void lent_name(struct onnx_import *import, struct onnx_lent *lent,
                      const struct graph_shape *shape, bool *in_order)
{
    const char *whole = whole_of(lent, in_order), *some = lent->piece[0].store.name;
    const struct onnx_initializer *given = some ? initializer_find(import->model, some) : NULL;

    *in_order &= !some || !is_reserved(some); /* else its layout says what the file calls it */
    *in_order &= !shape || !given || shape_is_kept(given, shape);
    if (whole && *in_order)
        snprintf(lent->name, sizeof lent->name, "%s", whole);
    else if (some)
        snprintf(lent->name, sizeof lent->name, "%.64s.from%lld", some,
                 (long long)lent->piece[0].offset);
    else if (import->constants++ == 0)
        snprintf(lent->name, sizeof lent->name, "%.64s.constant", import->node->name);
    else
        snprintf(lent->name, sizeof lent->name, "%.64s.constant.%d", import->node->name,
                 import->constants);
}

/* Copies numbers that do not outlive the import. */
static int lent_own(struct onnx_import *import, struct onnx_lent *lent, int64_t count)
{
    bool computed = false;

    for (int i = 0; i < lent->count; i++)
        computed |= !lent->piece[i].store.name;
    if (!computed)
        return 0;
    if (count > ONNX_COMPUTED_MAX)
        return onnx_fail(import,
                         "a constant of %lld numbers would have to be computed; %d are "
                         "possible",
                         (long long)count, (int)ONNX_COMPUTED_MAX);
    lent->own = malloc((size_t)count * sizeof(float));
    if (!lent->own)
        return error_no_memory(&import->error, "a constant of the model");
    lent_read(&lent->values, 0, count, lent->own);
    lent->values.computed = true;
    lent->count = 1;
    lent->piece[0] =
        (struct onnx_piece){.store = {.type = ONNX_FLOAT, .data = lent->own, .count = count},
                            .rank = 1,
                            .extent = {count},
                            .stride = {1},
                            .count = count};
    return 0;
}

/* Notes where numbers of parameters stand that the graph has in another order, or in part. */
static int lent_lay_out(struct onnx_import *import, struct onnx_lent *lent)
{
    struct weight_layout *layout;

    if (lent->own)
        return 0;
    layout = calloc(1, sizeof *layout);
    if (!layout)
        return error_no_memory(&import->error, "the model's weights");
    for (; layout->count < lent->count; layout->count++) {
        const struct onnx_piece *piece = &lent->piece[layout->count];
        struct weight_piece *noted = &layout->piece[layout->count];
        const struct onnx_initializer *given = initializer_find(import->model, piece->store.name);

        if (!given) {
            free(layout);
            return 0;
        }
        *noted = (struct weight_piece){.name = piece->store.name,
                                       .weight_rank = given->rank,
                                       .rank = piece->rank,
                                       .offset = piece->offset};
        memcpy(noted->weight_shape, given->extent, sizeof given->extent);
        memcpy(noted->extent, piece->extent, sizeof piece->extent);
        memcpy(noted->stride, piece->stride, sizeof piece->stride);
    }
    lent->layout = layout;
    lent->values.layout = layout;
    return 0;
}

static bool lent_overlap(const struct onnx_lent *a, const struct onnx_lent *b)
{
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (onnx_pieces_overlap(&a->piece[i], &b->piece[k]))
                return true;
    return false;
}

static bool lent_equal(const struct onnx_lent *a, const struct onnx_lent *b)
{
    if (!a->own || !b->own)
        return !a->own && !b->own && pieces_equal(a, b);
    return a->piece[0].count == b->piece[0].count &&
           memcmp(a->own, b->own, (size_t)a->piece[0].count * sizeof(float)) == 0;
}

static struct onnx_lent *lent_new(struct onnx_import *import, const struct onnx_lent *wanted,
                                  int64_t count, bool in_order)
{
    struct onnx_lent *lent = malloc(sizeof *lent);

    if (!lent) {
        error_no_memory(&import->error, "the model's weights");
        return NULL;
    }
    *lent = *wanted;
    if (lent_own(import, lent, count) == 0 && (in_order || lent_lay_out(import, lent) == 0))
        return lent;
    lent_free(lent);
    return NULL;
}

static struct onnx_lent *lent_find(const struct onnx_model *model, const char *name)
{
    struct onnx_lent *lent = model->lent;

    while (lent && strcmp(lent->name, name) != 0)
        lent = lent->next;
    return lent;
}

/* Whether none reads numbers of a parameter that this one reads in another order. */
static bool lent_is_alone(struct onnx_import *import, const struct onnx_lent *wanted)
{
    for (const struct onnx_lent *lent = import->model->lent; lent; lent = lent->next)
        if (!lent->own && !wanted->own && lent_overlap(lent, wanted)) {
            onnx_fail(import,
                      "the parameter %s is read in two orders, as by a product with the matrix "
                      "and one with the transposed, or in parts that overlap",
                      lent->piece[0].store.name);
            return false;
        }
    return true;
}

bool onnx_weight_is_turned(struct onnx_import *import, const struct onnx_value *value)
{
    struct onnx_lent wanted = {.count = 0};

    if (!onnx_value_trains(value) || value->part_count || onnx_is_picked(value) ||
        lent_add(import, &wanted, value))
        return false;
    for (const struct onnx_lent *lent = import->model->lent; lent; lent = lent->next)
        if (!lent->own && !pieces_equal(lent, &wanted) && lent_overlap(lent, &wanted))
            return true;
    return false;
}

/* Notes where the store's numbers are in a tensor that has all of them, each once. */
static bool lent_invert(const struct onnx_lent *lent, const struct onnx_store *store,
                        int64_t *places)
{
    int64_t count = 0;

    for (int64_t i = 0; i < store->count; i++)
        places[i] = -1;
    for (int i = 0; i < lent->count; i++) {
        const struct onnx_piece *piece = &lent->piece[i];

        if (lent->own || lent->rest || piece->store.data != store->data ||
            piece->store.count != store->count)
            return false;
        for (int64_t k = 0; k < piece->count; k++) {
            int64_t *place = &places[onnx_piece_place(piece, k)];

            if (*place >= 0)
                return false;
            *place = count++;
        }
    }
    return count == store->count;
}

int32_t onnx_weight_elsewhere(const struct onnx_import *import, const struct onnx_store *store,
                              int64_t *places)
{
    for (const struct onnx_lent *lent = import->model->lent; lent; lent = lent->next)
        if (lent_invert(lent, store, places))
            return graph_find_tensor(import->graph, lent->name);
    return -1;
}

/* What the model has lent with these numbers, or the new one. Names are cut: another's has a
 * number behind it. */
static const struct onnx_lent *lend(struct onnx_import *import, const struct onnx_lent *wanted,
                                    int64_t count, bool in_order)
{
    struct onnx_lent *lent = lent_new(import, wanted, count, in_order), *found;

    if (!lent)
        return NULL;
    for (int number = 2; (found = lent_find(import->model, lent->name)); number++) {
        if (lent_equal(found, lent)) {
            lent_free(lent);
            return found;
        }
        snprintf(lent->name, sizeof lent->name, "%.80s.%d", wanted->name, number);
    }
    if (!lent_is_alone(import, lent)) {
        lent_free(lent);
        return NULL;
    }
    lent->next = import->model->lent;
    import->model->lent = lent;
    return lent;
}

/* The shape that the file gives the initialiser. */
static struct graph_shape shape_in_file(const struct onnx_import *import, const char *name,
                                        const struct graph_shape *fallback)
{
    const struct onnx_initializer *given = initializer_find(import->model, name);
    struct graph_shape shape = {0};

    if (!given || given->rank > GRAPH_RANK_MAX)
        return *fallback;
    shape.rank = given->rank;
    memcpy(shape.extent, given->extent, (size_t)given->rank * sizeof *given->extent);
    return shape;
}

/* The value's shape; as one row of numbers if it has too many axes for a tensor. */
static const struct graph_shape *value_shape(const struct onnx_value *value,
                                             struct graph_shape *shape)
{
    *shape = (struct graph_shape){.rank = 1, .extent = {onnx_value_elements(value)}};
    if (value->rank > 0 && value->rank <= GRAPH_RANK_MAX) {
        shape->rank = value->rank;
        memcpy(shape->extent, value->extent, (size_t)value->rank * sizeof *value->extent);
    }
    return shape;
}

int32_t onnx_weights_tensor(struct onnx_import *import, const struct onnx_weights *weights,
                            const struct graph_shape *shape, bool statistic)
{
    struct onnx_lent wanted = {.values = {.read = lent_read}};
    bool any_shape = !shape, in_order = false, trains = true;
    int64_t count = 0, elements;
    const struct onnx_lent *lent;
    struct graph_shape own;
    int32_t tensor;

    if (!shape)
        shape = value_shape(&weights->part[0], &own);
    elements = graph_shape_elements(shape);
    for (int i = 0; i < weights->count; i++) {
        if (lent_add(import, &wanted, &weights->part[i]))
            return import->error.code;
        if (__builtin_add_overflow(count, onnx_value_elements(&weights->part[i]), &count))
            return onnx_fail(import, "its weights have too many numbers");
        trains &= onnx_value_trains(&weights->part[i]);
    }
    if (count != elements || !wanted.count)
        return onnx_fail(import, "its weights have %lld numbers, but %lld are needed",
                         (long long)count, (long long)elements);
    lent_name(import, &wanted, any_shape ? NULL : shape, &in_order);
    wanted.values.fixed = !trains && !statistic;
    lent = lend(import, &wanted, count, in_order);
    if (!lent)
        return import->error.code;
    tensor = graph_find_tensor(import->graph, lent->name);
    if (tensor >= 0 && import->graph->tensors[tensor].initializer.values != &lent->values)
        return onnx_fail(import, "the weights %s have the name of what a node gives", lent->name);
    if (tensor >= 0)
        return tensor;
    statistic |= !trains;
    if (any_shape && in_order)
        own = shape_in_file(import, lent->name, shape);
    return graph_given_parameter(
        import->graph, lent->name, statistic, any_shape && in_order ? &own : shape,
        (struct initializer){.kind = import->keeps_weights || !trains ? INITIALIZER_GIVEN
                                                                      : INITIALIZER_BY_LAYER,
                             .values = &lent->values});
}

int32_t onnx_weight(struct onnx_import *import, const struct onnx_value *value,
                    const struct graph_shape *shape, bool statistic)
{
    struct onnx_weights weights = {.count = 1};

    weights.part[0] = *value;
    return onnx_weights_tensor(import, &weights, shape, statistic);
}

/* ---- numbers that no layer reads ---- */

/* Marks the parameter's numbers that tensors of another layout have. False: none has, or one has
 * all of them as they stand in the file. */
static bool numbers_mark(const struct onnx_model *model, const struct onnx_initializer *given,
                         bool *read)
{
    bool any = false;

    for (const struct onnx_lent *lent = model->lent; lent; lent = lent->next)
        for (int i = 0; i < lent->count; i++) {
            const struct onnx_piece *piece = &lent->piece[i];

            if (lent->own || lent->rest || piece->store.data != given->store.data)
                continue;
            if (!lent->layout)
                return false;
            /* another parameter may lie at the same place of a file and have more numbers */
            for (int64_t k = 0; k < piece->count; k++)
                if (onnx_piece_place(piece, k) < given->store.count)
                    read[onnx_piece_place(piece, k)] = true;
            any = true;
        }
    return any;
}

/* Lends the runs of numbers that are not marked, which do not train. */
static int rest_lend(struct onnx_import *import, const struct onnx_initializer *given,
                     const bool *read)
{
    struct onnx_weights rest = {.count = 0};
    struct graph_shape shape = {.rank = 1};
    int32_t tensor;

    for (int64_t i = 0; i < given->store.count; i++) {
        struct onnx_value *run = &rest.part[rest.count];

        if (read[i])
            continue;
        if (rest.count == ONNX_PARTS_MAX)
            return 0; /* exports have the parts by names of their own */
        *run = onnx_constant_of(given);
        run->rank = 1;
        run->offset = i;
        run->stride[0] = 1;
        while (i < given->store.count && !read[i])
            i++;
        run->extent[0] = i - run->offset;
        shape.extent[0] += run->extent[0];
        rest.count++;
    }
    if (!rest.count)
        return 0;
    tensor = onnx_weights_tensor(import, &rest, &shape, true);
    if (tensor < 0)
        return tensor;
    lent_find(import->model, import->graph->tensors[tensor].name)->rest = true;
    return 0;
}

int onnx_rests_lend(struct onnx_import *import)
{
    const struct onnx_model *model = import->model;
    int code = 0;

    for (int i = 0; i < model->initializer_count && !code; i++) {
        const struct onnx_initializer *given = &model->initializers[i];
        AUTO_FREE bool *read = NULL;

        if (!given->store.trains || given->store.count < 2)
            continue;
        read = calloc((size_t)given->store.count, sizeof *read);
        if (!read)
            return error_no_memory(&import->error, "the model's weights");
        if (numbers_mark(model, given, read))
            code = rest_lend(import, given, read);
    }
    return code;
}
