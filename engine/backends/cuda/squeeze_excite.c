/* squeeze_excite.c: see squeeze_excite.h. Small images spend most of the time of squeeze and excite
 * on launches, large ones on memory, and wide layers on weights that each image's block reads anew.
 * So both ways are measured at the block's own shape, as are blocks of several sizes. */
#include "engine/backends/cuda/squeeze_excite.h"

#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/kernels/squeeze_excite.h"
#include "engine/backends/cuda/linear_search.h"
#include "engine/graph/squeeze_excite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_LEAST = 64, THREADS_MOST = 1024, SIZES_MAX = 5 };

/* One for each node. */
struct squeeze_node {
    struct squeeze_excite_nodes nodes;
    int threads; /* of the launch at this node; 0: there is none */
    bool taken;  /* a launch computes the node */
};

static bool is_backward(const struct squeeze_excite_nodes *nodes)
{
    return nodes->sum >= 0;
}

static const struct graph_node *node_at(const struct backend_program *program, int32_t node)
{
    return &program->graph->nodes[node];
}

/* ---- what a launch is about ------------------------------------------------------------------ */

static struct cuda_squeeze_excite describe(const struct backend_program *program,
                                           const struct squeeze_excite_nodes *nodes, int threads)
{
    const struct graph_node *scale = node_at(program, nodes->scale);
    const struct graph_node *reduce = node_at(program, nodes->reduce);
    const struct graph_node *expand = node_at(program, nodes->expand);
    int32_t x = scale->input[is_backward(nodes) ? 1 : 0];
    const int64_t *extent = program->graph->tensors[x].shape.extent;
    const int64_t *weight = program->graph->tensors[reduce->input[1]].shape.extent;

    return (struct cuda_squeeze_excite){
        .images = extent[0],
        .pixels = extent[2] * extent[3],
        .channels = extent[1],
        .squeezed = weight[0],
        .reduce = program_array(program, reduce->input[1]),
        .expand = program_array(program, expand->input[1]),
        .activation = (int)node_at(program, nodes->activation)->attributes.activation,
        .gate = (int)node_at(program, nodes->gate)->attributes.activation,
        .threads = threads,
        .x = program_array(program, x)};
}

/* Whether the factors and the results of the nodes have the images' type, and both layers' weights
 * one that the kernels read. */
static bool types_fit(const struct backend_program *program,
                      const struct squeeze_excite_nodes *nodes)
{
    const struct cuda_squeeze_excite s = describe(program, nodes, THREADS_LEAST);
    int32_t factors = node_at(program, nodes->scale)->input[is_backward(nodes) ? 2 : 1];
    const int32_t members[] = {nodes->scale,  nodes->pool, nodes->reduce, nodes->activation,
                               nodes->expand, nodes->gate, nodes->sum};

    if (s.reduce.type != s.expand.type || program->stored[factors] != s.x.type ||
        (s.reduce.type != s.x.type && s.reduce.type != TENSOR_FLOAT32))
        return false;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct graph_node *node = members[i] < 0 ? NULL : node_at(program, members[i]);

        for (int k = 0; node && k < node->output_count; k++)
            if (node->output[k] >= 0 && program->stored[node->output[k]] != s.x.type)
                return false;
        /* what casts make of samples would have to be made, too */
        if (node && program->stored[node->input[0]] != s.x.type)
            return false;
    }
    return true;
}

static bool layers_fit(const struct backend_program *program,
                       const struct squeeze_excite_nodes *nodes)
{
    enum graph_op pass = is_backward(nodes) ? OP_LINEAR_BACKWARD_DATA : OP_LINEAR;

    return linear_pass(program->graph, node_at(program, nodes->reduce)) == pass &&
           linear_pass(program->graph, node_at(program, nodes->expand)) == pass;
}

static bool find(const struct backend_program *program, int32_t node,
                 struct squeeze_excite_nodes *nodes)
{
    const struct graph *graph = program->graph;

