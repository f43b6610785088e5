/* worker_export_onnx.c: see worker_export_onnx.h. The file takes samples as they are in the data,
 * in float32 or, where they are symbols, in int32. It gives the network's outputs; values that the
 * data have in other units it gives in those. */
#include "worker/trainee/worker_export_onnx.h"

#include "engine/onnx/onnx_export.h"
#include "worker/trainee/worker_export_graph.h"

#include <stdio.h>

static int write_model(struct export_graph *model, const char *path, uint64_t *bytes,
                       struct error *error)
{
    const struct checkpoint_texts *texts = &model->checkpoint.texts;
    char step[24];
    const char *metadata[5][2] = {{"traind.step", step}};
    int count = 1;

    snprintf(step, sizeof step, "%lld", (long long)model->checkpoint.state.step);
    if (model->classes) {
        metadata[count][0] = "traind.classes";
        metadata[count++][1] = model->classes;
    }
    if (texts->vocabulary) {
        metadata[count][0] = "traind.vocabulary";
        metadata[count++][1] = texts->vocabulary;
    }
    return onnx_export_write(&(struct onnx_export){.graph = &model->graph,
                                                   .read = export_graph_read,
                                                   .read_int8 = export_graph_read_int8,
                                                   .context = model,
                                                   .mean = model->mean,
                                                   .factor = model->factor,
                                                   .groups = model->groups,
                                                   .target_mean = model->target_mean,
                                                   .target_factor = model->target_factor,
                                                   .target_groups = model->target_groups,
                                                   .metadata = (const char *const(*)[2])metadata},
                             path, bytes, error);
}

int worker_export_onnx(const struct worker_options *options, uint64_t *bytes, struct error *error)
{
    struct export_graph model;
    int r = export_graph_open(options, &model, error);

    if (r == 0)
        r = write_model(&model, options->onnx, bytes, error);
    export_graph_release(&model);
    return r;
}
