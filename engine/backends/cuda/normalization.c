/* normalization.c: batch norm, with the operations that fusion.c has fused with it. Where the
 * blocks of a cluster can hold all rows there are two ways, one launch or two, which are measured
 * at the layer's own shape. */
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/linear_search.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One launch of a cluster for each 64 channels; or two passes over the memory, a launch each. */
static const char way_cluster[] = "cluster", way_passes[] = "passes";

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

/* Describes what both directions have in common. */
static struct cuda_batch_norm describe_norm(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *shape = &program->graph->tensors[node->input[0]].shape;
    struct cuda_batch_norm norm = {.x = program_array(program, node->input[0]),
                                   .rows = shape->extent[0],
                                   .channels = shape->extent[1],
                                   .pixels = 1,
                                   .epsilon = node->attributes.batch_norm.epsilon,
                                   .momentum = node->attributes.batch_norm.momentum,
                                   .multiprocessors = program->device->multiprocessors,
                                   .overlaps = program->device->code_major >= 9,
                                   .whole = program->fusions[index].whole,
                                   .partial = (float *)program->scratch,
                                   .arrivals = program->control->arrivals,
                                   .activation = program->fusions[index].activation};
    int64_t *inner = program_is_channels_last(program, node->input[0]) ? &norm.rows : &norm.pixels;

    for (int i = 2; i < shape->rank; i++)
        *inner *= shape->extent[i];
    return norm;
}

bool norm_can_fuse(const struct backend_program *program, int32_t index)
{
    const struct cuda_batch_norm norm = describe_norm(program, index);

    return cuda_batch_norm_is_fast(&norm);
}

/* Describes the normalisation that the addend gets first. */
static void describe_second(const struct backend_program *program, int32_t index,
                            struct cuda_batch_norm *norm)
{
    const struct graph_node *node = &program->graph->nodes[index];

    norm->second.weight = program_floats(program, node->input[1]);
    norm->second.bias = program_floats(program, node->input[2]);
    norm->second.mean = program_floats(program, node->output[1]);
    norm->second.inverse_std = program_floats(program, node->output[2]);
}

/* ---- the search ------------------------------------------------------------------------------ */

struct norm_trial {
    struct cuda_batch_norm norm;
    const struct cuda_batch_norm_gradient *gradient; /* NULL: forward */
    cudaStream_t stream;
};

static int launch_trial(void *context, struct error *error)
{
    const struct norm_trial *trial = context;
    cudaError_t status =
        trial->gradient ? cuda_batch_norm_backward(&trial->norm, trial->gradient, trial->stream)
                        : cuda_batch_norm_train(&trial->norm, trial->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, "batch norm");
}

enum { PLACE_X, PLACE_RESULT, PLACE_OTHERS, PLACE_CHANNELS, PLACE_SUMS, PLACES };

/* Gives the operands memory. `arrays`: how many as large as x are read. */
static bool take_memory(struct choices *choices, struct cuda_batch_norm *norm,
                        struct cuda_batch_norm_gradient *gradient, bool backward, int arrays)
{
    const size_t numbers = (size_t)(norm->rows * norm->channels);
    const size_t x = numbers * tensor_type_bytes((enum tensor_type)norm->x.type);
    const size_t channels = (size_t)norm->channels;
    const size_t bytes[PLACES] = {x, 2 * x, 3 * x, 6 * channels * sizeof(float),
                                  cuda_batch_norm_scratch(norm)};
    char *at[PLACES];
    float *of_channel;

    for (int i = 0; i < PLACES; i++) {
        at[i] = choices_memory(choices, i, bytes[i]);
        if (!at[i])
            return false;
    }
    of_channel = (float *)(void *)at[PLACE_CHANNELS];
    norm->x.at = at[PLACE_X];
    norm->weight = of_channel;
    norm->bias = of_channel + channels;
    norm->mean = of_channel + 2 * channels;
    norm->inverse_std = of_channel + 3 * channels;
    norm->partial = (float *)(void *)at[PLACE_SUMS];
    norm->y = (struct cuda_array){at[PLACE_RESULT], norm->x.type};
    if (!backward && arrays > 1)
        norm->addend = (struct cuda_array){at[PLACE_OTHERS], norm->x.type};
    *gradient = (struct cuda_batch_norm_gradient){
        .dy = {at[PLACE_OTHERS], norm->x.type},
        .result = {arrays > 2 ? at[PLACE_OTHERS] + x : NULL, norm->x.type},
        .other = {arrays > 3 ? at[PLACE_OTHERS] + 2 * x : NULL, norm->x.type},
        .masked = {at[PLACE_RESULT] + x, norm->x.type},
        .dx = norm->y,
        .dweight = of_channel + 4 * channels,
        .dbias = of_channel + 5 * channels};
    return true;
}

