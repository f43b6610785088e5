/* onnx_import.c: walks over a model's nodes, computes those that are constant and appends the
 * others to a graph; see onnx.h. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: there is none. */
static const struct onnx_operator_entry *operator_find(const struct onnx_node *node)
{
    const struct onnx_operator_entry *lists[] = {
        onnx_layer_operators,     onnx_image_operators,       onnx_norm_operators,
        onnx_shape_operators,     onnx_elementwise_operators, onnx_sequence_operators,
        onnx_take_operators,      onnx_function_operators,    onnx_einsum_operators,
        onnx_attention_operators, onnx_gelu_operators,        onnx_operand_operators,
        onnx_mask_operators};

    if (!onnx_node_is_standard(node))
        return NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct onnx_operator_entry *entry = lists[i]; entry->name; entry++)
            if (strcmp(entry->name, node->proto->op_type) == 0)
                return entry;
    return NULL;
}

/* Whether an input is what a missing operator would have given: then this node tells nothing. */
static bool reads_unknown(const struct onnx_import *import)
{
    for (int i = 0; i < import->node->input_count; i++)
        if (onnx_input(import, i)->kind == ONNX_UNKNOWN)
            return true;
    return false;
}

/* Whether the node has the inputs that its operator knows. Files of strangers have others; the
 * operators' functions need not expect them. */
static bool inputs_are_known(struct onnx_import *import, const struct onnx_operator_entry *entry)
{
    int count = import->node->input_count;

    while (count > 0 && !onnx_has_input(import, count - 1))
        count--;
    if (entry && count > entry->inputs)
        return onnx_fail(import, "it has %d inputs, and its operator %d", count, entry->inputs),
               false;
    for (int i = 0; i < count; i++)
        if (onnx_input(import, i)->kind == ONNX_SEQUENCE &&
            (i || !entry || !(entry->takes & ONNX_TAKES_LIST)))
            return onnx_missing(import, "of a list of tensors"), false;
    return true;
}

/* The first input is what an operator computes with: a tensor, if the entry does not say else. */
static bool has_samples(struct onnx_import *import, const struct onnx_operator_entry *entry)
{
    enum onnx_value_kind kind = onnx_input(import, 0)->kind;
    bool others = false;

    if (kind == ONNX_TENSOR || (kind == ONNX_SEQUENCE && entry->takes & ONNX_TAKES_LIST) ||
        (kind == ONNX_CONSTANT && entry->takes & ONNX_TAKES_CONSTANT))
        return true;
    for (int i = 0; i < import->node->input_count; i++)
        others |= onnx_input(import, i)->kind == ONNX_TENSOR;
    if (kind == ONNX_CONSTANT && !others)
        onnx_missing(import, "of constants");
    else
        onnx_fail(import, kind == ONNX_CONSTANT
                              ? "its first input is a constant and another one is not"
                              : "its first input is missing");
    return false;
}

/* Computes the node, or appends it to the graph. */
static int node_append(struct onnx_import *import, const struct onnx_operator_entry *entry)
{
    const Onnx__Node *proto = import->node->proto;
    int code = onnx_node_is_standard(import->node) ? onnx_fold(import) : -ENOTSUP;

    if (code != -ENOTSUP)
        return code;
    if (!entry)
        return onnx_missing(import, "%s", onnx_fold_knows(proto->op_type) ? "of samples" : "");
    if (!has_samples(import, entry))
        return import->error.code;
    for (int i = 0; i < import->node->input_count && !(entry->takes & ONNX_TAKES_PENDING); i++)
        if (onnx_input(import, i)->kind == ONNX_TENSOR &&
            onnx_resolve(import, &import->values[import->node->input[i]]))
            return import->graph->error.code;
    code = entry->append(import);
    return code == -ENOTSUP ? 0 : code;
}

/* What other nodes read and the operator's function has not given is missing: else they would take
 * it for an input that is left out. */
static void outputs_check(struct onnx_import *import)
{
    for (int i = 0; i < import->node->output_count; i++) {
        int32_t output = import->node->output[i];

        if (output >= 0 && import->model->readers[output] > 0 &&
            import->values[output].kind == ONNX_ABSENT) {
            onnx_missing(import, "whose output %d is read", i);
            return;
        }
    }
}

static int node_import(struct onnx_import *import)
{
    const Onnx__Node *proto = import->node->proto;
    const struct onnx_operator_entry *entry = operator_find(import->node);
    bool done = false;
    int code;

    import->entry = entry;
    for (int i = 0; i < import->node->output_count; i++)
        if (import->node->output[i] >= 0)
            import->values[import->node->output[i]] = (struct onnx_value){.kind = ONNX_ABSENT};
    if (reads_unknown(import)) {
        for (int i = 0; i < import->node->output_count; i++)
            if (import->node->output[i] >= 0)
                import->values[import->node->output[i]].kind = ONNX_UNKNOWN;
        return entry || onnx_fold_knows(proto->op_type) ? 0 : onnx_missing(import, "%s", "");
    }
    if (!inputs_are_known(import, entry))
        return import->error.code;
    code = onnx_computed_prepare(import, &done);
    if (code == 0 && !done)
        code = node_append(import, entry);
    if (code == 0 && !import->error.code && !import->graph->error.code)
        outputs_check(import);
    return onnx_computed_finish(import) ? import->error.code : code;
}

