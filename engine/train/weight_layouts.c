/* weight_layouts.c: see weight_layouts.h. */
#include "engine/train/weight_layouts.h"

#include "base/cleanup.h"
#include "engine/graph/weight_layout.h"
#include "engine/train/auto_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- describing ---- */

static struct json_object *numbers_describe(const int64_t *numbers, int count)
{
    struct json_object *list = json_object_new_array();

    for (int i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(numbers[i]));
    return list;
}

static struct json_object *piece_describe(const struct weight_piece *piece)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "weight", json_object_new_string(piece->name));
    json_object_object_add(object, "shape",
                           numbers_describe(piece->weight_shape, piece->weight_rank));
    json_object_object_add(object, "offset", json_object_new_int64(piece->offset));
    json_object_object_add(object, "extent", numbers_describe(piece->extent, piece->rank));
    json_object_object_add(object, "stride", numbers_describe(piece->stride, piece->rank));
    return object;
}

static struct json_object *layout_describe(const struct graph_tensor *tensor,
                                           const struct weight_layout *layout)
{
    struct graph_shape shape = graph_shape_in_files(tensor);
    struct json_object *object = json_object_new_object(), *pieces = json_object_new_array();

    json_object_object_add(object, "shape", numbers_describe(shape.extent, shape.rank));
    for (int i = 0; i < layout->count; i++)
        json_object_array_add(pieces, piece_describe(&layout->piece[i]));
    json_object_object_add(object, "pieces", pieces);
    return object;
}

int weight_layouts_format(const struct graph *graph, char **text, struct error *error)
{
    AUTO_JSON struct json_object *all = json_object_new_object();

    *text = NULL;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        const struct initial_values *values = tensor->initializer.values;

        if ((tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC) && values &&
            values->layout)
            json_object_object_add(all, tensor->name, layout_describe(tensor, values->layout));
    }
    if (json_object_object_length(all) == 0)
        return 0;
    *text = strdup(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN));
    return *text ? 0 : error_no_memory(error, "the description of the weights");
}

/* ---- reading a description ---- */

static int damaged(const char *name, struct error *error)
{
    return error_set(error, -EINVAL, "the description of the layout of %s is damaged", name);
}

/* Reads a list of at most WEIGHT_RANK_MAX numbers. -1: it is none, or has one below `least`. */
static int numbers_read(struct json_object *object, const char *key, int64_t least,
                        int64_t *numbers)
{
    struct json_object *list;
    int count;

    if (!json_object_object_get_ex(object, key, &list) ||
        !json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) > WEIGHT_RANK_MAX)
        return -1;
    count = (int)json_object_array_length(list);
    for (int i = 0; i < count; i++) {
        numbers[i] = json_object_get_int64(json_object_array_get_idx(list, (size_t)i));
        if (numbers[i] < least)
            return -1;
    }
    return count;
}

/* The product of the extents, or -1 if it is 0 or so many floats are too large. */
static int64_t elements_of(const int64_t *extent, int rank)
{
    int64_t elements = 1;

    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(elements, extent[i], &elements) || elements == 0 ||
            elements > INT64_MAX / (int64_t)sizeof(float))
            return -1;
    return elements;
}

/* Whether all numbers of the piece lie within the weight, and are not more than it has. */
static bool piece_fits(const struct weight_piece *piece)
{
    int64_t count = elements_of(piece->extent, piece->rank), first, last;
    int64_t elements = elements_of(piece->weight_shape, piece->weight_rank);

    return count >= 1 && count <= elements &&
           weight_places_range(piece->rank, piece->extent, piece->stride, piece->offset, &first,
                               &last) &&
           first >= 0 && last < elements;
}

static bool piece_read(struct json_object *object, struct weight_piece *piece)
{
    struct json_object *name, *offset;

    if (!json_object_object_get_ex(object, "weight", &name) ||
        !json_object_object_get_ex(object, "offset", &offset))
        return false;
    piece->name = json_object_get_string(name);
    piece->offset = json_object_get_int64(offset);
    piece->weight_rank = numbers_read(object, "shape", 0, piece->weight_shape);
    piece->rank = numbers_read(object, "extent", 0, piece->extent);
    return piece->name && piece->offset >= 0 && piece->weight_rank >= 0 && piece->rank >= 0 &&
           numbers_read(object, "stride", INT64_MIN, piece->stride) == piece->rank &&
           piece_fits(piece);
}

