/* onnx_attention.c: finds attention in the nodes that exporters write for it, from the product of
 * queries and keys to that of the softmax and the values, and appends the engine's operator. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { CHAIN_MAX = 12 };

const struct onnx_node *onnx_only_reader(const struct onnx_import *import,
                                         const struct onnx_node *node, const char *operator)
{
    const struct onnx_model *model = import->model;
    int32_t output = onnx_node_output(node, 0);
    const struct onnx_node *reader;

    if (output < 0 || model->readers[output] != 1 || model->reader[output] < 0)
        return NULL;
    reader = &model->nodes[model->reader[output]];
    if (!onnx_node_is_standard(reader))
        return NULL;
    return !operator|| strcmp(reader->proto->op_type, operator) == 0 ? reader : NULL;
}

void onnx_absorb(struct onnx_import *import, const struct onnx_node *node,
                 const struct onnx_value *value)
{
    import->absorbed[node - import->model->nodes] = true;
    if (onnx_node_output(node, 0) >= 0) {
        import->values[node->output[0]] = *value;
        import->values[node->output[0]].alone |= import->alone;
    }
}

/* What stands between the two products. */
struct chain {
    const struct onnx_node *nodes[CHAIN_MAX];
    int count;
    double factor;
    bool causal;
    struct onnx_value scores; /* the shape of what the first product gives */
    struct onnx_value values; /* of the second product */
};

static bool is_one_of(const struct onnx_node *node, const char *a, const char *b, const char *c)
{
    const char *name = node->proto->op_type;

    return strcmp(name, a) == 0 || strcmp(name, b) == 0 || strcmp(name, c) == 0;
}

/* Whether the constant is one matrix of steps and steps, which is the same for all heads. */
static bool is_square(const struct onnx_value *mask, int64_t steps)
{
    return mask->kind == ONNX_CONSTANT && !onnx_value_trains(mask) && mask->rank >= 2 &&
           mask->extent[mask->rank - 1] == steps && mask->extent[mask->rank - 2] == steps &&
           onnx_value_elements(mask) / steps == steps;
}

/* Whether the constant hides from each step those behind it, and nothing else. `hides`: numbers
 * that hide are at most this. */
static bool is_causal(const struct onnx_value *mask, int64_t steps, double shows, double hides)
{
    if (!is_square(mask, steps))
        return false;
    for (int64_t i = 0; i < steps * steps; i++) {
        double number = onnx_number(mask, i);

        if (i % steps <= i / steps ? number != shows : !(number <= hides))
            return false;
    }
    return true;
}

/* Reads a node between the first product and the softmax; false: it is not known there. */
static bool chain_read(const struct onnx_import *import, struct chain *chain,
                       const struct onnx_node *node, int32_t from)
{
    static const double hidden = -1e4;
    const int64_t steps = chain->scores.extent[chain->scores.rank - 1];
    const struct onnx_value *other;
    double number;

    if (is_one_of(node, "Identity", "Cast", "CastLike"))
        return true;
    if (strcmp(node->proto->op_type, "Where") == 0 && node->input_count == 3 &&
        node->input[2] == from && node->input[0] >= 0 && node->input[1] >= 0) {
        struct onnx_value condition = import->values[node->input[0]];
        bool all =
            onnx_is_number_beside(&import->values[node->input[1]], &chain->scores, &number) &&
            number <= hidden;

        /* true hides: 0 where it shows */
        if (!all || condition.rank > chain->scores.rank || !is_square(&condition, steps))
            return false;
        for (int64_t i = 0; i < steps * steps; i++)
            if ((onnx_number(&condition, i) != 0) != (i % steps > i / steps))
                return false;
        return chain->causal = true;
    }
    if (node->input_count != 2 || node->input[0] < 0 || node->input[1] < 0)
        return false;
    other = &import->values[node->input[node->input[0] == from]];
    if (strcmp(node->proto->op_type, "Add") == 0 && other->rank <= chain->scores.rank &&
        is_causal(other, steps, 0, hidden))
        return chain->causal = true;
    if (!onnx_is_number_beside(other, &chain->scores, &number) || node->input[0] != from)
        return false;
    if (strcmp(node->proto->op_type, "Mul") == 0)
        chain->factor *= number;
    else if (strcmp(node->proto->op_type, "Div") == 0)
        chain->factor /= number;
    else
        return false;
    return !chain->causal; /* a mask is not multiplied */
}

