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
    return !operator|| strcmp(reader->proto->op_type, operator) == 0 ? reader : NULL;
}

void onnx_absorb(struct onnx_import *import, const struct onnx_node *node,
                 const struct onnx_value *value)
{
    import->absorbed[node - import->model->nodes] = true;
    if (onnx_node_output(node, 0) >= 0)
        import->values[node->output[0]] = *value;
}

/* What stands between the two products. */
struct chain {
    const struct onnx_node *nodes[CHAIN_MAX];
    int count;
    double factor;
    bool causal;
    struct onnx_value values; /* of the second product */
};

static bool is_one_of(const struct onnx_node *node, const char *a, const char *b, const char *c)
{
    const char *name = node->proto->op_type;

    return strcmp(name, a) == 0 || strcmp(name, b) == 0 || strcmp(name, c) == 0;
}

/* Whether so many numbers are a matrix of steps and steps. */
static bool is_square(int64_t elements, int64_t steps)
{
    return steps > 0 && elements % steps == 0 && elements / steps == steps;
}

/* Whether the constant hides from each step those behind it, and nothing else. `hides`: numbers
 * that hide are at most this. */
static bool is_causal(const struct onnx_value *mask, int64_t steps, double shows, double hides)
{
    int64_t elements = onnx_value_elements(mask);

    if (mask->kind != ONNX_CONSTANT || onnx_value_trains(mask) || mask->rank < 2 ||
        !is_square(elements, steps) || mask->extent[mask->rank - 1] != steps)
        return false;
    for (int64_t i = 0; i < elements; i++) {
        double number = onnx_number(mask, i);

        if (i % steps <= i / steps ? number != shows : !(number <= hides))
            return false;
    }
    return true;
}

/* Reads a node between the first product and the softmax; false: it is not known there. */
static bool chain_read(const struct onnx_import *import, struct chain *chain,
                       const struct onnx_node *node, int32_t from, int64_t steps)
{
    static const double hidden = -1e4;
    const struct onnx_value *other;
    double number;

    if (is_one_of(node, "Identity", "Cast", "CastLike"))
        return true;
    if (strcmp(node->proto->op_type, "Where") == 0 && node->input_count == 3 &&
        node->input[2] == from && node->input[0] >= 0 && node->input[1] >= 0) {
        struct onnx_value condition = import->values[node->input[0]];
        bool all = onnx_is_uniform(&import->values[node->input[1]], &number) && number <= hidden;

        /* true hides: 0 where it shows */
        if (!all || condition.kind != ONNX_CONSTANT ||
            !is_square(onnx_value_elements(&condition), steps))
            return false;
        for (int64_t i = 0; i < onnx_value_elements(&condition); i++)
            if ((onnx_number(&condition, i) != 0) != (i % steps > i / steps))
                return false;
        return chain->causal = true;
    }
    if (node->input_count != 2 || node->input[0] < 0 || node->input[1] < 0)
        return false;
    other = &import->values[node->input[node->input[0] == from]];
    if (strcmp(node->proto->op_type, "Add") == 0 && is_causal(other, steps, 0, hidden))
        return chain->causal = true;
    if (!onnx_is_uniform(other, &number) || node->input[0] != from)
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
static bool chain_find(const struct onnx_import *import, struct chain *chain, int64_t steps)
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
                           : !chain_read(import, chain, next, from, steps)) {
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

/* Takes the keys' axes [.., width, steps] in the order of the queries'. */
static void keys_turn(struct onnx_value *keys)
{
    int axes[ONNX_RANK_MAX], last = keys->rank - 1;
    int64_t extent = keys->extent[last];

    for (int r = 0; r <= last; r++)
        axes[r] = r;
    axes[last] = last - 1;
    axes[last - 1] = last;
    onnx_atoms_permute(&keys->atoms, keys->rank, axes);
    keys->extent[last] = keys->extent[last - 1];
    keys->extent[last - 1] = extent;
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
            ready &= node->input[k] < 0 || import->values[node->input[k]].kind >= ONNX_CONSTANT;
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

bool onnx_attention_absorb(struct onnx_import *import)
{
    struct onnx_value value[3] = {*onnx_input(import, 0), *onnx_input(import, 1)}, result;
    struct chain chain = {.factor = 1};
    int rank = value[0].rank;
    int64_t steps, width, heads = 1;
    double factor;
    int32_t tensor;

    if (rank < 3 || value[1].rank != rank)
        return false;
    keys_turn(&value[1]);
    steps = value[0].extent[rank - 2];
    width = value[0].extent[rank - 1];
    constants_ahead(import);
    if (steps < 2 || !chain_find(import, &chain, steps) || chain.values.rank != rank)
        return false;
    value[2] = chain.values;
    for (int i = 1; i < 3; i++)
        for (int r = 0; r < rank; r++)
            if (value[i].extent[r] != value[0].extent[r])
                return false;
    for (int r = 0; r < rank - 2; r++)
        heads *=
            value[0].extent[r] >= ONNX_BATCH ? value[0].extent[r] / ONNX_BATCH : value[0].extent[r];
    if (value[2].factor != 0 && value[2].factor != 1)
        return false;
    factor = chain.factor * sqrt((double)width);
    for (int i = 0; i < 2; i++) {
        factor *= value[i].factor != 0 ? value[i].factor : 1;
        value[i].factor = 0;
    }
    if (fabs(factor - 1) < 1e-5)
        factor = 1;
    result = value[0];
    tensor = pack(import, value, steps, heads * width, factor);
    if (tensor < 0)
        return true;
    tensor =
        graph_attention(import->graph, tensor, import->node->name, (int)heads, chain.causal, -1);
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