/* Whether one launch is faster than two, with the power of two of images below the layer's own. */
static bool measure(struct backend_program *program, const struct cuda_batch_norm *norm,
                    int64_t images, bool backward, int arrays)
{
    struct choices *choices = program->device->products;
    struct cuda_batch_norm measured = *norm;
    struct cuda_batch_norm_gradient gradient;
    struct norm_trial trials[2];
    void *contexts[] = {&trials[0], &trials[1]};
    const char *ways[] = {way_passes, way_cluster}, *known;
    char key[CHOICES_KEY_MAX];
    int64_t most = 1;

    while (2 * most <= images)
        most *= 2;
    measured.rows = norm->rows / images * most;
    snprintf(key, sizeof key, "norm,%s,%s,%d,%d,%" PRId64 ",%" PRId64,
             backward ? "backward" : "forward",
             tensor_type_to_string((enum tensor_type)norm->x.type), arrays, norm->activation,
             measured.rows, measured.channels);
    known = choices_find(choices, key);
    if (!known && take_memory(choices, &measured, &gradient, backward, arrays)) {
        double microseconds[2];
        int best;

        for (int i = 0; i < 2; i++) {
            trials[i] =
                (struct norm_trial){measured, backward ? &gradient : NULL, program->device->stream};
            trials[i].norm.whole = ways[i] == way_cluster;
        }
        best = choices_fastest(choices, launch_trial, contexts, 2, INFINITY, microseconds);
        choices_trim(choices);
        if (best >= 0)
            known = choices_add(choices, key, ways[best]);
    }
    return known && strcmp(known, way_cluster) == 0;
}

int norm_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct norm_fusion *fusion = &program->fusions[index];
    const bool backward = node->op == OP_BATCH_NORM_BACKWARD;
    const struct cuda_batch_norm norm = describe_norm(program, index);
    const int arrays = backward ? (fusion->incoming[1] >= 0 ? 4
                                   : fusion->result >= 0    ? 3
                                                            : 2)
                                : (fusion->addend >= 0 ? 2 : 1);
    int r;

    if (!backward && (node->op != OP_BATCH_NORM || !node->attributes.batch_norm.training ||
                      fusion->moments_alone))
        return 0;
    if (!cuda_batch_norm_can_be_whole(&norm, arrays) ||
        program->stored[node->input[0]] != program->stored[node->output[0]] ||
        (backward && program->stored[node->input[0]] != program->stored[node->input[1]]))
        return 0;
    r = linear_search_open(program->device, error);
    if (r == 0)
        fusion->whole =
            measure(program, &norm, program->graph->tensors[node->input[0]].shape.extent[0],
                    backward, arrays);
    return r;
}

/* ---- run ------------------------------------------------------------------------------------- */

int norm_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_batch_norm norm = describe_norm(program, index);
    bool again = node->op == OP_BATCH_NORM_APPLY;
    bool train = !again && node->attributes.batch_norm.training;
    cudaStream_t stream = program->device->stream;

    norm.weight = program_floats(program, node->input[1]);
    norm.bias = program_floats(program, node->input[2]);
    norm.y = program_array(program, node->output[0]);
    norm.addend = program_array(program, program->fusions[index].addend);
    if (again) {
        norm.mean = program_floats(program, node->input[3]);
        norm.inverse_std = program_floats(program, node->input[4]);
    } else {
        norm.running_mean = program_floats(program, node->input[3]);
        norm.running_variance = program_floats(program, node->input[4]);
    }
    if (train) {
        norm.mean = program_floats(program, node->output[1]);
        norm.inverse_std = program_floats(program, node->output[2]);
    }
    if (program->fusions[index].second >= 0)
        describe_second(program, program->fusions[index].second, &norm);
    if (program->fusions[index].moments_alone)
        return checked(node, cuda_batch_norm_moments(&norm, stream), error);
    return checked(node,
                   train ? cuda_batch_norm_train(&norm, stream)
                         : cuda_batch_norm_apply(&norm, !again, stream),
                   error);
}

int norm_frozen_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_batch_norm norm = describe_norm(program, index);

    norm.weight = program_floats(program, node->input[1]);
    norm.running_variance = program_floats(program, node->input[2]);
    norm.y = program_array(program, node->output[0]);
    return checked(node, cuda_batch_norm_apply(&norm, true, program->device->stream), error);
}

int norm_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct norm_fusion *fusion = &program->fusions[index];
    struct cuda_batch_norm norm = describe_norm(program, index);
    struct cuda_batch_norm_gradient gradient = {
        .dy =
            program_array(program, fusion->incoming[0] < 0 ? node->input[1] : fusion->incoming[0]),
        .other = program_array(program, fusion->incoming[1]),
        .result = program_array(program, fusion->result),
        .masked = program_array(program, node->input[1]),
        .dx = program_array(program, node->output[0]),
        .dweight = program_floats(program, node->output[1]),
        .dbias = program_floats(program, node->output[2]),
        .accumulate = program->run.accumulate};

    norm.weight = program_floats(program, node->input[2]);
    norm.bias = program_floats(program, fusion->bias);
    norm.mean = program_floats(program, node->input[3]);
    norm.inverse_std = program_floats(program, node->input[4]);
    return checked(node, cuda_batch_norm_backward(&norm, &gradient, program->device->stream),
                   error);
}