    return (graph_find_squeeze_excite(graph, node, nodes) ||
            graph_find_squeeze_excite_backward(graph, node, nodes)) &&
           program_is_channels_last(program, graph->nodes[node].input[0]) &&
           layers_fit(program, nodes) && types_fit(program, nodes);
}

/* ---- the search ------------------------------------------------------------------------------ */

/* A launch that is timed, or with 0 threads those around the layers that it saves. */
struct squeeze_trial {
    struct cuda_squeeze_excite s;
    bool backward;
    struct cuda_array dy, y, of_channels, of_squeezed; /* of_*: two of each, one after the other */
    cudaStream_t stream;
};

static struct cuda_array second_half(struct cuda_array array, int64_t elements)
{
    array.at =
        (char *)array.at + (size_t)elements * tensor_type_bytes((enum tensor_type)array.type);
    return array;
}

static cudaError_t launch_apart(const struct squeeze_trial *trial)
{
    const struct cuda_squeeze_excite *s = &trial->s;
    struct cuda_array factors = second_half(trial->of_channels, s->images * s->channels);
    const struct cuda_gate gate = {s->gate, factors};
    const struct cuda_pool pool = {.images = s->images,
                                   .channels = s->channels,
                                   .height = s->pixels,
                                   .width = 1,
                                   .out_height = 1,
                                   .out_width = 1,
                                   .kernel = {(int)s->pixels, 1},
                                   .stride = {1, 1}};
    cudaError_t status;

    if (trial->backward) {
        status = cuda_channel_scale_backward(trial->dy, s->x, factors, gate,
                                             (struct cuda_array){.at = NULL}, trial->of_channels,
                                             s->images, s->pixels, s->channels, trial->stream);
        return status != cudaSuccess
                   ? status
                   : cuda_channel_scale_gradient(trial->dy, factors, trial->of_channels, trial->y,
                                                 s->images, s->pixels, s->channels, trial->stream);
    }
    status = cuda_average_pool(&pool, s->x, trial->of_channels, trial->stream);
    return status != cudaSuccess
               ? status
               : cuda_channel_scale(s->x, trial->of_channels, gate, trial->y, s->images, s->pixels,
                                    s->channels, trial->stream);
}

static cudaError_t launch_whole(const struct squeeze_trial *trial)
{
    const struct cuda_squeeze_excite *s = &trial->s;
    struct cuda_array factors = second_half(trial->of_channels, s->images * s->channels);
    struct cuda_array hidden = second_half(trial->of_squeezed, s->images * s->squeezed);

    if (trial->backward)
        return cuda_squeeze_excite_backward(
            s,
            &(struct cuda_squeeze_excite_gradient){.dy = trial->dy,
                                                   .factors = factors,
                                                   .gate_saved = factors,
                                                   .activation_saved = hidden,
                                                   .dexpanded = trial->of_channels,
                                                   .dreduced = trial->of_squeezed,
                                                   .dx = trial->y},
            trial->stream);
    return cuda_squeeze_excite(
        s, NULL, NULL,
        &(struct cuda_squeeze_excite_results){
            .averages = trial->of_channels, .hidden = hidden, .factors = factors, .y = trial->y},
        trial->stream);
}

static int launch_trial(void *context, struct error *error)
{
    const struct squeeze_trial *trial = context;
    cudaError_t status = trial->s.threads ? launch_whole(trial) : launch_apart(trial);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, "squeeze and excite");
}

/* Gives the operands memory. */
static bool take_memory(struct choices *choices, struct squeeze_trial *trial)
{
    struct cuda_squeeze_excite *s = &trial->s;
    const int64_t image = s->images * s->pixels * s->channels;
    const int64_t elements[] = {image,
                                image,
                                image,
                                2 * s->images * s->channels,
                                2 * s->images * s->squeezed,
                                s->squeezed * s->channels};
    struct cuda_array arrays[sizeof elements / sizeof *elements];

    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        arrays[i] = s->x;
        arrays[i].at = choices_memory(choices, (int)i, (size_t)elements[i] * sizeof(float));
        if (!arrays[i].at)
            return false;
    }
    s->x = arrays[0];
    trial->dy = arrays[1];
    trial->y = arrays[2];
    trial->of_channels = arrays[3];
    trial->of_squeezed = arrays[4];
    s->reduce.at = s->expand.at = arrays[5].at;
    return true;
}

