/* prediction.c: predicts the time of a graph from a calibration (calibration.h). */
#include "engine/graph/operator.h"
#include "engine/train/calibration.h"

#include <math.h>
#include <string.h>

double calibration_bandwidth(const struct calibration *calibration, double bytes)
{
    const struct bandwidth *below = NULL;

    for (int i = 0; i < CALIBRATION_BANDWIDTHS && calibration->bandwidths[i].bytes > 0; i++) {
        const struct bandwidth *here = &calibration->bandwidths[i];

        if (below && bytes < here->bytes) { /* interpolates by the logarithm of the size */
            double t = log(bytes / below->bytes) / log(here->bytes / below->bytes);

            return below->bytes_per_second + t * (here->bytes_per_second - below->bytes_per_second);
        }
        if (bytes <= here->bytes)
            return here->bytes_per_second;
        below = here;
    }
    return below ? below->bytes_per_second : 0;
}

double calibration_flops(const struct calibration *calibration, enum tensor_type type)
{
    double flops = (int)type < CALIBRATION_TYPES ? calibration->flops_per_second[type] : 0;

    return flops > 0 ? flops : calibration->flops_per_second[TENSOR_FLOAT32];
}

/* The guess for a device without calibration, from an H200. Products of its best type reached 0.79
 * of the peak and copies 0.9; a model's products are smaller. A kernel of a captured step took at
 * least 3 us. */
bool calibration_guess(const struct backend_device_info *info, struct calibration *calibration)
{
    static const double arithmetic = 0.5, memory = 0.8, kernel = 3e-6;

    *calibration = (struct calibration){
        .kernel_seconds = kernel,
        .bandwidths[0] = {.bytes = 1, .bytes_per_second = memory * info->peak_bytes_per_second}};
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        calibration->flops_per_second[i] = arithmetic * info->peak_flops[i];
    return info->peak_bytes_per_second > 0 && info->peak_flops[TENSOR_FLOAT32] > 0;
}

static double node_flops(const struct calibration *calibration, const struct graph *graph,
                         const struct graph_node *node)
{
    bool convolution = graph_node_operator(node)->cost_class == COST_CONVOLUTION;
    enum tensor_type type = graph->compute_type;
    double flops = convolution && (int)type < CALIBRATION_TYPES
                       ? calibration->convolution_flops_per_second[type]
                       : 0;

    return flops > 0 ? flops : calibration_flops(calibration, type);
}

double calibration_node_seconds(const struct calibration *calibration, const struct graph *graph,
                                int32_t node, const struct node_description *description)
{
    struct cost cost = graph_node_cost(graph, &graph->nodes[node]);
    double launch = calibration->launch_seconds * (double)cost.kernels;
    double seconds, arithmetic, memory, repetitions;
    struct operator_call call;

    if (description->absorbed)
        return launch; /* its launch counts, because launches are the plan's kernels */
    operator_call_describe(graph, node, description, &call, &repetitions);
    seconds = operator_rates_seconds(&calibration->rates, &call);
    if (seconds >= 0)
        return launch + seconds * repetitions;
    arithmetic = cost.flops / node_flops(calibration, graph, &graph->nodes[node]);
    memory = cost.bytes / calibration_bandwidth(calibration, cost.bytes);
    return launch + calibration->kernel_seconds + (arithmetic > memory ? arithmetic : memory);
}

/* Whether the operator's work (struct operator_call) is counted in operations. Arithmetic bounds
 * products; memory bounds all others, whose work is counted in bytes. */
static bool is_product(const char *kind)
{
    return strncmp(kind, "linear", 6) == 0 || strncmp(kind, "conv2d", 6) == 0;
}

int calibration_scale(const struct calibration *real, double speed, double bandwidth,
                      double launch_seconds, struct calibration *scaled, struct error *error)
{
    int r = 0;

    *scaled = *real;
    scaled->rates = (struct operator_rates){0};
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        scaled->flops_per_second[i] *= speed;
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        scaled->convolution_flops_per_second[i] *= speed;
    for (int i = 0; i < CALIBRATION_BANDWIDTHS; i++)
        scaled->bandwidths[i].bytes_per_second *= bandwidth;
    scaled->kernel_seconds /= speed;
    scaled->launch_seconds = launch_seconds;
    for (int i = 0; r == 0 && i < real->rates.count; i++) {
        struct operator_rate entry = real->rates.entries[i];

        if (strcmp(entry.call.kind, operator_kind_beside) == 0)
            continue; /* the time to start kernels stands for it */
        entry.seconds /= is_product(entry.call.kind) ? speed : bandwidth;
        r = operator_rates_add(&scaled->rates, &entry, error);
    }
    if (r < 0)
        calibration_release(scaled);
    return r;
}

double calibration_predict(const struct calibration *calibration, const struct session *session,
                           const struct graph *graph, unsigned phases)
{
    struct node_description description = {.lanes = 1};
    struct operator_call call;
    double seconds = 0, busy = 0, beside;

    for (int32_t i = 0; i < graph->node_count; i++) {
        if (!(phases >> graph->nodes[i].phase & 1))
            continue;
        session_describe_node(session, graph, i, &description);
        seconds += calibration_node_seconds(calibration, graph, i, &description);
        busy += !description.absorbed;
    }
    call = operator_call_beside(seconds, busy, description.lanes);
    beside = operator_rates_seconds(&calibration->rates, &call);
    return beside > 0 ? seconds + beside : seconds;
}
