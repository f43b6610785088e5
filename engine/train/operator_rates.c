/* operator_rates.c: see operator_rates.h. */
#include "engine/train/operator_rates.h"

#include "base/cleanup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char operator_kind_beside[] = "beside";

void operator_rates_release(struct operator_rates *rates)
{
    free(rates->entries);
    *rates = (struct operator_rates){0};
}

/* ---- kinds ---- */

static void append(char kind[OPERATOR_KIND_MAX], const char *word)
{
    size_t length = strlen(kind);

    snprintf(kind + length, OPERATOR_KIND_MAX - length, " %s", word);
}

static const char *producer_name(const struct graph *graph, int32_t tensor)
{
    int32_t producer = tensor < 0 ? -1 : graph->tensors[tensor].producer;

    return producer < 0 ? "input" : graph_op_to_string(graph->nodes[producer].op);
}

static const char *reader_name(const struct graph *graph, int32_t tensor)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].input[k] == tensor)
                return graph_op_to_string(graph->nodes[i].op);
    return "output";
}

static bool is_convolution(enum graph_op op)
{
    return op == OP_CONV2D || op == OP_CONV2D_BACKWARD_DATA || op == OP_CONV2D_BACKWARD_WEIGHTS;
}

static void convolution_kind(const struct graph *graph, const struct graph_node *node,
                             char kind[OPERATOR_KIND_MAX])
{
    const struct conv_attributes *a = &node->attributes.conv;
    int32_t weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS ? node->output[0] : node->input[1];
    int32_t image = node->op == OP_CONV2D ? node->output[0] : node->input[0];
    const struct graph_shape *shape = &graph->tensors[image].shape;
    char text[32];

    if (a->groups > 1)
        append(kind, "depthwise");
    else if (shape->extent[2] * shape->extent[3] == 1)
        append(kind, "pixel");
    else if (graph->tensors[weights].shape.extent[1] < 8)
        append(kind, "stem");
    snprintf(text, sizeof text, "%dx%d/%d", a->kernel[0], a->kernel[1], a->stride[0]);
    append(kind, text);
}

void operator_kind(const struct graph *graph, const struct graph_node *node,
                   char kind[OPERATOR_KIND_MAX])
{
    snprintf(kind, OPERATOR_KIND_MAX, "%s", graph_op_to_string(node->op));
    switch (node->op) {
    case OP_CONV2D:
    case OP_CONV2D_BACKWARD_DATA:
    case OP_CONV2D_BACKWARD_WEIGHTS:
        convolution_kind(graph, node, kind);
        break;
    case OP_OPTIMIZER:
        append(kind, optimizer_kind_to_string(
                         graph->groups[node->attributes.optimizer_group].config.kind));
        break;
    case OP_BATCH_NORM:
        if (!node->attributes.batch_norm.training)
            append(kind, "inference");
        break;
    case OP_ACTIVATION:
    case OP_ACTIVATION_BACKWARD:
        append(kind, activation_kind_to_string(node->attributes.activation));
        break;
    default:
        break;
    }
    /* what the layer before, or the gradient behind, may do along with its own work */
    if (node->op == OP_ACTIVATION || node->op == OP_ADD || node->op == OP_RESHAPE)
        append(kind, producer_name(graph, node->input[0]));
    if (node->op == OP_ADD)
        append(kind, producer_name(graph, node->input[1]));
    if (node->op == OP_ACTIVATION_BACKWARD)
        append(kind, reader_name(graph, node->output[0]));
}

double operator_work(const struct graph *graph, const struct graph_node *node)
{
    struct cost cost = graph_node_cost(graph, node);
    bool product = is_convolution(node->op) || node->op == OP_LINEAR ||
                   node->op == OP_LINEAR_BACKWARD_DATA || node->op == OP_LINEAR_BACKWARD_WEIGHTS;

    if (node->op == OP_RESHAPE) /* counted as free, but it may have to copy */
        return 2.0 * sizeof(float) *
               (double)graph_shape_elements(&graph->tensors[node->input[0]].shape);
    return product ? cost.flops : cost.bytes;
}

/* ---- the table ---- */

static int scale_of(double work)
{
    return work > 0 ? ilogb(work) : 0;
}

static double work_of(const struct operator_rate *entry)
{
    return entry->work / entry->calls;
}

