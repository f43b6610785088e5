/* onnx_tensors.c: gives a tensor of the graph the order and the shape that an operator wants; see
 * onnx_value.h. */
#include "engine/onnx/onnx_tensors.h"

#include "engine/graph/forward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct onnx_value onnx_tensor_value(int32_t tensor, int rank, const int64_t *extent)
{
    struct onnx_value value = {
        .kind = ONNX_TENSOR, .type = ONNX_FLOAT, .rank = rank, .tensor = tensor};

    memcpy(value.extent, extent, (size_t)rank * sizeof *extent);
    value.atoms = onnx_atoms_plain(rank, extent);
    return value;
}

int onnx_batch_axis(const struct onnx_value *value)
{
    for (int r = 0; r < value->rank; r++)
        if (value->extent[r] >= ONNX_BATCH)
            return r;
    return -1;
}

void onnx_axis_move(struct onnx_value *value, int from, int to)
{
    const struct onnx_value old = *value;
    int order[ONNX_RANK_MAX] = {0}, axis = 0;

    for (int r = 0; r < value->rank; r++) {
        if (axis == from)
            axis++;
        order[r] = r == to ? from : axis++;
    }
    onnx_atoms_permute(&value->atoms, value->rank, order);
    for (int r = 0; r < value->rank; r++)
        value->extent[r] = old.extent[order[r]];
}

struct onnx_layer_name onnx_layer_name(const struct onnx_import *import, const char *suffix)
{
    struct onnx_layer_name name;

    snprintf(name.text, sizeof name.text, "%.*s%s", (int)(sizeof name.text - strlen(suffix) - 1),
             import->node->name, suffix);
    return name;
}

/* The tensor with another shape of its samples. */
int32_t onnx_reshaped(struct onnx_import *import, int32_t tensor, int rank, const int64_t *sample)
{
    const struct graph_shape *shape;
    int64_t extent[GRAPH_RANK_MAX]; /* a copy: `sample` may be of a tensor, and nodes move those */
    bool same;

    if (tensor < 0)
        return tensor;
    shape = &import->graph->tensors[tensor].shape;
    same = shape->rank == rank + 1;
    for (int r = 0; r < rank && same; r++)
        same = shape->extent[r + 1] == sample[r];
    if (same)
        return tensor;
    if (rank >= 0 && rank < GRAPH_RANK_MAX)
        memcpy(extent, sample, (size_t)rank * sizeof *extent);
    /* images are no views of images: their channels may lie side by side */
    if (shape->rank == 4 && rank == 3)
        tensor = graph_flatten(import->graph, tensor, onnx_layer_name(import, ".flatten").text);
    return graph_reshape(import->graph, tensor, onnx_layer_name(import, ".reshape").text, extent,
                         rank);
}

/* Numbers of the atoms from `first` to before `end` of the tensor. */
static int64_t product(const struct onnx_atoms *atoms, int first, int end)
{
    int64_t result = 1;

    for (int i = first; i < end; i++)
        result *= atoms->extent[i];
    return result;
}

/* [.., P, Q] -> [.., Q, P], P being the atoms before `cut`. An image is its pixels' channels, so
 * where channels lie side by side this moves nothing. */
static int32_t swapped(struct onnx_import *import, const struct onnx_value *value, int cut)
{
    const struct graph_shape *shape = &import->graph->tensors[value->tensor].shape;
    int64_t p = product(&value->atoms, 1, cut), q = product(&value->atoms, cut, value->atoms.count);
    const char *name = onnx_layer_name(import, ".order").text;
    int32_t tensor;

    if (shape->rank == 4 && shape->extent[1] == p)
        return graph_image_tokens(import->graph, value->tensor, name);
    tensor = onnx_reshaped(import, value->tensor, 2, (int64_t[]){p, q});
    return graph_token_image(import->graph, tensor, name);
}

/* Any other order: a copy. */
static int32_t permuted(struct onnx_import *import, const struct onnx_value *value, const int *from)
{
    struct permute_attributes permute = {.rank = value->atoms.count - 1};
    int64_t rows;

    if (permute.rank > PERMUTE_RANK_MAX)
        return onnx_missing(import, "more than %d axes change places", PERMUTE_RANK_MAX), -ENOTSUP;
    for (int i = 0; i < permute.rank; i++) {
        permute.extent[i] = value->atoms.extent[i + 1];
        permute.order[i] = from[i + 1] - 1;
    }
    rows = product(&value->atoms, 1, value->atoms.count);
    return graph_permute(import->graph, onnx_reshaped(import, value->tensor, 1, &rows), &permute,
                         onnx_layer_name(import, ".order").text);
}