/* Reads the layout of one parameter, and the tensor that a graph has of it. */
static int layout_read(const char *name, struct json_object *object, struct weight_layout *layout,
                       struct safetensors_tensor *tensor, struct error *error)
{
    struct json_object *pieces;
    int64_t elements, sum = 0;

    *tensor = (struct safetensors_tensor){.name = name, .type = SAFETENSORS_FLOAT32};
    tensor->rank = numbers_read(object, "shape", 0, tensor->shape);
    elements = tensor->rank < 0 ? -1 : elements_of(tensor->shape, tensor->rank);
    if (elements < 0 || !json_object_object_get_ex(object, "pieces", &pieces) ||
        !json_object_is_type(pieces, json_type_array) ||
        json_object_array_length(pieces) > WEIGHT_PIECES_MAX)
        return damaged(name, error);
    layout->count = (int)json_object_array_length(pieces);
    for (int i = 0; i < layout->count; i++) {
        struct weight_piece *piece = &layout->piece[i];

        if (!piece_read(json_object_array_get_idx(pieces, (size_t)i), piece))
            return damaged(name, error);
        if (__builtin_add_overflow(sum, elements_of(piece->extent, piece->rank), &sum))
            return damaged(name, error);
    }
    tensor->bytes = (size_t)elements * sizeof(float);
    return sum == elements ? 0 : damaged(name, error);
}

static int text_parse(const char *text, struct json_object **all, struct error *error)
{
    *all = json_tokener_parse(text);
    return json_object_is_type(*all, json_type_object) ? 0 : damaged("the weights", error);
}

/* ---- moving numbers ---- */

/* Copies the numbers of a piece between `part`, where they follow each other, and the weight: to it
 * with `filled`, which notes the numbers that it has; else from it. Returns how many it had not. */
static int64_t piece_copy(const struct weight_piece *piece, float *part, float *weight,
                          bool *filled)
{
    struct weight_walk walk =
        weight_walk_from(piece->rank, piece->extent, piece->stride, piece->offset, 0);
    int64_t count = elements_of(piece->extent, piece->rank), added = 0;

    for (int64_t i = 0; i < count; i++, weight_walk_next(&walk)) {
        if (filled) {
            weight[walk.place] = part[i];
            added += !filled[walk.place];
            filled[walk.place] = true;
        } else {
            part[i] = weight[walk.place];
        }
    }
    return added;
}

static const struct safetensors_tensor *
weight_find(const char *prefix, const struct safetensors *file, const struct weight_piece *piece)
{
    char name[2 * GRAPH_NAME_MAX + 128];
    const struct safetensors_tensor *found;

    snprintf(name, sizeof name, "%s%s", prefix, piece->name);
    found = safetensors_find(file, name);
    return found && safetensors_is_float(found) && found->rank == piece->weight_rank &&
                   memcmp(found->shape, piece->weight_shape,
                          (size_t)found->rank * sizeof *found->shape) == 0
               ? found
               : NULL;
}

/* Fills the parameter from the file. 1: the file lacks a weight. */
static int parameter_gather(const struct weight_layout *layout, const char *prefix,
                            const struct safetensors *file, float *values, struct error *error)
{
    for (int i = 0; i < layout->count; i++) {
        const struct weight_piece *piece = &layout->piece[i];
        const struct safetensors_tensor *found = weight_find(prefix, file, piece);
        AUTO_FREE float *weight = NULL;

        if (!found)
            return 1;
        weight = malloc((size_t)elements_of(found->shape, found->rank) * sizeof *weight);
        if (!weight)
            return error_no_memory(error, "the weights");
        safetensors_read_floats(file, found, weight);
        piece_copy(piece, values, weight, NULL);
        values += elements_of(piece->extent, piece->rank);
    }
    return 0;
}

int weight_layouts_gather(const char *text, const char *prefix, struct safetensors *file,
                          struct error *error)
{
    AUTO_JSON struct json_object *all = NULL;
    int r = text_parse(text, &all, error);