/* Follows the scores to the product with the values. */
static bool chain_find(const struct onnx_import *import, struct chain *chain)
{
    const struct onnx_node *node = import->node, *next;
    bool softmax = false;

    while ((next = onnx_only_reader(import, node, NULL)) && chain->count < CHAIN_MAX) {
        int32_t from = node->output[0];

        chain->nodes[chain->count++] = next;
        if (strcmp(next->proto->op_type, "MatMul") == 0) {
            if (!softmax || next->input_count != 2 || next->input[0] != from || next->input[1] < 0)
                return false;
            chain->values = import->values[next->input[1]];
            return chain->values.kind == ONNX_TENSOR;
        }
        if (strcmp(next->proto->op_type, "Softmax") == 0) {
            const Onnx__Attribute *axis = onnx_attribute(next, "axis");

            if (softmax || (axis && axis->i != -1 &&
                            axis->i != import->values[import->node->input[0]].rank - 1))
                return false;
            softmax = true;
        } else if (softmax ? !is_one_of(next, "Identity", "Cast", "CastLike")
                           : !chain_read(import, chain, next, from)) {
            return false;
        }
        node = next;
    }
    return false;
}

/* Brings the axes [batch and heads…, steps, width] to the order batch, steps, heads, width; returns
 * whether the tensor has it already. */
static bool order_heads(struct onnx_value *value)
{
    struct onnx_atoms *atoms = &value->atoms;
    int order[ONNX_ATOMS_MAX], count = 0, steps = atoms->first[value->rank - 2];
    bool plain = true;

    order[count++] = 0;
    for (int i = steps; i < atoms->first[value->rank - 1]; i++)
        order[count++] = atoms->order[i];
    for (int i = 0; i < steps; i++)
        if (atoms->order[i] != 0)
            order[count++] = atoms->order[i];
    for (int i = atoms->first[value->rank - 1]; i < atoms->count; i++)
        order[count++] = atoms->order[i];
    for (int i = 0; i < count; i++)
        plain &= order[i] == i;
    memcpy(atoms->order, order, sizeof *order * (size_t)count);
    return plain;
}

/* Whether the values are the parts of one tensor's rows, in their order. */
static bool parts_of_one(const struct onnx_value *value)
{
    for (int i = 0; i < 3; i++) {
        const struct onnx_cut *cut = value[i].cut;

        if (!cut || cut->whole != value[0].cut->whole || cut->width != 3 * cut->count ||
            cut->first != i * cut->count || cut->outer != value[0].cut->outer)
            return false;
    }
    return true;
}

/* Queries, keys and values side by side: [B,T,3D]. */
static int32_t pack(struct onnx_import *import, struct onnx_value *value, int64_t steps,
                    int64_t width, double factor)
{
    bool plain = true;
    int32_t tensors[3];

    for (int i = 0; i < 3; i++)
        plain &= order_heads(&value[i]);
    if (plain && factor == 1 && parts_of_one(value) && value[0].cut->outer == steps) {
        struct onnx_value whole = {.tensor = value[0].cut->whole, .atoms = value[0].cut->atoms};

        return onnx_reshaped(import, whole.tensor, 2, (int64_t[]){steps, 3 * width});
    }
    value[0].factor = factor;
    for (int i = 0; i < 3; i++) {
        if (onnx_resolve(import, &value[i]))
            return import->graph->error.code;
        tensors[i] = onnx_shaped(import, &value[i], 2, (int64_t[]){steps, width});
        if (tensors[i] < 0)
            return tensors[i];
    }
    return graph_concatenate(import->graph, tensors, 3, onnx_layer_name(import, ".qkv").text);
}

/* The result's axes: those of the queries, in a tensor of batch, steps, heads, width. */
static struct onnx_value result_of(const struct onnx_value *queries, int32_t tensor)
{
    struct onnx_value result = *queries;
    struct onnx_atoms *atoms = &result.atoms;
    int steps = queries->atoms.first[queries->rank - 2], width, base = 1, at = 0;

