/* recompute.c: graph_recompute(): computes results of the forward part that the backward part reads
 * again, instead of keeping them (Chen, Xu, Zhang and Guestrin 2016, "Training Deep Nets with
 * Sublinear Memory Cost", arXiv:1604.06174). Section 4.2 there has both choices offered here:
 * segments, and dropping what cheap operators compute.
 *
 * First, each result is kept or dropped. Then the backward nodes are appended anew. Before the
 * first one that reads a dropped result, the forward nodes that lead to it from kept results are
 * appended again. The memory plan follows from the shorter lifetimes. */
#include "base/cleanup.h"
#include "engine/graph/build.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const char *const recompute_kind_names[] = {
    [RECOMPUTE_NONE] = "none",
    [RECOMPUTE_SELECTIVE] = "selective",
    [RECOMPUTE_SEGMENTS] = "segments",
};
DEFINE_STRING_TABLE(recompute_kind, enum recompute_kind, recompute_kind_names)

struct recomputation {
    struct graph *graph;
    const struct graph_node *nodes; /* as they were before */
    int32_t forward_count, node_count;
    bool *read_backward; /* per tensor: whether a backward node reads it */
    bool *kept;          /* per tensor */
    int32_t *again;      /* per tensor: what replaces it in the backward part, or -1 */
    bool *wanted;        /* per forward node, while its segment is appended */
};

/* Whether the tensor is a result of the forward part that grows with the batch. Batch norm's
 * moments are small, so they are kept. */