/* The microseconds of both linear layers, or of their gradients by the samples. */
static double time_of_layers(struct backend_program *program,
                             const struct squeeze_excite_nodes *nodes, struct error *error)
{
    const int32_t layers[] = {nodes->reduce, nodes->expand};
    double sum = 0;

    for (int i = 0; i < 2; i++) {
        const struct linear_problem problem = linear_describe(program, layers[i]);
        struct linear_choice choice;

        if (linear_search(program->device, &problem, &choice, error) < 0)
            return INFINITY;
        sum += choice.microseconds;
    }
    return sum;
}

/* Measures with how many threads one launch is the fastest; 0: the single nodes are faster. */
static int measure(struct backend_program *program, const struct squeeze_excite_nodes *nodes,
                   const struct cuda_squeeze_excite *measured, struct error *error)
{
    struct choices *choices = program->device->products;
    double layers = time_of_layers(program, nodes, error), microseconds[SIZES_MAX], limit;
    struct squeeze_trial trials[SIZES_MAX],
        any = {.s = *measured, .backward = is_backward(nodes), .stream = program->device->stream};
    void *contexts[SIZES_MAX];
    int count = 0, best = -1;

    if (!take_memory(choices, &any))
        return 0;
    trials[0] = any;
    trials[0].s.threads = 0;
    contexts[0] = &trials[0];
    if (choices_fastest(choices, launch_trial, contexts, 1, INFINITY, microseconds) == 0) {
        limit = layers + microseconds[0];
        for (int threads = THREADS_LEAST; threads <= THREADS_MOST; threads *= 2) {
            trials[count] = any;
            trials[count].s.threads = threads;
            contexts[count] = &trials[count];
            if (cuda_squeeze_excite_fits(&trials[count].s))
                count++;
        }
        if (count)
            best = choices_fastest(choices, launch_trial, contexts, count, limit, microseconds);
    }
    choices_trim(choices);
    return best < 0 ? 0 : trials[best].s.threads;
}

/* Finds the number of threads for the power of two of images below the layer's own. */
static int search(struct backend_program *program, const struct squeeze_excite_nodes *nodes,
                  int *threads, struct error *error)
{
    struct cuda_squeeze_excite measured = describe(program, nodes, 0);
    char key[CHOICES_KEY_MAX], text[16];
    const char *known;
    int64_t most = 1;
    int r = linear_search_open(program->device, error);

    if (r < 0)
        return r;
    while (2 * most <= measured.images)
        most *= 2;
    measured.images = most;
    snprintf(key, sizeof key, "squeeze,%s,%s,%s,%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
             is_backward(nodes) ? "backward" : "forward",
             tensor_type_to_string((enum tensor_type)measured.x.type),
             tensor_type_to_string((enum tensor_type)measured.reduce.type), measured.activation,
             measured.gate, measured.images, measured.pixels, measured.channels, measured.squeezed);
    known = choices_find(program->device->products, key);
    if (!known) {
        snprintf(text, sizeof text, "%d", measure(program, nodes, &measured, error));
        known = choices_add(program->device->products, key, text);
    }
    *threads = known ? atoi(known) : 0;
    return 0;
}

/* ---- what that changes ----------------------------------------------------------------------- */

int squeeze_choose(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int r = 0;

    program->squeezes = calloc((size_t)graph->node_count + 1, sizeof *program->squeezes);
    if (!program->squeezes)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        struct squeeze_node *squeeze = &program->squeezes[i];
        const struct squeeze_excite_nodes *n = &squeeze->nodes;
        struct cuda_squeeze_excite s;

        if (!find(program, i, &squeeze->nodes))
            continue;
        r = search(program, n, &squeeze->threads, error);
        s = describe(program, n, squeeze->threads);
        if (r < 0 || !squeeze->threads || !cuda_squeeze_excite_fits(&s)) {
            squeeze->threads = 0;
            continue;
        }
        program->squeezes[n->scale].taken = program->squeezes[n->pool].taken =
            program->squeezes[n->reduce].taken = program->squeezes[n->activation].taken =
                program->squeezes[n->expand].taken = program->squeezes[n->gate].taken = true;
        if (is_backward(n))
            program->squeezes[n->sum].taken = true;
    }
    return r;
}