static int grow(struct operator_rates *rates, struct error *error)
{
    int capacity = rates->capacity ? 2 * rates->capacity : 64;
    struct operator_rate *grown =
        realloc(rates->entries, (size_t)capacity * sizeof *rates->entries);

    if (!grown)
        return error_set_errno(error, -ENOMEM, "cannot keep the rates of operators");
    rates->entries = grown;
    rates->capacity = capacity;
    return 0;
}

int operator_rates_add(struct operator_rates *rates, const struct operator_rate *entry,
                       struct error *error)
{
    int r;

    if (!(entry->calls > 0))
        return 0;
    for (int i = 0; i < rates->count; i++) {
        struct operator_rate *there = &rates->entries[i];

        if (there->compute_type != entry->compute_type ||
            scale_of(work_of(there)) != scale_of(work_of(entry)) ||
            strcmp(there->kind, entry->kind) != 0)
            continue;
        there->calls += entry->calls;
        there->work += entry->work;
        there->seconds += entry->seconds;
        return 0;
    }
    if (rates->count == rates->capacity && (r = grow(rates, error)) < 0)
        return r;
    rates->entries[rates->count++] = *entry;
    return 0;
}

/* Cuts the last word off; false when there is but one. */
static bool shorten(char kind[OPERATOR_KIND_MAX])
{
    char *blank = strrchr(kind, ' ');

    if (blank)
        *blank = '\0';
    return blank;
}

int operator_rates_add_profile(struct operator_rates *rates, const struct profile *profile,
                               struct error *error)
{
    const struct graph *graph = profile->graph;
    struct operator_rate entry = {.compute_type = graph->compute_type, .calls = 1};
    AUTO_FREE struct profile_sum *nodes = NULL;
    struct profile_totals totals;
    double working = 0;
    int r = profile_sum_up(profile, &totals, error);

    nodes = totals.nodes;
    if (r < 0 || profile->run_count == 0)
        return r;
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        /* one that did nothing counts: another one did its work */
        entry.work = operator_work(graph, node);
        entry.seconds = (double)nodes[i].nanoseconds * 1e-9 / totals.lanes / profile->run_count;
        working += entry.seconds;
        operator_kind(graph, node, entry.kind);
        do {
            r = operator_rates_add(rates, &entry, error);
        } while (r == 0 && shorten(entry.kind));
    }
    entry.work = working;
    entry.seconds = (double)totals.nanoseconds * 1e-9 / profile->run_count - working;
    snprintf(entry.kind, sizeof entry.kind, "%s", operator_kind_beside);
    return r == 0 ? operator_rates_add(rates, &entry, error) : r;
}

/* ---- predictions ---- */

/* Between two measurements time goes with a power of the work; beyond them with the work. */
static double interpolate(const struct operator_rate *below, const struct operator_rate *above,
                          double work)
{
    const struct operator_rate *nearest = below ? below : above;
    double t, from, to;

    if (below && above && below->seconds > 0 && above->seconds > 0) {
        from = log(work_of(below));
        to = log(work_of(above));
        t = (log(work) - from) / (to - from);
        return exp((1 - t) * log(below->seconds / below->calls) +
                   t * log(above->seconds / above->calls));
    }
    return nearest->seconds / nearest->calls * work / work_of(nearest);
}

static double seconds_of_kind(const struct operator_rates *rates, enum tensor_type compute_type,
                              const char *kind, double work)
{
    const struct operator_rate *below = NULL, *above = NULL;

    for (int i = 0; i < rates->count; i++) {
        const struct operator_rate *entry = &rates->entries[i];

        if (entry->compute_type != compute_type || strcmp(entry->kind, kind) != 0 ||
            entry->work <= 0)
            continue;
        if (work_of(entry) <= work && (!below || work_of(entry) > work_of(below)))
            below = entry;
        if (work_of(entry) > work && (!above || work_of(entry) < work_of(above)))
            above = entry;
    }
    return below || above ? interpolate(below, above, work) : -1;
}

double operator_rates_seconds(const struct operator_rates *rates, enum tensor_type compute_type,
                              const char *kind, double work)
{
    char shortened[OPERATOR_KIND_MAX];
    double seconds = -1;

    if (!(work > 0))
        return 0;
    for (int type = (int)compute_type; seconds < 0; type = TENSOR_FLOAT32) {
        snprintf(shortened, sizeof shortened, "%s", kind);
        do {
            seconds = seconds_of_kind(rates, (enum tensor_type)type, shortened, work);
        } while (seconds < 0 && shorten(shortened));
        if (type == TENSOR_FLOAT32)
            break;
    }
    return seconds;
}