/* What a refusal says of a file with a batch of its own, which may be its cause. */
struct batch_note {
    char text[128];
};
static struct batch_note batch_note(const struct onnx_import *import)
{
    struct batch_note note = {""};

    if (import->model->fixed_batch)
        snprintf(note.text, sizeof note.text,
                 "; the file has a fixed batch of %lld, which may be why: export it with an open "
                 "one",
                 (long long)import->model->fixed_batch);
    return note;
}

/* All that is missing, in one sentence. */
static int missing_report(const struct onnx_import *import, struct error *error)
{
    return error_set(error, -ERROR_UNSUPPORTED,
                     "the model has %d node%s that traind cannot train: %s%s%s",
                     import->missing_count, import->missing_count == 1 ? "" : "s",
                     import->missing ? import->missing : "",
                     import->missing_count > ONNX_LISTED_MAX ? ", …" : "", batch_note(import).text);
}

/* Gives each input its part of the samples, which are rows. */
static int inputs_divide(struct onnx_import *import, struct onnx_value samples)
{
    int64_t first = 0;

    import->node = &import->model->nodes[0]; /* to name what is cut out */
    for (int i = 0; i < import->model->input_count; i++) {
        const struct onnx_interface *interface = &import->model->interfaces[i];
        int64_t extent[GRAPH_RANK_MAX + 1] = {ONNX_BATCH};
        int64_t elements = onnx_interface_elements(interface);
        struct onnx_value part = samples;
        int code = onnx_cut_out(import, &part, 1, first, elements);

        memcpy(extent + 1, interface->sample_shape, (size_t)interface->rank * sizeof *extent);
        if (code || !onnx_atoms_reshape(&part.atoms, interface->rank + 1, extent))
            return onnx_fail(import, "the inputs cannot be cut out of the samples");
        part.rank = interface->rank + 1;
        memcpy(part.extent, extent, (size_t)part.rank * sizeof *extent);
        import->values[import->model->inputs[i]] = part;
        first += elements;
    }
    return 0;
}

/* The shape in which the model reads the samples. `squeezes`: whatever axes of extent 1 both have,
 * as data have matrices as images of one channel. False: it reads another shape. */
static bool sample_shape_fit(const struct onnx_interface *interface,
                             const struct graph_shape *samples, bool squeezes,
                             int64_t extent[GRAPH_RANK_MAX + 1])
{
    int at = 1;

    for (int r = 0; r < interface->rank; r++) {
        int64_t wanted = interface->sample_shape[r];

        extent[r + 1] = 1;
        if (squeezes && wanted == 1)
            continue;
        while (squeezes && at < samples->rank && samples->extent[at] == 1)
            at++;
        if (at == samples->rank || (wanted >= 0 && wanted != samples->extent[at]))
            return false;
        extent[r + 1] = samples->extent[at++];
    }
    while (squeezes && at < samples->rank && samples->extent[at] == 1)
        at++;
    return at == samples->rank;
}

/* The samples in the model's shape. */
static struct onnx_value samples_value(int32_t x, const struct graph_shape *samples, int rank,
                                       const int64_t *extent)
{
    int64_t own[GRAPH_RANK_MAX] = {ONNX_BATCH};
    struct onnx_value value;

    memcpy(own + 1, samples->extent + 1, (size_t)(samples->rank - 1) * sizeof *own);
    value = onnx_tensor_value(x, samples->rank, own);
    onnx_atoms_reshape(&value.atoms, rank, extent);
    value.rank = rank;
    memcpy(value.extent, extent, (size_t)rank * sizeof *extent);
    return value;
}