    width = queries->atoms.first[queries->rank - 1];
    atoms->extent[0] = ONNX_BATCH;
    for (int i = steps; i < width; i++) {
        atoms->extent[base] = queries->atoms.extent[queries->atoms.order[i]];
        atoms->order[i] = base++;
    }
    for (; at < steps; at++)
        if (queries->atoms.order[at] != 0) {
            atoms->extent[base] = queries->atoms.extent[queries->atoms.order[at]];
            atoms->order[at] = base++;
        }
    for (int i = width; i < queries->atoms.count; i++) {
        atoms->extent[base] = queries->atoms.extent[queries->atoms.order[i]];
        atoms->order[i] = base++;
    }
    result.tensor = tensor;
    result.cut = NULL;
    result.factor = 0;
    return result;
}

/* Computes the constants among the next nodes: masks often stand behind the first product. */
static void constants_ahead(struct onnx_import *import)
{
    enum { AHEAD = 96 };
    const struct onnx_node *present = import->node;
    int end = import->node_index + AHEAD;

    end = end < import->model->node_count ? end : import->model->node_count;
    for (int i = import->node_index + 1; i < end && !import->error.code; i++) {
        const struct onnx_node *node = &import->model->nodes[i];
        bool ready = !import->absorbed[i] && onnx_fold_knows(node->proto->op_type);

        for (int k = 0; k < node->input_count; k++)
            ready &= node->input[k] < 0 || (import->values[node->input[k]].kind >= ONNX_CONSTANT &&
                                            !onnx_value_trains(&import->values[node->input[k]]));
        import->node = node;
        /* the samples, to whose type a constant is cast, are numbers */
        if (!import->absorbed[i] && strcmp(node->proto->op_type, "CastLike") == 0 &&
            onnx_node_output(node, 0) >= 0 && onnx_node_input(node, 0) >= 0 &&
            import->values[node->input[0]].kind == ONNX_CONSTANT &&
            onnx_type_is_float(import->values[node->input[0]].type)) {
            import->values[node->output[0]] = import->values[node->input[0]];
            import->absorbed[i] = true;
        } else if (ready && onnx_fold(import) == 0) {
            import->absorbed[i] = true;
        }
    }
    import->node = present;
}

/* The engine's operator for queries, keys and values [batch, heads…, steps, width] of the
 * same extents, whose scores are multiplied by `factor`. Returns the tensor, or an error that is
 * kept. */
static int32_t attention_append(struct onnx_import *import, struct onnx_value value[3],
                                double factor, bool causal)
{
    int rank = value[0].rank;
    int64_t steps = value[0].extent[rank - 2], width = value[0].extent[rank - 1], heads = 1;
    int32_t tensor;

    for (int r = 0; r < rank - 2; r++)
        heads *=
            value[0].extent[r] >= ONNX_BATCH ? value[0].extent[r] / ONNX_BATCH : value[0].extent[r];
    factor *= sqrt((double)width);
    for (int i = 0; i < 2; i++) {
        factor *= value[i].factor != 0 ? value[i].factor : 1;
        value[i].factor = 0;
    }
    if (fabs(factor - 1) < 1e-5)
        factor = 1;
    tensor = pack(import, value, steps, heads * width, factor);
    return tensor < 0
               ? tensor
               : graph_attention(import->graph, tensor, import->node->name, (int)heads, causal, -1);
}

bool onnx_attention_absorb(struct onnx_import *import)
{
    struct onnx_value value[3] = {*onnx_input(import, 0), *onnx_input(import, 1)}, result;
    struct chain chain = {.factor = 1};
    int rank = value[0].rank;
    int64_t steps;
    int32_t tensor;

    if (rank < 3 || value[1].rank != rank || value[0].extent[rank - 2] >= ONNX_BATCH ||
        value[0].extent[rank - 1] >= ONNX_BATCH)
        return false;
    /* [.., width, steps] in the order of the queries */
    onnx_axis_move(&value[1], value[1].rank - 1, value[1].rank - 2);
    steps = value[0].extent[rank - 2];
    chain.scores = value[0];
    chain.scores.extent[rank - 1] = steps;
    constants_ahead(import);
    if (steps < 2 || !chain_find(import, &chain) || chain.values.rank != rank || chain.values.alone)
        return false;
    value[2] = chain.values;
    for (int i = 1; i < 3; i++)
        for (int r = 0; r < rank; r++)
            if (value[i].extent[r] != value[0].extent[r])
                return false;
    if (value[2].factor != 0 && value[2].factor != 1)
        return false;
    result = value[0];
    tensor = attention_append(import, value, chain.factor, chain.causal);
    if (tensor < 0)
        return true;
    result = result_of(&result, tensor);
    onnx_absorb(import, chain.nodes[chain.count - 1], &result);
    /* of the scores only the shape may be asked */
    result.extent[rank - 1] = steps;
    result.tensor = -1;
    for (int i = 0; i + 1 < chain.count; i++)
        onnx_absorb(import, chain.nodes[i], &result);
    *onnx_output(import, 0) = result;
    return true;
}

