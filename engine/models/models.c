/* models.c: see models.h. */
#include "engine/models/models.h"

#include "engine/models/builders.h"

#include <errno.h>

static const char *const model_kind_names[] = {
    [MODEL_MLP] = "mlp",
    [MODEL_CNN] = "cnn",
    [MODEL_CHAR_MLP] = "char_mlp",
    [MODEL_LAYERS] = "layers",
    [MODEL_RESNET18] = "resnet18",
    [MODEL_MOBILENET_V3_SMALL] = "mobilenet_v3_small",
    [MODEL_EFFICIENTNET_B0] = "efficientnet_b0",
};
DEFINE_STRING_TABLE(model_kind, enum model_kind, model_kind_names)

static const char *const model_loss_names[] = {
    [LOSS_CROSS_ENTROPY] = "cross_entropy",
    [LOSS_MSE] = "mse",
};
DEFINE_STRING_TABLE(model_loss, enum model_loss, model_loss_names)

/* By enum model_kind. */
static model_builder *const builders[] = {
    [MODEL_MLP] = chain_build,
    [MODEL_CNN] = chain_build,
    [MODEL_CHAR_MLP] = chain_build,
    [MODEL_LAYERS] = chain_build,
    [MODEL_RESNET18] = resnet_build,
    [MODEL_MOBILENET_V3_SMALL] = mobilenet_build,
    [MODEL_EFFICIENTNET_B0] = efficientnet_build,
};

int model_build(const struct model_config *config, const struct model_data *data,
                struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, data->type, data->sample_shape, data->rank);
    int code = 0;

    if (x >= 0)
        code = builders[config->kind](config, data, graph, x, &x, error);
    if (code)
        return code;
    if (!graph->error.code && data->outputs < (data->loss == LOSS_CROSS_ENTROPY ? 2 : 1))
        return error_set(error, -EINVAL, "the data has %lld %s, too few to learn from",
                         (long long)data->outputs,
                         data->loss == LOSS_CROSS_ENTROPY ? "classes" : "values to predict");
    if (data->loss == LOSS_CROSS_ENTROPY && data->soft_targets && graph->training)
        graph_soft_cross_entropy(graph, x);
    else if (data->loss == LOSS_CROSS_ENTROPY)
        graph_cross_entropy(graph, x);
    else
        graph_mse(graph, x);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
