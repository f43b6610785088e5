/* models.c: see models.h. */
#include "engine/models/models.h"

#include "engine/graph/forward.h"
#include "engine/models/builders.h"

#include <errno.h>

#define NAME(upper, lower, ...) [MODEL_##upper] = #lower,
static const char *const model_kind_names[] = {MODEL_KINDS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(model_kind, enum model_kind, model_kind_names)

static const char *const model_loss_names[] = {
    [LOSS_CROSS_ENTROPY] = "cross_entropy",
    [LOSS_FOCAL] = "focal",
    [LOSS_ORDINAL] = "ordinal",
    [LOSS_HEADS] = "output_heads",
    [LOSS_TRIPLET] = "triplet",
    [LOSS_MSE] = "mse",
    [LOSS_MAE] = "mae",
    [LOSS_HUBER] = "huber",
    [LOSS_QUANTILE] = "quantile",
    [LOSS_BINARY] = "binary_cross_entropy",
    [LOSS_COSINE] = "cosine",
    [LOSS_SMOOTH_L1] = "smooth_l1",
    [LOSS_QUANTILES] = "quantiles",
    [LOSS_SOFT] = "soft_cross_entropy",
};
DEFINE_STRING_TABLE(model_loss, enum model_loss, model_loss_names)

static const char *const model_positions_names[] = {
    [POSITIONS_LEARNED] = "learned",
    [POSITIONS_ROTARY] = "rotary",
};
DEFINE_STRING_TABLE(model_positions, enum model_positions, model_positions_names)

static const char *const model_pool_names[] = {
    [POOL_TOKEN] = "token",
    [POOL_MEAN] = "mean",
};
DEFINE_STRING_TABLE(model_pool, enum model_pool, model_pool_names)

static const char *const model_pooling_names[] = {
    [POOLING_MEAN] = "mean",
    [POOLING_MAX] = "max",
    [POOLING_FLATTEN] = "flatten",
};
DEFINE_STRING_TABLE(model_pooling, enum model_pooling, model_pooling_names)

static const char *const model_norm_names[] = {
    [MODEL_RMS_NORM] = "rms_norm",
    [MODEL_LAYER_NORM] = "layer_norm",
};
DEFINE_STRING_TABLE(model_norm, enum model_norm, model_norm_names)

static const char *const model_add_norm_names[] = {
    [MODEL_ADD_NORM_AUTO] = "auto",
    [MODEL_ADD_NORM_FUSED] = "fused",
    [MODEL_ADD_NORM_UNFUSED] = "unfused",
};
DEFINE_STRING_TABLE(model_add_norm, enum model_add_norm, model_add_norm_names)

#define MODEL(upper, lower, traits, ...) [MODEL_##upper] = {&models_##lower, traits},
static const struct {
    const struct model *model;
    unsigned traits;
} models[] = {MODEL_KINDS(MODEL)};
#undef MODEL

const struct model *model_of(enum model_kind kind)
{
    return models[kind].model;
}

unsigned model_traits(enum model_kind kind)
{
    return models[kind].traits;
}

const struct model_python *model_python(enum model_kind kind)
{
    return models[kind].model->python.body ? &models[kind].model->python : NULL;
}

_Static_assert(LOSS_QUANTILES - LOSS_MAE == VALUE_LOSS_QUANTILES, "losses in the same order");

static void append_value_loss(struct graph *graph, const struct model_data *data, int32_t x)
{
    struct value_loss_config config = {.kind = (enum value_loss)(data->loss - LOSS_MAE),
                                       .parameter = data->loss_parameter,
                                       .count = data->loss_number_count};

    for (int i = 0; i < config.count && i < LOSS_NUMBERS_MAX; i++)
        config.numbers[i] = data->loss_numbers[i];
    graph_value_loss(graph, x, &config);
}

static void append_loss(struct graph *graph, const struct model_data *data, int32_t x)
{
    switch (data->loss) {
    case LOSS_CROSS_ENTROPY:
        if (data->soft_targets && graph->training)
            graph_soft_cross_entropy(graph, x);
        else
            graph_cross_entropy(graph, x);
        return;
    case LOSS_FOCAL:
        graph_focal_loss(graph, x, data->loss_parameter);
        return;
    case LOSS_ORDINAL:
        graph_ordinal_loss(graph, x);
        return;
    case LOSS_HEADS:
        graph_head_losses(graph, x, data->heads, data->head_count);
        return;
    case LOSS_TRIPLET:
        graph_triplet_loss(graph, x, &data->triplet);
        return;
    case LOSS_MSE:
        graph_mse(graph, x);
        return;
    case LOSS_SOFT:
        graph_soft_cross_entropy(graph, x);
        return;
    default:
        append_value_loss(graph, data, x);
    }
}

int model_build(const struct model_config *config, const struct model_data *given,
                struct graph *graph, struct error *error)
{
    const struct model *model = model_of(config->kind);
    bool row_by_row = model->reads_steps && given->rank == 3 && given->sample_shape[0] == 1;
    bool of_numbers = model_loss_is_of_values(given->loss) || given->loss == LOSS_TRIPLET;
    struct model_data own = *given;
    const struct model_data *data = &own;
    int32_t x;
    int code = 0;

    if (graph->steps)
        own.sample_shape[0] = graph->steps;
    x = graph_input(graph, data->type, data->sample_shape + row_by_row, data->rank - row_by_row);
    if (x >= 0)
        code = (model->build ? model->build : chain_build)(config, data, graph, x, &x, error);
    if (code)
        return code;
    if (!graph->error.code && !data->no_loss && data->outputs < (of_numbers ? 1 : 2))
        return error_set(error, -EINVAL, "the data has %lld %s, too few to learn from",
                         (long long)data->outputs, of_numbers ? "values to predict" : "classes");
    if (!data->no_loss)
        append_loss(graph, data, x);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}

int model_count_outputs(const struct model_config *config, const struct model_data *data,
                        int64_t *outputs, struct error *error)
{
    struct model_data open = *data;
    const struct graph_shape *shape;
    struct graph graph;
    int code;

    open.outputs = 0;
    open.no_loss = true;
    graph_init(&graph, 2, false);
    code = model_build(config, &open, &graph, error);
    if (code == 0) {
        shape = &graph.tensors[graph.output].shape;
        *outputs = shape->extent[shape->rank - 1];
    }
    graph_release(&graph);
    return code;
}