/* ---- the operator Attention, since opset 23 ---- */

/* [batch, steps, heads * width] becomes [batch, heads, steps, width]. */
static bool heads_split(struct onnx_value *value, int64_t heads)
{
    int64_t extent[4] = {value->extent[0], value->extent[1], heads, 0};

    if (heads < 1 || value->extent[2] % heads)
        return false;
    extent[3] = value->extent[2] / heads;
    if (!onnx_atoms_reshape(&value->atoms, 4, extent))
        return false;
    onnx_atoms_permute(&value->atoms, 4, (int[]){0, 2, 1, 3});
    value->rank = 4;
    for (int r = 0; r < 4; r++)
        value->extent[r] = extent[(int[]){0, 2, 1, 3}[r]];
    return true;
}

/* What is added to the scores [batch, heads of keys, heads of queries for each, steps, others]: 0
 * and, where they are hidden, a number that leaves them no share. */
static struct onnx_value mask_of(struct onnx_import *import, const struct onnx_value *mask,
                                 bool causal, const struct onnx_value *scores)
{
    static const double hidden = -1e30;
    int64_t steps = scores->extent[3], others = scores->extent[4], extent[5] = {1, 1, 1, 1, 1};
    struct onnx_value result = *mask;
    void *numbers;

    if (!causal && mask->rank > 4) {
        result.kind = ONNX_UNKNOWN;
        return result;
    }
    if (!causal) {
        for (int r = 0; r < mask->rank; r++)
            extent[r + 5 - mask->rank] = mask->extent[r];
        if (mask->rank > 2) {
            extent[0] = mask->rank > 3 ? extent[1] : 1;
            if (extent[2] != 1 && extent[2] != scores->extent[1] * scores->extent[2])
                result.kind = ONNX_UNKNOWN;
            extent[1] = extent[2] > 1 ? scores->extent[1] : 1;
            extent[2] /= extent[1];
        }
        if (mask->type == ONNX_BOOL && result.kind != ONNX_UNKNOWN)
            result = onnx_mask_numbers(import, mask, 0, hidden);
        if (result.kind == ONNX_UNKNOWN || import->error.code ||
            extent[0] * extent[1] * extent[2] * extent[3] * extent[4] !=
                onnx_value_elements(mask) ||
            onnx_constant_reshape(import, &result, 5, extent))
            result.kind = ONNX_UNKNOWN;
        return result;
    }
    result = onnx_constant_new(import, ONNX_FLOAT, 2, (int64_t[]){steps, others}, &numbers);
    for (int64_t i = 0; numbers && i < steps * others; i++)
        ((double *)numbers)[i] = i % others > i / others ? hidden : 0;
    return result;
}

/* Two products and a softmax, for what the engine's operator does not know: another mask, queries
 * of another sequence, several heads of queries for one of keys. */
