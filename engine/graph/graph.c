/* graph.c: the storage of a graph: tensors, nodes, shapes, names, the sticky error, the checks at
 * the end of building, and the first values of parameters. See graph.h. */
#include "base/philox.h"
#include "engine/graph/build.h"
#include "engine/graph/forward.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(upper, lower) [OP_##upper] = #lower,
static const char *const graph_op_names[] = {GRAPH_OPERATORS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(graph_op, enum graph_op, graph_op_names)

static const char *const graph_phase_names[] = {
    [GRAPH_FORWARD] = "forward",
    [GRAPH_BACKWARD] = "backward",
    [GRAPH_UPDATE] = "update",
};
DEFINE_STRING_TABLE(graph_phase, enum graph_phase, graph_phase_names)

static const char *const tensor_type_names[] = {
    [TENSOR_FLOAT32] = "float32", [TENSOR_BFLOAT16] = "bfloat16", [TENSOR_FLOAT16] = "float16",
    [TENSOR_TF32] = "tf32",       [TENSOR_INT32] = "int32",       [TENSOR_UINT8] = "uint8",
    [TENSOR_INT8] = "int8",
};
DEFINE_STRING_TABLE(tensor_type, enum tensor_type, tensor_type_names)

static const char *const tensor_role_names[] = {
    [TENSOR_INPUT] = "input",         [TENSOR_PARAMETER] = "parameter",
    [TENSOR_STATISTIC] = "statistic", [TENSOR_GRADIENT] = "gradient",
    [TENSOR_OPTIMIZER] = "optimizer", [TENSOR_AVERAGE] = "average",
    [TENSOR_STATE] = "state",         [TENSOR_ACTIVATION] = "activation",
};
DEFINE_STRING_TABLE(tensor_role, enum tensor_role, tensor_role_names)

void graph_init(struct graph *graph, int64_t batch, bool training)
{
    *graph = (struct graph){.batch = batch,
                            .streams = batch,
                            .training = training,
                            .input = -1,
                            .lengths = -1,
                            .target = -1,
                            .output = -1,
                            .input_gradient = -1};
    if (batch < 1)
        graph_fail(graph, -EINVAL, "the batch size is %lld, it must be at least 1",
                   (long long)batch);
}

void graph_release(struct graph *graph)
{
    free(graph->tensors);
    free(graph->nodes);
    free(graph->groups);
    *graph = (struct graph){
        .input = -1, .lengths = -1, .target = -1, .output = -1, .input_gradient = -1};
}

int graph_fail(struct graph *graph, int code, const char *format, ...)
{
    va_list arguments;

    if (graph->error.code)
        return graph->error.code;
    graph->error.code = code;
    va_start(arguments, format);
    vsnprintf(graph->error.text, sizeof graph->error.text, format, arguments);
    va_end(arguments);
    return code;
}

unsigned tensor_type_bytes(enum tensor_type type)
{
    switch (type) {
    case TENSOR_FLOAT32:
    case TENSOR_TF32:
    case TENSOR_INT32:
        return 4;
    case TENSOR_BFLOAT16:
    case TENSOR_FLOAT16:
        return 2;
    case TENSOR_UINT8:
    case TENSOR_INT8:
        return 1;
    }
    return 0;
}

int64_t graph_shape_elements(const struct graph_shape *shape)
{
    int64_t elements = 1;

    for (int i = 0; i < shape->rank; i++)
        elements *= shape->extent[i];
    return elements;
}

bool graph_tensor_is_constant(const struct graph_tensor *tensor)
{
    const struct initial_values *values = tensor->initializer.values;

    return tensor->role == TENSOR_STATISTIC && tensor->type == TENSOR_FLOAT32 && values &&
           values->computed && values->fixed;
}

struct graph_shape graph_shape_in_files(const struct graph_tensor *tensor)
{
    struct graph_shape shape = tensor->shape;

    if (!tensor->dropped_axis)
        return shape;
    shape.rank--;
    for (int i = tensor->dropped_axis; i < shape.rank; i++)
        shape.extent[i] = shape.extent[i + 1];
    return shape;
}

bool graph_shape_equal(const struct graph_shape *a, const struct graph_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->extent, b->extent, (size_t)a->rank * sizeof a->extent[0]) == 0;
}