/* Gives the samples to the model's input, whose shape must be theirs. */
static int input_bind(struct onnx_import *import, int32_t x, struct error *error)
{
    const struct graph_tensor *samples = &import->graph->tensors[x];
    struct onnx_interface interface = onnx_interface(import->model);
    int64_t extent[GRAPH_RANK_MAX + 1] = {ONNX_BATCH};
    int rank = interface.rank ? interface.rank + 1 : samples->shape.rank;
    bool symbols = samples->type == TENSOR_INT32;
    struct onnx_value value;
    char text[128];

    memcpy(extent + 1, samples->shape.extent + 1,
           (size_t)(samples->shape.rank - 1) * sizeof *extent);
    if (symbols != interface.symbols)
        return error_set(error, -EINVAL, "the model reads %s, but the data has %s",
                         interface.symbols ? "indices (whole numbers)" : "numbers",
                         symbols ? "symbols" : "numbers");
    if (interface.rank && !sample_shape_fit(&interface, &samples->shape, false, extent) &&
        !sample_shape_fit(&interface, &samples->shape, true, extent)) {
        struct graph_shape wanted = {.rank = interface.rank};
        char model[128];

        memcpy(wanted.extent, interface.sample_shape, sizeof wanted.extent);
        return error_set(error, -EINVAL,
                         "the model reads samples of %s (-1: any), but those of the data with "
                         "the batch before them are %s; export the model for them, or set "
                         "data.train.shape or resize",
                         graph_shape_format(&wanted, model, sizeof model),
                         graph_shape_format(&samples->shape, text, sizeof text));
    }
    value = samples_value(x, &samples->shape, rank, extent);
    if (import->model->input_count > 1)
        return inputs_divide(import, value);
    value.type = symbols ? ONNX_INT64 : ONNX_FLOAT;
    import->values[import->model->inputs[0]] = value;
    return 0;
}

static int output_take(struct onnx_import *import, int32_t *result, struct error *error)
{
    int32_t outputs[ONNX_ENDS_MAX];
    int count = import->model->output_count;

    for (int i = 0; i < count; i++) {
        const char *name = import->model->names[import->model->outputs[i]];
        struct onnx_value value = import->values[import->model->outputs[i]];

        if (value.kind != ONNX_TENSOR || value.alone)
            return error_set(error, -EINVAL, "the model's output %s does not depend on the samples",
                             name);
        if (value.rank < 1 || value.extent[0] != ONNX_BATCH)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "the first axis of the model's output %s is not the batch", name);
        if (count > 1 && value.rank > 2)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "the model has %d outputs, and %s has %d axes: several outputs must "
                             "be rows [batch, numbers], which follow each other",
                             count, name, value.rank);
        if (onnx_resolve(import, &value))
            return 0;
        if (value.rank == 1) /* a number of each sample, as behind squeeze(-1) */
            value.extent[value.rank++] = 1;
        outputs[i] = onnx_shaped(import, &value, value.rank - 1, value.extent + 1);
        if (outputs[i] < 0)
            return import->missing_count ? missing_report(import, error) : 0;
    }
    *result = count == 1 ? outputs[0] : graph_concatenate(import->graph, outputs, count, "outputs");
    return import->missing_count ? missing_report(import, error) : 0;
}

/* Reads the constants that stand among the nodes: exporters write some behind the node that tells
 * what an operator is a part of. */
static int constants_import(struct onnx_import *import, struct error *error)
{
    for (int i = 0; i < import->model->node_count; i++) {
        import->node = &import->model->nodes[i];
        import->node_index = i;
        if (strcmp(import->node->proto->op_type, "Constant") != 0)
            continue;
        node_import(import);
        import->absorbed[i] = true;
        if (import->error.code)
            return error_set(error, import->error.code, "%s", import->error.text);
    }
    return 0;
}

static int nodes_import(struct onnx_import *import, struct error *error)
{
    for (int i = 0; i < import->model->node_count; i++) {
        import->node = &import->model->nodes[i];
        import->node_index = i;
        import->constants = 0;
        if (import->absorbed[i])
            continue;
        import->graph->bound_count = 0;
        node_import(import);
        if (import->error.code)
            return error_set(error, import->error.code, "%s%s", import->error.text,
                             batch_note(import).text);
        if (import->graph->error.code)
            return 0; /* the caller reports it */
    }
    return import->missing_count ? missing_report(import, error) : 0;
}

int onnx_build(struct onnx_model *model, bool keeps_weights, struct graph *graph, int32_t x,
               int32_t *result, struct error *error)
{
    struct onnx_import import = {.model = model, .graph = graph, .keeps_weights = keeps_weights};
    int code;

    *result = x;
    import.values = calloc((size_t)model->value_count + 1, sizeof *import.values);
    import.absorbed = calloc((size_t)model->node_count + 1, sizeof *import.absorbed);
    if (!import.values || !import.absorbed) {
        free(import.values);
        free(import.absorbed);
        return error_no_memory(error, "the model's values");
    }
    for (int i = 0; i < model->initializer_count; i++)
        import.values[model->initializers[i].value] = onnx_constant_of(&model->initializers[i]);
    code = input_bind(&import, x, error);
    if (code == 0)
        code = constants_import(&import, error);
    if (code == 0)
        code = nodes_import(&import, error);
    if (code == 0 && !graph->error.code)
        code = output_take(&import, result, error);
    if (code == 0 && !graph->error.code && onnx_rests_lend(&import) && import.error.code)
        code = error_set(error, import.error.code, "%s", import.error.text);
    onnx_blocks_release(&import);
    free(import.missing);
    free(import.absorbed);
    free(import.values);
    return code;
}
