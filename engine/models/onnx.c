/* onnx.c: a model of a file in the ONNX format, fitted to the data: its output must be what the
 * loss compares. engine/onnx/ reads the file. */
#include "engine/models/builders.h"

#include <errno.h>

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    int code = onnx_build(config->onnx, !config->draws_weights, graph, x, result, error);
    const struct graph_shape *shape;
    char text[128];

    if (code || graph->error.code)
        return code;
    if (!data->outputs) /* model_count_outputs() */
        return 0;
    shape = &graph->tensors[*result].shape;
    if (shape->extent[shape->rank - 1] != data->outputs && data->loss == LOSS_TRIPLET)
        return error_set(error, -EINVAL,
                         "the model gives %lld outputs (%s), but model.embedding_size is %lld; "
                         "leave it out",
                         (long long)shape->extent[shape->rank - 1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs);
    if (shape->extent[shape->rank - 1] != data->outputs)
        return error_set(error, -EINVAL,
                         "the model gives %lld outputs (%s), but the data has %lld %s",
                         (long long)shape->extent[shape->rank - 1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs,
                         model_loss_is_of_values(data->loss) ? "values to predict" : "classes");
    return 0;
}

const struct model models_onnx = {
    .build = build,
    .python =
        {.imports = "",
         .body = "    raise NotImplementedError(\"these weights belong to the module that the ONNX "
                 "file was exported \"\n"
                 "                              \"from: load them there with "
                 "load_state_dict\")\n"},
};