char *graph_shape_format(const struct graph_shape *shape, char *output, unsigned size)
{
    unsigned length = 0;

    if (size)
        output[0] = '\0';
    for (int i = 0; i < shape->rank && length < size; i++)
        length += (unsigned)snprintf(output + length, size - length, "%s%lld", i ? "x" : "",
                                     (long long)shape->extent[i]);
    return output;
}

/* Makes room for one more element; the capacity doubles. */
static int array_grow(struct graph *graph, void **array, int32_t count, int32_t *capacity,
                      size_t element_bytes)
{
    int32_t wanted = *capacity ? *capacity * 2 : 32;
    void *grown;

    if (count < *capacity)
        return 0;
    grown = realloc(*array, (size_t)wanted * element_bytes);
    if (!grown)
        return graph_fail(graph, -ENOMEM, "no memory for a graph of %d elements", wanted);
    *array = grown;
    *capacity = wanted;
    return 0;
}

/* Whether every extent is at least 1 and the bytes are within half of the address space, so that
 * later arithmetic on sizes cannot overflow. */
static bool shape_is_sane(const struct graph_shape *shape)
{
    int64_t elements = 1;

    for (int i = 0; i < shape->rank; i++)
        if (shape->extent[i] < 1 || __builtin_mul_overflow(elements, shape->extent[i], &elements))
            return false;
    return elements <= INT64_MAX / 64;
}

int32_t graph_append_tensor(struct graph *graph, enum tensor_role role, enum tensor_type type,
                            const struct graph_shape *shape, bool batched, const char *format, ...)
{
    struct graph_tensor *tensor;
    char text[GRAPH_RANK_MAX * 21];
    va_list arguments;
    int length;

    if (graph->error.code)
        return graph->error.code;
    if (array_grow(graph, (void **)&graph->tensors, graph->tensor_count, &graph->tensor_capacity,
                   sizeof *graph->tensors))
        return graph->error.code;
    tensor = &graph->tensors[graph->tensor_count];
    *tensor = (struct graph_tensor){.type = type,
                                    .role = role,
                                    .shape = *shape,
                                    .batched = batched,
                                    .parameter = -1,
                                    .producer = -1};
    va_start(arguments, format);
    length = vsnprintf(tensor->name, sizeof tensor->name, format, arguments);
    va_end(arguments);
    if (length >= GRAPH_NAME_MAX && role != TENSOR_ACTIVATION)
        return graph_fail(graph, -ENAMETOOLONG,
                          "the name of a parameter '%s…' exceeds %d letters: give it a shorter one",
                          tensor->name, GRAPH_NAME_MAX - 1);
    if (!shape_is_sane(shape))
        return graph_fail(graph, -EINVAL, "the tensor '%s' would have the impossible shape %s",
                          tensor->name, graph_shape_format(shape, text, sizeof text));
    tensor->frozen = role == TENSOR_PARAMETER &&
                     graph_name_matches_any(graph->frozen, graph->frozen_count, tensor->name);
    return graph->tensor_count++;
}

struct graph_node *graph_append_node(struct graph *graph, enum graph_op op, enum graph_phase phase,
                                     const char *name)
{
    struct graph_node *node;

    if (graph->error.code || array_grow(graph, (void **)&graph->nodes, graph->node_count,
                                        &graph->node_capacity, sizeof *graph->nodes))
        return NULL;
    node = &graph->nodes[graph->node_count++];
    *node = (struct graph_node){.op = op, .phase = phase};
    snprintf(node->name, sizeof node->name, "%s", name);
    return node;
}

void graph_node_input(struct graph_node *node, int32_t tensor)
{
    node->input[node->input_count++] = tensor;
}

void graph_node_output(struct graph *graph, struct graph_node *node, int32_t tensor)
{
    node->output[node->output_count++] = tensor;
    if (graph->tensors[tensor].producer < 0)
        graph->tensors[tensor].producer = (int32_t)(node - graph->nodes);
}

int32_t graph_input(struct graph *graph, enum tensor_type type, const int64_t *sample_shape,
                    int rank)
{
    struct graph_shape shape = {.rank = rank + 1, .extent = {graph->batch}};

    if (rank < 0 || rank >= GRAPH_RANK_MAX)
        return graph_fail(graph, -EINVAL, "a sample has %d dimensions, at most %d are possible",
                          rank, GRAPH_RANK_MAX - 1);
    if (graph->input >= 0)
        return graph_fail(graph, -EINVAL, "the graph has an input already");
    for (int i = 0; i < rank; i++)
        shape.extent[i + 1] = sample_shape[i];
    graph->input = graph_append_tensor(graph, TENSOR_INPUT, type, &shape, true, "input");
    graph->output = graph->input;
    return graph->input;
}

