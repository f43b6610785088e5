/* prediction.c: what a calibration (calibration.h) says about a graph. */
#include "engine/train/calibration.h"

#include <math.h>

double calibration_bandwidth(const struct calibration *calibration, double bytes)
{
    const struct bandwidth *below = NULL;

    for (int i = 0; i < CALIBRATION_BANDWIDTHS && calibration->bandwidths[i].bytes > 0; i++) {
        const struct bandwidth *here = &calibration->bandwidths[i];

        if (below && bytes < here->bytes) { /* between the two, by the logarithm of the size */
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

static double node_seconds(const struct calibration *calibration, const struct graph *graph,
                           const struct graph_node *node)
{
    struct cost cost = graph_node_cost(graph, node);
    char kind[OPERATOR_KIND_MAX];
    double seconds, arithmetic, memory;

    operator_kind(graph, node, kind);
    seconds = operator_rates_seconds(&calibration->rates, graph->compute_type, kind,
                                     operator_work(graph, node));
    if (seconds >= 0)
        return seconds;
    if (cost.kernels == 0)
        return 0;
    arithmetic = cost.flops / calibration_flops(calibration, graph->compute_type);
    memory = cost.bytes / calibration_bandwidth(calibration, cost.bytes);
    return calibration->kernel_seconds + (arithmetic > memory ? arithmetic : memory);
}

double calibration_predict(const struct calibration *calibration, const struct graph *graph,
                           unsigned phases)
{
    double seconds = 0, beside;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (phases >> graph->nodes[i].phase & 1)
            seconds += node_seconds(calibration, graph, &graph->nodes[i]);
    beside = operator_rates_seconds(&calibration->rates, graph->compute_type, operator_kind_beside,
                                    seconds);
    return beside > 0 ? seconds + beside : seconds;
}
