/* worker_export_graph.h: the graph of a trained model and its numbers, for files that other
 * programs run. */
#pragma once

#include "engine/graph/graph.h"
#include "worker/trainee/worker_setup.h"

struct export_graph {
    struct checkpoint checkpoint;
    struct worker_setup setup;
    struct graph graph; /* of one sample, for evaluation */
    /* What the network reads is (sample - mean[g]) factor[g]; groups 0: the sample as it is. What
     * it gives stands for result / target_factor[i] + target_mean[i] (owned); target_groups 0: for
     * itself. */
    const float *mean, *factor;
    int64_t groups;
    float *target_mean, *target_factor;
    int64_t target_groups;
    char *classes; /* their names as an array of JSON, owned; NULL: they have none */
};

/* Opens the model of options->input, and the specification of --spec for a checkpoint that has
 * none. The caller releases it in every case. */
int export_graph_open(const struct worker_options *options, struct export_graph *model,
                      struct error *error);
void export_graph_release(struct export_graph *model);

/* The numbers of a parameter or statistic, float32 in every case; `model` is an export_graph. */
int export_graph_read(void *model, const struct graph_tensor *tensor, float *values,
                      struct error *error);
/* The integers of one of the type int8. */
int export_graph_read_int8(void *model, const struct graph_tensor *tensor, int8_t *values,
                           struct error *error);