    if (r < 0)
        return r;
    json_object_object_foreach (all, key, object) {
        char name[2 * GRAPH_NAME_MAX + 128];
        struct safetensors_tensor tensor;
        struct weight_layout layout;
        AUTO_FREE float *values = NULL;

        r = layout_read(key, object, &layout, &tensor, error);
        if (r < 0)
            return r;
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (safetensors_find(file, name))
            continue;
        values = malloc(tensor.bytes);
        if (!values)
            return error_no_memory(error, "the weights");
        r = parameter_gather(&layout, prefix, file, values, error);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        tensor.name = name;
        tensor.data = values;
        r = safetensors_append(file, &tensor, error);
        if (r < 0)
            return r;
        values = NULL;
    }
    return 0;
}

/* ---- replacing parameters by weights ---- */

/* A weight of the file that is being filled. */
struct filled {
    const char *name; /* the description's */
    int rank;
    int64_t shape[WEIGHT_RANK_MAX], elements, count; /* how many there are, and are filled */
    float *values;
    bool *filled; /* per number: constants may be read twice */
    bool taken;
    bool is_there; /* another layer reads all of it as it stands in the file */
};

struct filling {
    struct filled *weights;
    int count;
};

static void filling_release(struct filling *filling)
{
    for (int i = 0; i < filling->count; i++) {
        free(filling->weights[i].filled);
        if (!filling->weights[i].taken)
            free(filling->weights[i].values);
    }
    free(filling->weights);
}
#define AUTO_FILLING CLEANUP(filling_release)

static struct filled *filled_find(struct filling *filling, const char *name)
{
    for (int i = 0; i < filling->count; i++)
        if (strcmp(filling->weights[i].name, name) == 0)
            return &filling->weights[i];
    return NULL;
}

static struct filled *filled_add(struct filling *filling, const struct weight_piece *piece)
{
    struct filled *found = filled_find(filling, piece->name);

    if (found)
        return found->rank == piece->weight_rank &&
                       memcmp(found->shape, piece->weight_shape,
                              (size_t)found->rank * sizeof *found->shape) == 0
                   ? found
                   : NULL;
    found = reallocarray(filling->weights, (size_t)filling->count + 1, sizeof *found);
    if (!found)
        return NULL;
    filling->weights = found;
    found += filling->count;
    *found = (struct filled){.name = piece->name,
                             .rank = piece->weight_rank,
                             .elements = elements_of(piece->weight_shape, piece->weight_rank)};
    memcpy(found->shape, piece->weight_shape, (size_t)found->rank * sizeof *found->shape);
    found->values = calloc((size_t)found->elements, sizeof *found->values);
    found->filled = calloc((size_t)found->elements, sizeof *found->filled);
    filling->count++;
    return found->values && found->filled ? found : NULL;
}

static struct safetensors_tensor *tensor_find(struct safetensors_tensor *tensors, int count,
                                              const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0 && tensors[i].type == SAFETENSORS_FLOAT32)
            return &tensors[i];
    return NULL;
}

/* Fills weights from all parameters that are there. */
static int weights_fill(struct json_object *all, struct filling *filling,
                        struct safetensors_tensor *tensors, int count, struct error *error)
{
    json_object_object_foreach (all, key, object) {
        struct safetensors_tensor wanted, *found = tensor_find(tensors, count, key);
        struct weight_layout layout;
        float *part;
        int r = layout_read(key, object, &layout, &wanted, error);

        if (r < 0)
            return r;
        if (!found || found->bytes != wanted.bytes)
            continue;
        part = (float *)(uintptr_t)found->data;
        for (int i = 0; i < layout.count; i++) {
            struct filled *weight = filled_add(filling, &layout.piece[i]);

            if (!weight)
                return error_set(error, -ENOMEM, "cannot put together %s", layout.piece[i].name);
            weight->count += piece_copy(&layout.piece[i], part, weight->values, weight->filled);
            weight->is_there = tensor_find(tensors, count, weight->name) &&
                               !json_object_object_get_ex(all, weight->name, NULL);
            part += elements_of(layout.piece[i].extent, layout.piece[i].rank);
        }
    }
    return 0;
}