int32_t graph_given_parameter(struct graph *graph, const char *name, bool statistic,
                              const struct graph_shape *shape, struct initializer initializer)
{
    int32_t id = graph_append_tensor(graph, statistic ? TENSOR_STATISTIC : TENSOR_PARAMETER,
                                     TENSOR_FLOAT32, shape, false, "%s", name);

    if (id >= 0)
        graph->tensors[id].initializer = initializer;
    return id;
}

void graph_bind_parameter(struct graph *graph, const char *suffix, int32_t tensor)
{
    if (tensor < 0 || graph->bound_count == GRAPH_BOUND_MAX) {
        graph_fail(graph, -EINVAL, "the next layer cannot take tensor %d as its %s", tensor,
                   suffix);
        return;
    }
    graph->bound[graph->bound_count].suffix = suffix;
    graph->bound[graph->bound_count++].tensor = tensor;
}

int32_t graph_lengths(struct graph *graph)
{
    const struct graph_shape shape = {.rank = 1, .extent = {graph->batch}};

    if (graph->lengths >= 0)
        return graph_fail(graph, -EINVAL, "the graph has lengths already");
    graph->lengths =
        graph_append_tensor(graph, TENSOR_INPUT, TENSOR_INT32, &shape, true, "lengths");
    return graph->lengths;
}

int graph_set_initializer(struct graph *graph, int32_t parameter, struct initializer initializer)
{
    if (graph->error.code)
        return graph->error.code;
    if (parameter < 0 || parameter >= graph->tensor_count ||
        graph->tensors[parameter].role != TENSOR_PARAMETER)
        return graph_fail(graph, -EINVAL, "the graph has no parameter %d", parameter);
    graph->tensors[parameter].initializer = initializer;
    return 0;
}

int32_t graph_gradient_of(const struct graph *graph, int32_t parameter)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_GRADIENT && graph->tensors[i].parameter == parameter)
            return i;
    return -1;
}

int32_t graph_find_tensor(const struct graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (strcmp(graph->tensors[i].name, name) == 0)
            return i;
    return -1;
}