static bool may_be_dropped(const struct recomputation *r, int32_t tensor)
{
    const struct graph_tensor *t = &r->graph->tensors[tensor];

    return t->producer >= 0 && t->producer < r->forward_count && t->batched &&
           tensor != r->graph->output;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void mark_read_backward(struct recomputation *r)
{
    for (int32_t i = r->forward_count; i < r->node_count; i++)
        for (int k = 0; k < r->nodes[i].input_count; k++)
            if (r->nodes[i].input[k] >= 0)
                r->read_backward[r->nodes[i].input[k]] = true;
}

/* Whether the node's results can be computed from results that the backward part has in any
 * case. */
static bool follows_from_kept(const struct recomputation *r, const struct graph_node *node,
                              const bool *follows)
{
    if (!graph_node_operator(node)->is_cheap)
        return false;
    for (int k = 0; k < node->input_count; k++) {
        int32_t x = node->input[k];

        if (x >= 0 && may_be_dropped(r, x) && !follows[x] && !(r->kept[x] && r->read_backward[x]))
            return false;
    }
    return true;
}

static int keep_selective(struct recomputation *r)
{
    AUTO_FREE bool *follows = calloc((size_t)r->graph->tensor_count + 1, sizeof *follows);

    if (!follows)
        return -ENOMEM;
    for (int32_t i = 0; i < r->forward_count; i++) {
        const struct graph_node *node = &r->nodes[i];

        if (!follows_from_kept(r, node, follows))
            continue;
        for (int k = 0; k < node->output_count; k++)
            if (may_be_dropped(r, node->output[k])) {
                follows[node->output[k]] = true;
                r->kept[node->output[k]] = false;
            }
    }
    return 0;
}

static double bytes_of(const struct graph *graph, int32_t tensor)
{
    const struct graph_tensor *t = &graph->tensors[tensor];

    return (double)graph_shape_elements(&t->shape) * tensor_type_bytes(t->type);
}

/* Finds the last forward node that reads each tensor; -1: none does. */
static void find_last_readers(const struct recomputation *r, int32_t *last_reader)
{
    for (int32_t i = 0; i < r->graph->tensor_count; i++)
        last_reader[i] = -1;
    for (int32_t i = 0; i < r->forward_count; i++)
        for (int k = 0; k < r->nodes[i].input_count; k++)
            if (r->nodes[i].input[k] >= 0)
                last_reader[r->nodes[i].input[k]] = i;
}

/* For a cut before each forward node: the bytes of kept results up to there (`stored`), and of
 * tensors that are needed on both sides (`crossing`). */
static void measure_cuts(const struct recomputation *r, const int32_t *last_reader, double *stored,
                         double *crossing)
{
    stored[0] = 0;
    for (int32_t i = 0; i < r->forward_count; i++) {
        stored[i + 1] = stored[i];
        for (int k = 0; k < r->nodes[i].output_count; k++) {
            int32_t y = r->nodes[i].output[k];

            if (r->read_backward[y] && may_be_dropped(r, y))
                stored[i + 1] += bytes_of(r->graph, y);
            for (int32_t cut = i + 1; cut <= last_reader[y]; cut++)
                crossing[cut] += bytes_of(r->graph, y);
        }
    }
}

/* Cuts the forward part near each multiple of total / segments, at the place with the least
 * crossing bytes. It does not cut before activations and similar nodes, because backends compute
 * these with the layer before them. `segment` receives the number of each node's segment. Returns
 * the number of the last one. */
static int32_t cut_segments(const struct recomputation *r, int segments, const double *stored,
                            const double *crossing, int32_t *segment)
{
    double length = stored[r->forward_count] / segments;
    int32_t number = 0, next = 1;

    for (int i = 1; i < segments; i++) {
        int32_t best = -1;

        for (int32_t cut = next; cut < r->forward_count; cut++) {
            double distance = fabs(stored[cut] - i * length);

            if (distance > length / 2 || graph_node_operator(&r->nodes[cut])->is_cheap)
                continue;
            if (best < 0 || crossing[cut] < crossing[best] ||
                (crossing[cut] == crossing[best] && distance < fabs(stored[best] - i * length)))
                best = cut;
        }
        if (best < 0)
            continue;
        for (; next <= best; next++)
            segment[next - 1] = number;
        number++;
    }
    for (; next <= r->forward_count; next++)
        segment[next - 1] = number;
    return number;
}

static int keep_between_segments(struct recomputation *r, int segments)
{
    size_t tensors = (size_t)r->graph->tensor_count + 1, nodes = (size_t)r->forward_count + 1;
    AUTO_FREE int32_t *last_reader = calloc(tensors, sizeof *last_reader);
    AUTO_FREE int32_t *segment = calloc(nodes, sizeof *segment);
    AUTO_FREE double *stored = calloc(nodes, sizeof *stored);
    AUTO_FREE double *crossing = calloc(nodes, sizeof *crossing);
    int32_t last;

    if (!last_reader || !segment || !stored || !crossing)
        return -ENOMEM;
    find_last_readers(r, last_reader);
    measure_cuts(r, last_reader, stored, crossing);
    last = cut_segments(r, segments, stored, crossing, segment);
    for (int32_t i = 0; i < r->forward_count; i++)
        for (int k = 0; k < r->nodes[i].output_count; k++) {
            int32_t y = r->nodes[i].output[k];

            r->kept[y] = !may_be_dropped(r, y) || segment[i] == last ||
                         graph_node_operator(&r->nodes[i])->is_loss ||
                         (last_reader[y] >= 0 && segment[last_reader[y]] > segment[i]);
        }
    return 0;
}

/* ---- the nodes again ------------------------------------------------------------------------- */

/* The tensor that a node of the backward part reads instead of `tensor`. */
static int32_t stand_in(const struct recomputation *r, int32_t tensor)
{
    return tensor >= 0 && r->again[tensor] >= 0 ? r->again[tensor] : tensor;
}

static struct graph_node *append_node(struct recomputation *r, const struct graph_node *like)
{
    struct graph_node *node = graph_append_node(r->graph, like->op, GRAPH_BACKWARD, like->name);

    if (node)
        node->attributes = like->attributes;
    return node;
}

/* How the node is repeated; NULL: as it is, such as a batch norm that found no moments because it
 * is frozen. */
static const struct operator_repetition *repetition_of(const struct graph_node *node)
{
    const struct operator_repetition *repetition = graph_node_operator(node)->repetition;

    return repetition && node->output_count > repetition->outputs ? repetition : NULL;
}

/* Appends the forward node again, for the backward part. */
static void append_again(struct recomputation *r, const struct graph_node *forward)
{
    struct graph *graph = r->graph;
    const struct operator_repetition *repetition = repetition_of(forward);
    int outputs = repetition ? 1 : forward->output_count;
    int inputs = repetition ? repetition->inputs : forward->input_count;
    int32_t made[GRAPH_OUTPUTS_MAX];
    struct graph_node *node;

    for (int k = 0; k < outputs; k++) {
        struct graph_tensor of = graph->tensors[forward->output[k]]; /* a copy: the array moves */

        made[k] = graph_append_tensor(graph, TENSOR_ACTIVATION, of.type, &of.shape, of.batched,
                                      "%s.again", of.name);
    }
    node = append_node(r, forward);
    if (!node)
        return;
    node->recomputed = true;
    for (int k = 0; k < inputs; k++)
        graph_node_input(node, stand_in(r, forward->input[k]));
    if (repetition) {
        node->op = repetition->op;
        for (int k = 1; k <= repetition->outputs; k++)
            graph_node_input(node, forward->output[k]);
    }
    for (int k = 0; k < outputs; k++) {
        graph_node_output(graph, node, made[k]);
        if (!r->kept[forward->output[k]])
            r->again[forward->output[k]] = made[k];
    }
}

/* Appends the nodes that compute `tensor` from results that exist, unless it exists itself. */
static void provide(struct recomputation *r, int32_t tensor)
{
    int32_t last;

    if (tensor < 0 || r->kept[tensor] || r->again[tensor] >= 0)
        return;
    last = r->graph->tensors[tensor].producer;
    for (int32_t i = 0; i <= last; i++)
        r->wanted[i] = i == last;
    for (int32_t i = last; i >= 0; i--)
        for (int k = 0; r->wanted[i] && k < r->nodes[i].input_count; k++) {
            int32_t x = r->nodes[i].input[k];

            if (x >= 0 && !r->kept[x] && r->again[x] < 0)
                r->wanted[r->graph->tensors[x].producer] = true;
        }
    for (int32_t i = 0; i <= last && !r->graph->error.code; i++)
        if (r->wanted[i])
            append_again(r, &r->nodes[i]);
}

static void append_backward(struct recomputation *r)
{
    struct graph *graph = r->graph;

    for (int32_t i = r->forward_count; i < r->node_count; i++) {
        const struct graph_node *old = &r->nodes[i];
        struct graph_node *node;

        for (int k = 0; k < old->input_count; k++)
            provide(r, old->input[k]);
        node = append_node(r, old);
        if (!node)
            return;
        node->adds = old->adds;
        for (int k = 0; k < old->input_count; k++)
            graph_node_input(node, stand_in(r, old->input[k]));
        for (int k = 0; k < old->output_count; k++) {
            if (!(old->adds >> k & 1))
                graph->tensors[old->output[k]].producer = -1;
            graph_node_output(graph, node, old->output[k]);
        }
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static int check_recomputable(struct graph *graph, const struct recompute_config *config)
{
    if (graph->error.code)
        return graph->error.code;
    if (config->kind == RECOMPUTE_SEGMENTS && config->segments < 1)
        return graph_fail(graph, -EINVAL, "the forward part cannot be cut into %d segments",
                          config->segments);
    if (!graph->node_count || graph->nodes[graph->node_count - 1].phase != GRAPH_BACKWARD ||
        graph->compute_type != TENSOR_FLOAT32)
        return graph_fail(graph, -EINVAL,
                          "recomputation is planned after the graph was differentiated, before its "
                          "precision is lowered and the optimizer is added");
    return 0;
}

static int recompute(struct recomputation *r, const struct recompute_config *config)
{
    size_t tensors = (size_t)r->graph->tensor_count + 1;
    int result;

    r->read_backward = calloc(tensors, sizeof *r->read_backward);
    r->kept = calloc(tensors, sizeof *r->kept);
    r->again = calloc(tensors, sizeof *r->again);
    r->wanted = calloc((size_t)r->forward_count + 1, sizeof *r->wanted);
    if (!r->read_backward || !r->kept || !r->again || !r->wanted)
        return -ENOMEM;
    for (int32_t i = 0; i < r->graph->tensor_count; i++) {
        r->kept[i] = true;
        r->again[i] = -1;
    }
    mark_read_backward(r);
    result = config->kind == RECOMPUTE_SELECTIVE ? keep_selective(r)
                                                 : keep_between_segments(r, config->segments);
    if (result)
        return result;
    r->graph->nodes = NULL;
    r->graph->node_count = r->graph->node_capacity = 0;
    for (int32_t i = 0; i < r->forward_count; i++) {
        struct graph_node *node = graph_append_node(r->graph, r->nodes[i].op, GRAPH_FORWARD, "");

        if (!node)
            return r->graph->error.code;
        *node = r->nodes[i];
    }
    append_backward(r);
    return r->graph->error.code;
}

int graph_recompute(struct graph *graph, const struct recompute_config *config, struct error *error)
{
    struct recomputation r = {.graph = graph, .nodes = graph->nodes};
    struct graph_node *nodes = graph->nodes;

    if (config->kind == RECOMPUTE_NONE)
        return 0;
    if (check_recomputable(graph, config))
        return error_set(error, graph->error.code, "%s", graph->error.text);
    r.node_count = graph->node_count;
    while (graph->nodes[r.forward_count].phase == GRAPH_FORWARD)
        r.forward_count++;
    if (recompute(&r, config) == -ENOMEM)
        graph_fail(graph, -ENOMEM, "no memory to plan recomputation");
    if (graph->nodes != nodes)
        free(nodes);
    free(r.read_backward);
    free(r.kept);
    free(r.again);
    free(r.wanted);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
