/* worker_export_graph.c: see worker_export_graph.h. */
#include "worker/trainee/worker_export_graph.h"

#include "base/cleanup.h"
#include "proto/device_host.h"
#include "proto/json.h"
#include "worker/trainee/pytorch_module.h"
#include "worker/trainee/worker_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int build(struct export_graph *model, struct error *error)
{
    int r = worker_setup_build(&model->setup, &model->graph, error);

    if (r == 0 && model->checkpoint.texts.quantization)
        r = graph_quantize(&model->graph, model->checkpoint.texts.quantization, error);
    return r == 0 ? graph_finish(&model->graph, error) : r;
}

/* The constants of the targets, one for each number of the result: quantiles of a value stand side
 * by side, and of a time series the columns repeat row by row. */
static int take_targets(struct export_graph *model, struct error *error)
{
    const struct dataset_normalisation *from = &model->setup.normalisation;
    const struct graph_shape *shape = &model->graph.tensors[model->graph.output].shape;
    const struct worker_spec *spec = &model->setup.spec;
    int64_t width = shape->extent[shape->rank - 1];
    int64_t quantiles = spec->loss == LOSS_QUANTILES ? (int64_t)spec->loss_number_count : 1;

    if (!from->target_groups)
        return 0;
    model->target_mean = calloc((size_t)width, sizeof *model->target_mean);
    model->target_factor = calloc((size_t)width, sizeof *model->target_factor);
    if (!model->target_mean || !model->target_factor)
        return error_no_memory(error, "the constants of the values to predict");
    model->target_groups = width;
    for (int64_t i = 0; i < width; i++) {
        int64_t column = i / quantiles % from->target_groups;

        model->target_mean[i] = from->target_mean[column];
        model->target_factor[i] = from->target_factor[column];
    }
    return 0;
}

static void take_input(struct export_graph *model)
{
    const struct dataset_normalisation *from = &model->setup.normalisation;

    if (dataset_format_has_symbols(model->setup.train->format))
        return;
    model->mean = from->mean;
    model->factor = from->factor;
    model->groups = from->groups;
}

static int take_classes(struct export_graph *model, struct error *error)
{
    bool embeds = model->setup.spec.loss == LOSS_TRIPLET;
    JSON_AUTO struct json_object *names =
        embeds ? NULL : pytorch_module_classes(model->setup.train);

    if (!names)
        return 0;
    model->classes = strdup(json_text(names, NULL));
    return model->classes ? 0 : error_no_memory(error, "the names of the classes");
}

int export_graph_open(const struct worker_options *options, struct export_graph *model,
                      struct error *error)
{
    struct worker_options own = *options;
    int r;

    own.device = DEVICE_HOST;
    *model = (struct export_graph){0};
    graph_init(&model->graph, 1, false);
    r = worker_model_open(&own, options->input, &model->checkpoint, &model->setup, error);
    if (r == 0)
        r = build(model, error);
    if (r == 0)
        r = take_targets(model, error);
    if (r == 0)
        take_input(model);
    return r < 0 ? r : take_classes(model, error);
}

void export_graph_release(struct export_graph *model)
{
    graph_release(&model->graph);
    worker_setup_release(&model->setup);
    checkpoint_close(&model->checkpoint);
    free(model->target_mean);
    free(model->target_factor);
    free(model->classes);
}

static int read_float(const struct export_graph *model, const struct graph_tensor *tensor,
                      float *values, struct error *error)
{
    const struct session_tensor wanted = {.name = tensor->name,
                                          .role = tensor->role,
                                          .type = TENSOR_FLOAT32,
                                          .shape = graph_shape_in_files(tensor),
                                          .evaluated = true};

    const struct initial_values *own = tensor->initializer.values;

    if (!graph_tensor_is_constant(tensor))
        return checkpoint_read_weight(&model->checkpoint, &wanted, values, error);
    own->read(own, 0, graph_shape_elements(&tensor->shape), values);
    return 0;
}

int export_graph_read_int8(void *context, const struct graph_tensor *tensor, int8_t *values,
                           struct error *error)
{
    const struct export_graph *model = context;
    const struct safetensors *file = &model->checkpoint.file;
    const struct safetensors_tensor *found = safetensors_find(file, tensor->name);

    if (!found || found->type != SAFETENSORS_INT8 ||
        found->bytes != (size_t)graph_shape_elements(&tensor->shape))
        return error_set(error, -EINVAL,
                         "%s is not there as integers of 8 bits: the checkpoint is "
                         "damaged",
                         tensor->name);
    safetensors_read(file, found, values);
    return 0;
}

int export_graph_read(void *context, const struct graph_tensor *tensor, float *values,
                      struct error *error)
{
    const struct export_graph *model = context;
    int64_t rows = tensor->shape.extent[0], count = graph_shape_elements(&tensor->shape);
    AUTO_FREE int8_t *integers = NULL;
    AUTO_FREE float *scale = NULL;
    char name[GRAPH_NAME_MAX + 8];
    int r;

    if (tensor->type != TENSOR_INT8)
        return read_float(model, tensor, values, error);
    integers = malloc((size_t)count);
    scale = malloc((size_t)rows * sizeof *scale);
    if (!integers || !scale)
        return error_no_memory(error, "the weights");
    snprintf(name, sizeof name, "%s_scale", tensor->name);
    r = export_graph_read_int8(context, tensor, integers, error);
    if (r == 0)
        r = read_float(model, &model->graph.tensors[graph_find_tensor(&model->graph, name)], scale,
                       error);
    for (int64_t i = 0; r == 0 && i < count; i++)
        values[i] = (float)integers[i] * scale[i / (count / rows)];
    return r;
}
