/* triplet_loss.c: the triplet loss of embeddings and their classes, and its gradient. Each sample
 * of a batch is an anchor; those of its class are its positives, the others its negatives. A
 * triplet's loss is that of torch.nn.TripletMarginLoss, max(0, d(anchor, positive) - d(anchor,
 * negative) + margin) of Euclidean distances. Which triplets count:
 *
 *   hard       Each anchor has one: its farthest positive and its nearest negative. It is "batch
 *              hard" of Hermans, Beyer and Leibe 2017, arXiv:1703.07737, equation 5.
 *   all        Every triplet whose loss is not 0 counts ("batch all", their section 2).
 *   semi_hard  Each pair has one: the nearest negative that is farther than the positive. Where
 *              there is none, the farthest negative. Schroff, Kalenichenko and Philbin 2015,
 *              arXiv:1503.03832, section 3.2.
 *
 * The loss is the mean over those triplets, and 0 where there are none. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>
#include <math.h>

static const char *const triplet_mining_names[] = {
    [TRIPLETS_HARD] = "hard",
    [TRIPLETS_ALL] = "all",
    [TRIPLETS_SEMI_HARD] = "semi_hard",
};
DEFINE_STRING_TABLE(triplet_mining, enum triplet_mining, triplet_mining_names)

int32_t graph_triplet_loss(struct graph *graph, int32_t embeddings,
                           const struct triplet_loss_config *config)
{
    int32_t inputs[2] = {embeddings, -1}, result;
    const struct graph_shape row = {.rank = 1, .extent = {graph->batch}};
    const struct graph_shape saved = {.rank = 2,
                                      .extent = {graph->batch, triplet_row(graph->batch)}};
    struct graph_node *node;

    if (layer_prediction(graph, embeddings, OP_TRIPLET_LOSS, "numbers"))
        return graph->error.code;
    if (!(config->margin > 0) || !isfinite(config->margin))
        return graph_fail(graph, -EINVAL, "the loss triplet needs a margin above 0, not %g",
                          (double)config->margin);
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, TENSOR_INT32, &row, true, "target");
    inputs[1] = graph->target;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &saved, true,
                                 "loss.triplets");
    node = layer_append_node(graph, OP_TRIPLET_LOSS, "loss", inputs, 2, result);
    if (!node)
        return graph->error.code;
    node->attributes.triplet = *config;
    graph->output = embeddings;
    return result;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return triplet_mining_to_string(node->attributes.triplet.mining);
}

/* Difference, square and sum of each pair of samples; `all` and `semi_hard` compare each pair of
 * distances, at most one in four of which are triplets. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    const double batch = (double)graph->batch;
    const bool pairs = node->attributes.triplet.mining != TRIPLETS_HARD;

    return graph_tensor_elements(graph, node->input[0]) * batch * 3 +
           (pairs ? batch * batch * batch / 4 : batch * batch);
}

static double backward_flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * (double)graph->batch * 3;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {node->input[0], node->output[0]};

    (void)dy;
    differentiation_append(differentiation, node, OP_TRIPLET_LOSS_BACKWARD, inputs, 2, node->input,
                           1);
}

const struct graph_operator operator_triplet_loss = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .joins_samples = true,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

const struct graph_operator operator_triplet_loss_backward = {
    .cost_class = COST_LOSS,
    .flops = backward_flops,
    .variant = variant,
};