bool graph_tensor_is_persistent(const struct graph *graph, int32_t tensor)
{
    switch (graph->tensors[tensor].role) {
    case TENSOR_PARAMETER:
    case TENSOR_STATISTIC:
    case TENSOR_OPTIMIZER:
    case TENSOR_AVERAGE:
    case TENSOR_STATE:
        return true;
    case TENSOR_GRADIENT:
        return graph->accumulate;
    case TENSOR_INPUT:
    case TENSOR_ACTIVATION:
        break;
    }
    return false;
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the names of persistent tensors differ, and those of gradients, which may become
 * persistent: plans and checkpoints find them by name. */
static int graph_check_names(struct graph *graph)
{
    const char **names = malloc(((size_t)graph->tensor_count + 1) * sizeof *names);
    size_t count = 0;

    if (!names)
        return graph_fail(graph, -ENOMEM, "no memory to check the graph's names");
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role != TENSOR_ACTIVATION)
            names[count++] = graph->tensors[i].name;
    qsort(names, count, sizeof *names, names_compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            graph_fail(graph, -EINVAL, "two tensors are named '%s'", names[i]);
    free(names);
    return graph->error.code;
}

/* Whether `tensor` holds a value when node `index` runs. */
static bool tensor_is_ready(const struct graph *graph, int32_t tensor, int32_t index)
{
    const struct graph_tensor *t = &graph->tensors[tensor];

    return t->producer < 0 ? t->role != TENSOR_ACTIVATION && t->role != TENSOR_GRADIENT
                           : t->producer < index;
}

static int graph_check_node(struct graph *graph, int32_t index)
{
    const struct graph_node *node = &graph->nodes[index];

    if (index && node->phase < graph->nodes[index - 1].phase)
        return graph_fail(graph, -EINVAL, "node %d of layer %s (%s) is out of its phase", index,
                          node->name, graph_op_to_string(node->op));
    for (int i = 0; i < node->input_count; i++)
        if (node->input[i] >= graph->tensor_count ||
            (node->input[i] >= 0 && !tensor_is_ready(graph, node->input[i], index)))
            return graph_fail(graph, -EINVAL, "input %d of layer %s (%s) is used before it is made",
                              i, node->name, graph_op_to_string(node->op));
    for (int i = 0; i < node->output_count; i++)
        if (node->output[i] < 0 || node->output[i] >= graph->tensor_count ||
            (node->adds >> i & 1 ? !tensor_is_ready(graph, node->output[i], index)
                                 : graph->tensors[node->output[i]].producer != index))
            return graph_fail(graph, -EINVAL, "output %d of layer %s (%s) has two producers", i,
                              node->name, graph_op_to_string(node->op));
    return 0;
}

int graph_finish(struct graph *graph, struct error *error)
{
    if (!graph->error.code && graph->input < 0)
        graph_fail(graph, -EINVAL, "the graph has no input");
    if (!graph->error.code)
        graph_check_names(graph);
    for (int32_t i = 0; i < graph->node_count && !graph->error.code; i++)
        graph_check_node(graph, i);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}

/* Makes two draws of the standard normal distribution from two uniform words: Box and Muller
 * 1958. */
static void draw_normal(uint32_t first, uint32_t second, float normal[2])
{
    double radius = sqrt(-2.0 * log(1.0 - (double)philox_uniform(first)));
    double angle = 2.0 * M_PI * (double)philox_uniform(second);

    normal[0] = (float)(radius * cos(angle));
    normal[1] = (float)(radius * sin(angle));
}

void graph_initial_values(const struct graph *graph, int32_t tensor, uint64_t seed, float *values)
{
    graph_initial_part(graph, tensor, seed, 0, graph_shape_elements(&graph->tensors[tensor].shape),
                       values);
}

/* What torch's Mamba begins its steps with: the inverse of softplus of 0.001 to 0.1. */
static float step_logit(float uniform)
{
    double step = exp(log(0.001) + (double)uniform * log(100.0));

    return (float)(step + log(-expm1(-step)));
}

/* Four values from element `first` on. */
static void initial_values(const struct graph_tensor *t, int64_t first, const struct philox *draw,
                           float value[4])
{
    const struct initializer *initializer = &t->initializer;
    int64_t columns = t->shape.rank ? t->shape.extent[t->shape.rank - 1] : 1;

    if (initializer->kind == INITIALIZER_NORMAL) {
        draw_normal(draw->word[0], draw->word[1], value);
        draw_normal(draw->word[2], draw->word[3], value + 2);
    }
    for (int k = 0; k < 4; k++)
        switch (initializer->kind) {
        case INITIALIZER_ZEROS:
            value[k] = 0.0f;
            break;
        case INITIALIZER_ONES:
            value[k] = 1.0f;
            break;
        case INITIALIZER_CONSTANT:
            value[k] = initializer->bound;
            break;
        case INITIALIZER_UNIFORM:
            value[k] = (2.0f * philox_uniform(draw->word[k]) - 1.0f) * initializer->bound;
            break;
        case INITIALIZER_NORMAL:
            value[k] *= initializer->bound;
            break;
        case INITIALIZER_LOG_COUNT:
            value[k] = (float)log((double)((first + k) % columns + 1));
            break;
        case INITIALIZER_STEP_LOGITS:
            value[k] = step_logit(philox_uniform(draw->word[k]));
            break;
        case INITIALIZER_GIVEN:
        case INITIALIZER_BY_LAYER:
            break; /* graph_initial_part() reads them */
        }
}

void graph_initial_part(const struct graph *graph, int32_t tensor, uint64_t seed, int64_t first,
                        int64_t end, float *values)
{
    const struct graph_tensor *t = &graph->tensors[tensor];
    uint32_t number = 0;

    if (t->initializer.kind == INITIALIZER_GIVEN || t->initializer.kind == INITIALIZER_BY_LAYER) {
        t->initializer.values->read(t->initializer.values, first, end, values + first);
        return;
    }
    for (int32_t i = 0; i < tensor; i++)
        number += graph->tensors[i].role == TENSOR_PARAMETER;
    for (int64_t i = first; i < end; i += 4) {
        struct philox draw =
            philox_draw(seed, philox_stream(PHILOX_INITIAL_WEIGHTS, number), (uint64_t)i / 4);
        float value[4];

        initial_values(t, i, &draw, value);
        memcpy(values + i, value, sizeof value[0] * (size_t)(end - i < 4 ? end - i : 4));
    }
}
