/* worker_add_norm.c: see worker_add_norm.h. */
#include "worker/trainee/worker_add_norm.h"

#include <stdio.h>

static bool adds_and_normalises(const struct graph_node *node)
{
    return node->op == OP_ADD_RMS_NORM || node->op == OP_ADD_LAYER_NORM;
}

/* Whether the device lacks such an operator of the graph; `reason` says which. */
static bool lacks_operator(const struct worker_setup *setup, const struct graph *graph,
                           char reason[256])
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (adds_and_normalises(&graph->nodes[i]) &&
            !setup->backend->supports(setup->device, graph, &graph->nodes[i], reason))
            return true;
    return false;
}

void worker_add_norm_choose(struct worker_setup *setup)
{
    struct model_config *model = &setup->spec.model;
    struct worker_warnings *warnings = &setup->data_warnings;
    struct error error = {0};
    struct graph graph;
    char reason[256] = "";

    if (model->add_norm != MODEL_ADD_NORM_AUTO || !setup->backend->supports)
        return;
    graph_init(&graph, 1, true);
    /* what else may be wrong with the model is reported when it is planned */
    if (!model_build(model, &setup->model_data, &graph, &error) &&
        lacks_operator(setup, &graph, reason)) {
        model->add_norm = MODEL_ADD_NORM_UNFUSED;
        if (warnings->count < WORKER_WARNINGS_MAX)
            snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                     "model.add_norm is unfused: %s", reason);
    }
    graph_release(&graph);
}