static int attention_compose(struct onnx_import *import, struct onnx_value value[3], double factor,
                             const struct onnx_value *mask, bool causal)
{
    struct onnx_value scores;
    int64_t extent[4], heads = value[1].extent[1];
    int code;

    memcpy(extent, value[0].extent, sizeof extent);
    extent[3] = value[2].extent[3];
    if (heads < 1 || value[2].extent[1] != heads || extent[1] % heads)
        return onnx_fail(import, "%lld heads of queries meet %lld of keys", (long long)extent[1],
                         (long long)heads);
    for (int i = 0; i < 3; i++) {
        int64_t split[5] = {value[i].extent[0], heads, value[i].extent[1] / heads,
                            value[i].extent[2], value[i].extent[3]};

        if (onnx_resolve(import, &value[i]))
            return import->graph->error.code;
        if (!onnx_atoms_reshape(&value[i].atoms, 5, split))
            return onnx_missing(import, "whose heads lie apart");
        value[i].rank = 5;
        memcpy(value[i].extent, split, sizeof split);
    }
    /* [.., width, steps] in the order of the queries */
    onnx_axis_move(&value[1], value[1].rank - 1, value[1].rank - 2);
    code = onnx_batch_product(import, &value[0], &value[1]);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    scores = *onnx_output(import, 0);
    scores.factor = factor;
    if (mask->kind != ONNX_ABSENT || causal) {
        struct onnx_value added = mask_of(import, mask, causal, &scores);

        if (added.kind == ONNX_UNKNOWN)
            return import->error.code
                       ? import->error.code
                       : onnx_missing(import, "with a mask that does not fit the scores");
        code = import->error.code ? import->error.code
                                  : onnx_combine(import, &scores, &added, BROADCAST_ADD);
        if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
            return code;
        scores = *onnx_output(import, 0);
    }
    if (onnx_resolve(import, &scores) || onnx_softmax(import, scores, scores.rank - 1))
        return import->graph->error.code;
    scores = *onnx_output(import, 0);
    code = onnx_batch_product(import, &scores, &value[2]);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    scores = *onnx_output(import, 0);
    return onnx_reshape_to(import, &scores, 4, extent);
}

static int append_attention(struct onnx_import *import)
{
    struct onnx_value value[3];
    const struct onnx_value *mask = onnx_input(import, 3);
    bool causal = onnx_attribute_int(import, "is_causal", 0), rows, alike = true;
    double factor;
    int32_t tensor;

    for (int i = 0; i < 3; i++)
        value[i] = *onnx_input(import, i);
    rows = value[0].rank == 3;
    for (int i = 0; i < 3; i++)
        if (value[i].kind != ONNX_TENSOR || value[i].rank != (rows ? 3 : 4) ||
            value[i].extent[0] != ONNX_BATCH)
            return onnx_missing(import, "of other than samples [batch, heads, steps, width]");
    if (onnx_has_input(import, 4) || onnx_has_input(import, 5) || onnx_has_input(import, 6) ||
        onnx_more_is_read(import) || onnx_attribute_float(import, "softcap", 0) != 0)
        return onnx_missing(import, "with earlier keys, further outputs or a bound of the scores");
    if (onnx_attribute_int(import, "left_window_size", -1) != -1 ||
        onnx_attribute_int(import, "right_window_size", -1) != -1) /* since opset 25 */
        return onnx_missing(import, "to a window of keys");
    if (mask->kind != ONNX_ABSENT && (mask->kind != ONNX_CONSTANT || causal))
        return onnx_missing(import, "with a mask that depends on the samples");
    for (int i = 0; i < 3 && rows; i++)
        if (!heads_split(&value[i],
                         onnx_attribute_int(import, i ? "kv_num_heads" : "q_num_heads", 0)))
            return onnx_missing(import, "whose heads lie apart");
    for (int i = 1; i < 3; i++)
        for (int r = 0; r < 4; r++)
            alike &= value[i].extent[r] == value[0].extent[r];
    factor = onnx_attribute_float(import, "scale", 0);
    if (factor == 0)
        factor = 1 / sqrt((double)value[0].extent[3]);
    if (rows || !alike || mask->kind != ONNX_ABSENT || value[0].extent[2] < 2) {
        int code = attention_compose(import, value, factor, mask, causal);
        struct onnx_value result = *onnx_output(import, 0);
        int64_t extent[3] = {result.extent[0], result.extent[2],
                             result.extent[1] * result.extent[3]};

        if (code || !rows || result.kind != ONNX_TENSOR)
            return code;
        onnx_atoms_permute(&result.atoms, 4, (int[]){0, 2, 1, 3});
        result.extent[1] = extent[1];
        result.extent[2] = onnx_output(import, 0)->extent[1];
        return onnx_reshape_to(import, &result, 3, extent);
    }
    if (onnx_resolve(import, &value[2]))
        return import->graph->error.code;
    struct onnx_value queries = value[0];
    tensor = attention_append(import, value, factor, causal);
    return tensor < 0 ? tensor : onnx_done(import, result_of(&queries, tensor));
}

const struct onnx_operator_entry onnx_attention_operators[] = {
    {"Attention", append_attention, 7, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