/* Moves numbers so that atom i of the tensor becomes what atom from[i] was; from[0] is 0. */
static int atoms_move(struct onnx_import *import, struct onnx_value *value, const int *from)
{
    struct onnx_atoms *atoms = &value->atoms, old = *atoms;
    int to[ONNX_ATOMS_MAX], turned = 1, cut;

    for (int i = 0; i < old.count; i++)
        to[from[i]] = i;
    cut = old.count > 1 ? from[1] : 1;
    for (int i = 1; i < old.count; i++)
        turned &= from[i] == (cut - 1 + i - 1) % (old.count - 1) + 1;
    if (turned && cut == 1)
        return 0;
    value->tensor = turned ? swapped(import, value, cut) : permuted(import, value, from);
    if (value->tensor < 0)
        return value->tensor;
    for (int i = 0; i < old.count; i++) {
        atoms->extent[i] = old.extent[from[i]];
        atoms->order[i] = to[old.order[i]];
    }
    return import->graph->error.code;
}

int onnx_settle(struct onnx_import *import, struct onnx_value *value)
{
    int from[ONNX_ATOMS_MAX] = {0}, count = 1;

    for (int i = 0; i < value->atoms.count; i++)
        if (value->atoms.order[i] != 0)
            from[count++] = value->atoms.order[i];
    return atoms_move(import, value, from);
}

int onnx_follow(struct onnx_import *import, struct onnx_value *value, struct onnx_value *like)
{
    int from[ONNX_ATOMS_MAX] = {0}, place[ONNX_ATOMS_MAX] = {0};
    const struct graph_shape *shape;
    int code;

    if (!onnx_atoms_match(&value->atoms, &like->atoms, value->rank))
        return onnx_missing(import, "the axes of its inputs were cut differently"), -ENOTSUP;
    for (int i = 0; i < like->atoms.count; i++)
        place[like->atoms.order[i]] = i;
    for (int i = 0; i < like->atoms.count; i++)
        from[i] = value->atoms.order[place[i]];
    code = atoms_move(import, value, from);
    if (code)
        return code;
    shape = &import->graph->tensors[like->tensor].shape;
    value->tensor = onnx_reshaped(import, value->tensor, shape->rank - 1, shape->extent + 1);
    return import->graph->error.code;
}

/* ---- parts and factors that wait ---- */

/* Cuts one part out. Of a sequence the first or the last step is an operator of its own, which more
 * devices have. */
static int32_t cut_one(struct onnx_import *import, const struct onnx_cut *cut)
{
    const char *name = onnx_layer_name(import, ".cut").text;
    int64_t steps = cut->width / cut->count;
    bool step = cut->outer == 1 && cut->width % cut->count == 0 && steps > 1;
    int32_t whole;

    if (step && (cut->first == 0 || cut->first == cut->width - cut->count)) {
        whole = onnx_reshaped(import, cut->whole, 2, (int64_t[]){steps, cut->count});
        return cut->first == 0 ? graph_first_step(import->graph, whole, name)
                               : graph_last_step(import->graph, whole, -1, name, false);
    }
    whole = cut->outer == 1
                ? onnx_reshaped(import, cut->whole, 1, &cut->width)
                : onnx_reshaped(import, cut->whole, 2, (int64_t[]){cut->outer, cut->width});
    return graph_slice(import->graph, whole, cut->first, cut->count, name);
}

static void cut_all(struct onnx_import *import, const struct onnx_cut *cut)
{
    int64_t widths[GRAPH_OUTPUTS_MAX];
    int32_t outputs[GRAPH_OUTPUTS_MAX];
    int32_t whole = cut->outer == 1
                        ? onnx_reshaped(import, cut->whole, 1, &cut->width)
                        : onnx_reshaped(import, cut->whole, 2, (int64_t[]){cut->outer, cut->width});

    for (int i = 0; i < cut->part_count; i++)
        widths[i] = cut->parts[i].count;
    graph_split(import->graph, whole, widths, cut->part_count, outputs,
                onnx_layer_name(import, ".cut").text);
    for (int i = 0; i < cut->part_count; i++)
        cut->parts[i].tensor = outputs[i];
}

int onnx_resolve(struct onnx_import *import, struct onnx_value *value)
{
    struct onnx_cut *cut = value->cut;

    if (cut) {
        if (cut->tensor < 0 && cut->parts)
            cut_all(import, cut);
        else if (cut->tensor < 0)
            cut->tensor = cut_one(import, cut);
        value->tensor = cut->tensor;
        value->cut = NULL;
    }
    if (value->factor != 0 && value->factor != 1 && value->tensor >= 0)
        value->tensor = graph_affine(import->graph, value->tensor, (float)value->factor, 0,
                                     onnx_layer_name(import, ".scale").text);
    value->factor = 0;
    return import->graph->error.code;
}