bool squeeze_computes(const struct backend_program *program, int32_t node)
{
    return program->squeezes[node].taken;
}

static void absorb(struct backend_program *program, int32_t node, int32_t by)
{
    program->operators[node] = cuda_nothing;
    program->node_step[node] = by;
}

/* Gives up the storage of a tensor that no other node reads. */
static void store_if_read(struct backend_program *program, const struct squeeze_excite_nodes *nodes,
                          int32_t tensor)
{
    if (!squeeze_excite_is_read(program->graph, nodes, tensor))
        program->tensor_bytes[tensor] = 0;
}

static void apply(struct backend_program *program, const struct squeeze_excite_nodes *nodes)
{
    const int32_t others[] = {nodes->pool, nodes->reduce, nodes->activation, nodes->expand,
                              nodes->gate};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        absorb(program, others[i], nodes->scale);
        store_if_read(program, nodes, node_at(program, others[i])->output[0]);
    }
    program->operators[nodes->scale] = is_backward(nodes) ? squeeze_backward_run : squeeze_run;
    if (!is_backward(nodes))
        return;
    absorb(program, nodes->sum, nodes->scale);
    program->tensor_bytes[node_at(program, nodes->scale)->output[0]] = 0;
    program->tensor_bytes[node_at(program, nodes->scale)->output[1]] = 0;
    program->image_fusions[nodes->sum].scaled = program->image_fusions[nodes->sum].pooled = -1;
}

void squeeze_apply(struct backend_program *program)
{
    for (int32_t i = 0; i < program->graph->node_count; i++)
        if (program->squeezes[i].threads)
            apply(program, &program->squeezes[i].nodes);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* The node's result, or an array without address if it is not stored. */
static struct cuda_array result_of(const struct backend_program *program, int32_t node)
{
    int32_t result = node_at(program, node)->output[0];

    return program_array(program, program->tensor_bytes[result] ? result : -1);
}

static const float *bias_of(const struct backend_program *program, int32_t layer)
{
    const struct graph_node *node = node_at(program, layer);

    return node->input_count > 2 ? program_floats(program, node->input[2]) : NULL;
}

int squeeze_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct squeeze_excite_nodes *nodes = &program->squeezes[index].nodes;
    const struct cuda_squeeze_excite s = describe(program, nodes, program->squeezes[index].threads);
    const struct cuda_squeeze_excite_results results = {
        .averages = result_of(program, nodes->pool),
        .reduced = result_of(program, nodes->reduce),
        .hidden = result_of(program, nodes->activation),
        .expanded = result_of(program, nodes->expand),
        .factors = result_of(program, nodes->gate),
        .y = result_of(program, nodes->scale)};
    cudaError_t status =
        cuda_squeeze_excite(&s, bias_of(program, nodes->reduce), bias_of(program, nodes->expand),
                            &results, program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node_at(program, index)->name);
}

int squeeze_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct squeeze_excite_nodes *nodes = &program->squeezes[index].nodes;
    const struct cuda_squeeze_excite s = describe(program, nodes, program->squeezes[index].threads);
    const struct graph_node *scale = node_at(program, index);
    const struct cuda_squeeze_excite_gradient gradient = {
        .dy = program_array(program, scale->input[0]),
        .factors = program_array(program, scale->input[2]),
        .gate_saved = program_array(program, node_at(program, nodes->gate)->input[1]),
        .activation_saved = program_array(program, node_at(program, nodes->activation)->input[1]),
        .dexpanded = result_of(program, nodes->gate),
        .dreduced = result_of(program, nodes->activation),
        .dx = program_array(program, node_at(program, nodes->sum)->output[0])};
    cudaError_t status = cuda_squeeze_excite_backward(&s, &gradient, program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, scale->name);
}