/* Whether weights that are filled hold all of the parameter. */
static bool is_replaced(struct json_object *all, struct filling *filling,
                        const struct safetensors_tensor *tensor, struct weight_layout *layout)
{
    struct safetensors_tensor wanted;
    struct json_object *object;
    struct error ignored = {0};

    if (tensor->type != SAFETENSORS_FLOAT32 ||
        !json_object_object_get_ex(all, tensor->name, &object) ||
        layout_read(tensor->name, object, layout, &wanted, &ignored) < 0 ||
        wanted.bytes != tensor->bytes)
        return false;
    for (int i = 0; i < layout->count; i++) {
        const struct filled *weight = filled_find(filling, layout->piece[i].name);

        if (!weight || (weight->count != weight->elements && !weight->is_there))
            return false;
    }
    return true;
}

/* Makes the filled weight a tensor, which owns its name and data. */
static int weight_take(struct filled *weight, struct safetensors_tensor *tensor,
                       struct error *error)
{
    char *name = strdup(weight->name);

    if (!name)
        return error_no_memory(error, "the name of a weight");
    *tensor = (struct safetensors_tensor){.name = name,
                                          .type = SAFETENSORS_FLOAT32,
                                          .rank = weight->rank,
                                          .bytes = (size_t)weight->elements * sizeof(float),
                                          .data = weight->values,
                                          .owned = true};
    memcpy(tensor->shape, weight->shape, (size_t)weight->rank * sizeof *weight->shape);
    weight->taken = true;
    return 0;
}

static void tensor_free(struct safetensors_tensor *tensor)
{
    if (!tensor->owned)
        return;
    free((char *)(uintptr_t)tensor->name);
    free((void *)(uintptr_t)tensor->data);
}

static bool tensor_is_filled(const struct filling *filling, const struct safetensors_tensor *tensor)
{
    for (int i = 0; i < filling->count; i++)
        if (filling->weights[i].values == tensor->data)
            return true;
    return false;
}

/* Puts the weights in the place of the first parameter that each is filled from. */
static int parameters_replace(struct json_object *all, struct filling *filling,
                              const struct safetensors_tensor *tensors, int count,
                              struct safetensors_tensor *replaced, int *replaced_count,
                              struct error *error)
{
    *replaced_count = 0;
    for (int i = 0; i < count; i++) {
        struct weight_layout layout;

        if (!is_replaced(all, filling, &tensors[i], &layout)) {
            replaced[(*replaced_count)++] = tensors[i];
            continue;
        }
        for (int k = 0; k < layout.count; k++) {
            struct filled *weight = filled_find(filling, layout.piece[k].name);
            int r;

            if (weight->taken || weight->is_there)
                continue;
            r = weight_take(weight, &replaced[*replaced_count], error);
            if (r < 0)
                return r;
            (*replaced_count)++;
        }
    }
    return 0;
}

void weight_layouts_free(struct safetensors_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++)
        tensor_free(&tensors[i]);
    free(tensors);
}

int weight_layouts_scatter(const char *text, struct safetensors_tensor **tensors, int *count,
                           struct error *error)
{
    AUTO_JSON struct json_object *all = NULL;
    AUTO_FILLING struct filling filling = {0};
    struct safetensors_tensor *replaced;
    int replaced_count, r = text_parse(text, &all, error);

    if (r == 0)
        r = weights_fill(all, &filling, *tensors, *count, error);
    if (r < 0)
        return r;
    replaced = calloc((size_t)(*count + filling.count) + 1, sizeof *replaced);
    if (!replaced)
        return error_no_memory(error, "the list of weights");
    r = parameters_replace(all, &filling, *tensors, *count, replaced, &replaced_count, error);
    if (r < 0) { /* parameters stay the caller's */
        for (int i = 0; i < replaced_count; i++)
            if (tensor_is_filled(&filling, &replaced[i]))
                tensor_free(&replaced[i]);
        free(replaced);
        return r;
    }
    for (int i = 0; i < *count; i++) {
        struct weight_layout layout;

        if (is_replaced(all, &filling, &(*tensors)[i], &layout))
            tensor_free(&(*tensors)[i]);
    }
    free(*tensors);
    *tensors = replaced;
    *count = replaced_count;
    return 0;
}