int onnx_cut_out(struct onnx_import *import, struct onnx_value *value, int axis, int64_t first,
                 int64_t count)
{
    struct onnx_cut *cut = onnx_allocate(import, 1, sizeof *cut);
    struct onnx_atoms *atoms = &value->atoms;
    int begin = atoms->first[axis], end = atoms->first[axis + 1], base;
    bool together = true;

    if (!cut || onnx_resolve(import, value))
        return import->error.code ? import->error.code : import->graph->error.code;
    if (count == value->extent[axis])
        return 0;
    for (int i = begin; i < end; i++)
        together &= atoms->order[i] == atoms->order[begin] + i - begin;
    if (atoms->order[begin] == 0 || count < 1)
        return onnx_missing(import, "of the batch, or of nothing"), -ENOTSUP;
    if (!together && onnx_settle(import, value))
        return -ENOTSUP;
    base = atoms->order[begin];
    *cut = (struct onnx_cut){
        .whole = value->tensor, .atoms = *atoms, .outer = product(atoms, 1, base), .tensor = -1};
    cut->count = product(atoms, base + end - begin, atoms->count);
    cut->width = cut->count * value->extent[axis];
    cut->first = first * cut->count;
    cut->count *= count;
    /* the axis becomes one atom, or none */
    for (int i = begin + 1; i < end; i++)
        atoms->extent[base + i - begin] = 1;
    atoms->extent[base] = count;
    onnx_atoms_drop(atoms, value->rank);
    value->extent[axis] = count;
    value->cut = cut;
    value->tensor = -1;
    return 0;
}

int32_t onnx_shaped(struct onnx_import *import, struct onnx_value *value, int rank,
                    const int64_t *sample)
{
    if (onnx_settle(import, value))
        return -ENOTSUP;
    value->tensor = onnx_reshaped(import, value->tensor, rank, sample);
    return value->tensor;
}

int32_t onnx_image(struct onnx_import *import, struct onnx_value *value)
{
    const int64_t *extent = value->extent;
    int pixels = value->atoms.first[2], channels = value->atoms.first[1], cut;
    int32_t tensor;

    if (value->rank == 4 && extent[0] > ONNX_BATCH)
        return onnx_missing(import, "of images or signals of which each sample has several, as "
                                    "frames that become samples"),
               -ENOTSUP;
    if (value->rank != 4 || extent[0] != ONNX_BATCH)
        return onnx_missing(import, "of other than images [batch, channels, height, width]"),
               -ENOTSUP;
    /* pixels before channels: the rows of a network over tokens */
    cut = value->atoms.count - (pixels - channels);
    if (pixels > channels && pixels < value->atoms.count && value->atoms.order[channels] == cut &&
        import->graph->tensors[value->tensor].shape.rank != 4) {
        bool turned = true;

        for (int i = channels; i < value->atoms.count; i++)
            turned &= value->atoms.order[i] == (i < pixels ? cut + i - channels : i - pixels + 1);
        if (turned) {
            tensor = onnx_reshaped(import, value->tensor, 2,
                                   (int64_t[]){extent[2] * extent[3], extent[1]});
            tensor =
                graph_tokens_to_image(import->graph, tensor, onnx_layer_name(import, ".image").text,
                                      extent[2], extent[3]);
            *value = onnx_tensor_value(tensor, 4, extent);
            return tensor;
        }
    }
    tensor = onnx_shaped(import, value, 3, extent + 1);
    return tensor;
}

int32_t onnx_rows(struct onnx_import *import, struct onnx_value *value)
{
    struct onnx_atoms *atoms = &value->atoms;
    int last = value->rank ? atoms->first[value->rank - 1] : 0, wide = atoms->count - last;
    int from[ONNX_ATOMS_MAX] = {0}, count = 1;
    bool moves = false;
    int64_t steps, width = value->rank ? value->extent[value->rank - 1] : 1;

    for (int i = last; i < atoms->count; i++) {
        if (atoms->order[i] == 0)
            return onnx_missing(import, "the batch would be its features"), -ENOTSUP;
        moves |= atoms->order[i] != i;
    }
    /* other axes are rows, whose order does not matter */
    for (int i = 1; i < atoms->count; i++) {
        bool features = false;

        for (int k = last; k < atoms->count; k++)
            features |= atoms->order[k] == i;
        if (!features)
            from[count++] = i;
    }
    for (int i = 0; i < wide; i++)
        from[count++] = atoms->order[last + i];
    if (moves && atoms_move(import, value, from))
        return -ENOTSUP;
    steps = product(atoms, 1, atoms->count - wide);
    value->tensor = steps > 1 ? onnx_reshaped(import, value->tensor, 2, (int64_t[]){steps, width})
                              : onnx_reshaped(import, value->tensor, 1, &width);
    return value->tensor;
}

void onnx_rows_widen(struct onnx_value *value, int32_t tensor, int64_t features)
{
    struct onnx_atoms *atoms = &value->atoms;

    atoms->count = atoms->first[value->rank - 1];
    if (features > 1) {
        atoms->extent[atoms->count] = features;
        atoms->order[atoms->count] = atoms->count;
        atoms->count++;
    }
    atoms->first[value->rank] = atoms->count;
    value->extent[value->rank - 1] = features;
    value->tensor = tensor;
}
