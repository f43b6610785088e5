/* attention.c: launches attention and its gradient. With numbers of 16 bits there may be two ways,
 * which are measured at the layer's own shape: tiles of a head by different blocks, or a block for
 * each head of a sample (kernels/transformer.h). */
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/kernels/transformer.h"
#include "engine/backends/cuda/linear_search.h"
#include "engine/backends/cuda/transformer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *const attention_way_names[] = {
    [ATTENTION_FLOATS] = "floats", [ATTENTION_TILES] = "tiles", [ATTENTION_HEADS] = "heads"};
DEFINE_STRING_TABLE(attention_way, enum attention_way, attention_way_names)

static bool is_backward(const struct graph_node *node)
{
    return node->op == OP_ATTENTION_BACKWARD;
}

static int64_t head_width(const struct graph *graph, const struct graph_node *node)
{
    return graph->tensors[node->input[is_backward(node)]].shape.extent[2] / 3 /
           node->attributes.attention.heads;
}

bool attention_supports(const struct graph *graph, const struct graph_node *node, char *reason)
{
    if ((node->op != OP_ATTENTION && !is_backward(node)) ||
        head_width(graph, node) <= CUDA_ATTENTION_WIDTH_MAX)
        return true;
    snprintf(reason, 256, "the CUDA backend has no %s with heads of %lld numbers; at most %d",
             graph_op_to_string(node->op), (long long)head_width(graph, node),
             CUDA_ATTENTION_WIDTH_MAX);
    return false;
}

/* Inputs of the gradient: dy, qkv, y, log_sum_exp, lengths?. Before the program has memory, the
 * arrays have types alone. */
static struct cuda_attention describe(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool backward = is_backward(node);
    const int64_t *extent = program->graph->tensors[node->input[backward]].shape.extent;
    const int lengths = backward ? 4 : 1;
    struct cuda_attention attention = {.batch = extent[0],
                                       .steps = extent[1],
                                       .heads = node->attributes.attention.heads,
                                       .width = (int)head_width(program->graph, node),
                                       .causal = node->attributes.attention.causal,
                                       .qkv = program_array(program, node->input[backward])};

    if (lengths < node->input_count && node->input[lengths] >= 0)
        attention.lengths = (const int32_t *)program->address[node->input[lengths]];
    if (!backward) {
        attention.y = program_array(program, node->output[0]);
        if (node->output_count > 1)
            attention.log_sum_exp = program_floats(program, node->output[1]);
        return attention;
    }
    attention.y = program_array(program, node->input[2]);
    attention.log_sum_exp = program_floats(program, node->input[3]);
    attention.dy = program_array(program, node->input[0]);
    attention.dqkv = program_array(program, node->output[0]);
    attention.delta = (float *)program->workspace[index];
    return attention;
}

static cudaError_t launch(enum attention_way way, const struct cuda_attention *attention,
                          bool backward, cudaStream_t stream)
{
    switch (way) {
    case ATTENTION_HEADS:
        return cuda_attention_head(attention, backward, stream);
    case ATTENTION_TILES:
        return backward ? cuda_attention_tensor_backward(attention, stream)
                        : cuda_attention_tensor(attention, stream);
    default:
        return backward ? cuda_attention_backward(attention, stream)
                        : cuda_attention(attention, stream);
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

struct attention_trial {
    enum attention_way way;
    const struct cuda_attention *attention;
    bool backward;
    cudaStream_t stream;
};

static int launch_trial(void *context, struct error *error)
{
    const struct attention_trial *trial = context;
    cudaError_t status = launch(trial->way, trial->attention, trial->backward, trial->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, "attention");
}

enum { PLACE_QKV, PLACE_DQKV, PLACE_RESULTS, PLACE_SUMS, PLACES };

static bool take_memory(struct choices *choices, struct cuda_attention *of)
{
    const size_t rows = (size_t)(of->batch * of->steps), heads = (size_t)of->heads;
    const size_t y = rows * heads * (size_t)of->width * sizeof(uint16_t);
    const size_t bytes[PLACES] = {3 * y, 3 * y, 2 * y, 2 * rows * heads * sizeof(float)};
    char *at[PLACES];

    for (int i = 0; i < PLACES; i++) {
        at[i] = choices_memory(choices, i, bytes[i]);
        if (!at[i])
            return false;
    }
    of->qkv.at = at[PLACE_QKV];
    of->dqkv.at = at[PLACE_DQKV];
    of->y.at = at[PLACE_RESULTS];
    of->dy.at = at[PLACE_RESULTS] + y;
    of->log_sum_exp = (float *)(void *)at[PLACE_SUMS];
    of->delta = of->log_sum_exp + rows * heads;
    return true;
}

/* Measures tiles and heads, with the power of two of samples below the layer's own. */
static enum attention_way measure(struct backend_device *device,
                                  const struct cuda_attention *attention, bool backward)
{
    struct cuda_attention measured = *attention;
    struct attention_trial trials[] = {{ATTENTION_TILES, &measured, backward, device->stream},
                                       {ATTENTION_HEADS, &measured, backward, device->stream}};
    void *contexts[] = {&trials[0], &trials[1]};
    char key[CHOICES_KEY_MAX];
    const char *known;
    int best;

    measured.batch = 1;
    while (2 * measured.batch <= attention->batch)
        measured.batch *= 2;
    measured.lengths = NULL;
    snprintf(key, sizeof key, "attention,%s,%s,%s,%" PRId64 ",%" PRId64 ",%d,%d",
             backward ? "backward" : "forward", attention->causal ? "causal" : "all",
             tensor_type_to_string((enum tensor_type)attention->qkv.type), measured.batch,
             measured.steps, measured.heads, measured.width);
    known = choices_find(device->products, key);
    if (!known && take_memory(device->products, &measured)) {
        double microseconds[2];

        best = choices_fastest(device->products, launch_trial, contexts, 2, INFINITY, microseconds);
        choices_trim(device->products);
        if (best >= 0)
            known = choices_add(device->products, key, attention_way_to_string(trials[best].way));
    }
    return known && attention_way_from_string(known) == (int)ATTENTION_TILES ? ATTENTION_TILES
                                                                             : ATTENTION_HEADS;
}

int attention_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    struct backend_device *device = program->device;
    const struct cuda_attention attention = describe(program, index);
    const bool backward = is_backward(&program->graph->nodes[index]);
    int r = linear_search_open(device, error);

    if (r < 0)
        return r;
    program->attention_ways[index] =
        device->code_major < 8 || !cuda_attention_tensor_is_possible(&attention, backward)
            ? ATTENTION_FLOATS
        : cuda_attention_head_is_possible(&attention, backward)
            ? measure(device, &attention, backward)
            : ATTENTION_TILES;
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

int attention_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_attention attention = describe(program, index);
    cudaError_t status = launch((enum attention_way)program->attention_ways[index], &attention,
                                is_backward(node), program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
