/* worker_weights.c: see worker_weights.h. */
#include "worker/trainee/worker_weights.h"

#include "base/cleanup.h"
#include "engine/graph/weight_layout.h"
#include "engine/train/weight_layouts.h"
#include "worker/trainee/worker_data_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT = 128, LIST_TEXT = 760, UNUSED_TEXT = 400 };

static const char average_prefix[] = "ema.";

/* An opened file of weights. */
struct weights {
    struct safetensors file;
    const struct worker_spec *spec;
    bool averaged; /* a checkpoint with moving averages: those are its weights */
};

static void weights_close(struct weights *weights)
{
    safetensors_close(&weights->file);
}
#define AUTO_WEIGHTS CLEANUP(weights_close)

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int weights_open(const struct worker_spec *spec, struct weights *weights,
                        struct error *error)
{
    const char *directory = json_get_string(spec->normalised, "directory", "");
    AUTO_FREE char *path = NULL;
    bool absolute = spec->weights_file[0] == '/';
    int r;

    *weights = (struct weights){.spec = spec};
    if (asprintf(&path, "%s%s%s", absolute ? "" : directory, absolute ? "" : "/",
                 spec->weights_file) < 0)
        return error_no_memory(error, "the path of the weights");
    r = safetensors_open(path, &weights->file, error);
    if (r < 0)
        return error_prefix(error, "weights: give a safetensors file, which safetensors.torch."
                                   "save_file(model.state_dict(), name) writes");
    for (int i = 0; i < weights->file.tensor_count; i++)
        weights->averaged |= begins_with(weights->file.tensors[i].name, average_prefix);
    return 0;
}

/* Puts parameters together that the file has in the form of the model's own file. */
static int weights_gather(struct weights *weights, const struct graph *graph, struct error *error)
{
    AUTO_FREE char *layouts = NULL;
    int r = weights->averaged ? 0 : weight_layouts_format(graph, &layouts, error);

    if (r == 0 && layouts)
        r = weight_layouts_gather(layouts, weights->spec->weights_prefix, &weights->file, error);
    return r;
}

/* The tensor of the file for a parameter or statistic of the model; NULL: there is none. */
static const struct safetensors_tensor *weights_find(const struct weights *weights,
                                                     const char *name)
{
    char stored[GRAPH_NAME_MAX + 128];

    snprintf(stored, sizeof stored, "%s%s%s", weights->averaged ? average_prefix : "",
             weights->spec->weights_prefix, name);
    return safetensors_find(&weights->file, stored);
}

/* What the run draws itself: new layers, and the ranges of quantization-aware training. */
static bool is_new(const struct worker_spec *spec, const char *name)
{
    return begins_with(name, GRAPH_RANGE_PREFIX) ||
           graph_name_matches_any(spec->new_weights, spec->new_weight_count, name);
}

/* Whether the graph's tensor is taken from the file: it is no constant that the model computes. */
static bool is_taken(const struct worker_spec *spec, const struct graph_tensor *tensor)
{
    const struct initial_values *values = tensor->initializer.values;

    return (tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC) &&
           !(values && values->computed) && !is_new(spec, tensor->name);
}

/* ---- what does not fit ---- */

/* A list that is cut where it would not fit, with the number of what was left out. */
struct list {
    char *text;
    size_t size, used;
    int count, left_out;
};

static void list_add(struct list *list, const char *item)
{
    int length = snprintf(list->text + list->used, list->size - list->used, "%s%s",
                          list->count ? "; " : "", item);

    list->count++;
    if (list->left_out || list->used + (size_t)length >= list->size) {
        list->text[list->used] = '\0';
        list->left_out++;
    } else {
        list->used += (size_t)length;
    }
}

static char *file_shape(const struct safetensors_tensor *tensor, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "a single number");
    for (int i = 0; i < tensor->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "x" : "",
                                 (long long)tensor->shape[i]);
    return text;
}

static bool has_shape(const struct safetensors_tensor *tensor, const struct graph_shape *shape)
{
    return tensor->rank == shape->rank &&
           memcmp(tensor->shape, shape->extent, (size_t)shape->rank * sizeof *shape->extent) == 0;
}

/* Describes why the model's tensor cannot be taken from the file. False: it can. */
static bool describe_misfit(const struct weights *weights, const char *name,
                            const struct graph_shape *shape, char *text, size_t size)
{
    const struct safetensors_tensor *found = weights_find(weights, name);
    char in_file[SHAPE_TEXT], in_model[SHAPE_TEXT];

    graph_shape_format(shape, in_model, sizeof in_model);
    if (!found)
        snprintf(text, size, "%s (%s) is not in the file", name, in_model);
    else if (!has_shape(found, shape))
        snprintf(text, size, "%s is %s in the file and %s in the model", name,
                 file_shape(found, in_file, sizeof in_file), in_model);
    else if (!safetensors_is_float(found))
        snprintf(text, size, "%s has %s (%s) in the file", name,
                 strchr("IU", *safetensors_type_name(found->type))
                     ? "whole numbers"
                     : "elements of which no weights are made",
                 safetensors_type_name(found->type));
    else
        return false;
    return true;
}

/* Whether names of the file are the model's with something before them. Copies that to `prefix`. */
static bool find_prefix(const struct weights *weights, const struct graph *graph, char *prefix,
                        size_t size)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const char *name = graph->tensors[i].name;
        size_t length = strlen(name);

        if (!is_taken(weights->spec, &graph->tensors[i]))
            continue;
        for (int k = 0; k < weights->file.tensor_count; k++) {
            const char *stored = weights->file.tensors[k].name;
            size_t more = strlen(stored);

            if (more <= length || strcmp(stored + more - length, name) != 0 ||
                stored[more - length - 1] != '.')
                continue;
            snprintf(prefix, size, "%.*s", (int)(more - length), stored);
            return true;
        }
    }
    return false;
}

static int fail_misfits(const struct weights *weights, const struct graph *graph,
                        const struct list *list, int wanted, struct error *error)
{
    char prefix[64], hint[192];

    if (list->count == wanted && find_prefix(weights, graph, prefix, sizeof prefix))
        snprintf(hint, sizeof hint,
                 "the names in the file begin with \"%s\": set weights.prefix to it", prefix);
    else
        snprintf(hint, sizeof hint,
                 "name those that shall be drawn in weights.new, such as \"new\": [\"fc\"]");
    if (list->left_out)
        return error_set(error, -EINVAL,
                         "%d tensors of the weights do not fit the model: %s; and %d more, which "
                         "the log lists; %s",
                         list->count, list->text, list->left_out, hint);
    return error_set(error, -EINVAL, "the weights do not fit the model: %s; %s", list->text, hint);
}

static int check_misfits(const struct weights *weights, const struct graph *graph,
                         struct error *error)
{
    char text[LIST_TEXT] = "", item[2 * SHAPE_TEXT + GRAPH_NAME_MAX + 64];
    struct list list = {.text = text, .size = sizeof text};
    int wanted = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < graph->tensor_count; i++) {
            const struct graph_tensor *tensor = &graph->tensors[i];
            const struct graph_shape shape = graph_shape_in_files(tensor);

            if (!is_taken(weights->spec, tensor))
                continue;
            wanted += pass == 0;
            if (!describe_misfit(weights, tensor->name, &shape, item, sizeof item))
                continue;
            if (pass == 0)
                list_add(&list, item);
            else if (list.left_out)
                fprintf(stderr, "traind-worker: %s\n", item);
        }
    return list.count ? fail_misfits(weights, graph, &list, wanted, error) : 0;
}

/* ---- what is not taken ---- */

/* Whether a tensor of a checkpoint is not one of its weights. */
static bool is_other_state(const struct weights *weights, const char *name)
{
    static const char *const prefixes[] = {"optimizer.", "gradient.", "best.", "state."};
    const char *last = strrchr(name, '.');

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins_with(name, prefixes[i]))
            return true;
    return (weights->averaged && !begins_with(name, average_prefix)) ||
           (last && strcmp(last, ".num_batches_tracked") == 0);
}

/* Whether the parameter was put together with numbers of the file's tensor `name`. */
static bool is_part(const struct weight_layout *layout, const struct weights *weights,
                    const char *name)
{
    const char *prefix = weights->spec->weights_prefix;

    if (!layout || !begins_with(name, prefix))
        return false;
    for (int i = 0; i < layout->count; i++)
        if (strcmp(layout->piece[i].name, name + strlen(prefix)) == 0)
            return true;
    return false;
}

static bool model_takes(const struct weights *weights, const struct graph *graph,
                        const struct safetensors_tensor *stored)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        const struct initial_values *values = tensor->initializer.values;

        if ((tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC) &&
            (weights_find(weights, tensor->name) == stored ||
             (values && is_part(values->layout, weights, stored->name))))
            return true;
    }
    return false;
}

static void warn_of_unused(const struct weights *weights, const struct graph *graph,
                           struct worker_warnings *warnings)
{
    char text[UNUSED_TEXT] = "";
    struct list list = {.text = text, .size = sizeof text};

    for (int i = 0; i < weights->file.tensor_count; i++) {
        const struct safetensors_tensor *stored = &weights->file.tensors[i];

        if (!is_other_state(weights, stored->name) && !model_takes(weights, graph, stored))
            list_add(&list, stored->name);
    }
    if (list.count && warnings->count < WORKER_WARNINGS_MAX)
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "%d tensors of the weights have no place in the model: %s%s", list.count, text,
                 list.left_out ? "; …" : "");
}

/* Weights of other columns or symbols have the right shape where these are as many. */
static void warn_of_inputs(const struct weights *weights, const struct dataset *train,
                           struct worker_warnings *warnings)
{
    const struct checkpoint_texts texts = {.module = safetensors_metadata(&weights->file, "module"),
                                           .data = safetensors_metadata(&weights->file, "data"),
                                           .vocabulary =
                                               safetensors_metadata(&weights->file, "vocabulary")};
    struct error error;

    if (worker_data_check_inputs(&texts, train, weights->spec->weights_file, &error) == 0 ||
        warnings->count == WORKER_WARNINGS_MAX)
        return;
    error_prefix(&error, "weights");
    snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES, "%s", error.text);
}

/* ---- both ---- */

int worker_weights_check(struct worker_setup *setup, struct error *error)
{
    const struct worker_spec *spec = &setup->spec;
    AUTO_WEIGHTS struct weights weights = {0};
    struct graph graph;
    int r;

    if (!spec->weights_file && spec->weights_job && !spec->continues)
        return error_set(error, -EINVAL,
                         "weights.job is a job of a daemon, which hands its checkpoint over; by "
                         "hand, name a file: --initial-weights FILE, or weights.file");
    if (!spec->weights_file)
        return 0;
    r = weights_open(spec, &weights, error);
    if (r < 0)
        return r;
    graph_init(&graph, 2, true); /* batch norm wants two samples */
    r = worker_setup_build(setup, &graph, error);
    if (r == 0)
        r = graph_check_patterns(&graph, "weights.new", spec->new_weights, spec->new_weight_count,
                                 error);
    if (r == 0)
        r = weights_gather(&weights, &graph, error);
    if (r == 0)
        r = check_misfits(&weights, &graph, error);
    if (r == 0)
        warn_of_unused(&weights, &graph, &setup->data_warnings);
    if (r == 0)
        warn_of_inputs(&weights, setup->train, &setup->data_warnings);
    graph_release(&graph);
    return r;
}

/* A loss of such weights would be blamed on the training. Infinity may be meant, as in a mask. */
static int check_numbers(const struct worker_spec *spec, const char *name, const float *values,
                         int64_t count, struct error *error)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(values[i]))
            return error_set(error, -EINVAL,
                             "weights: number %lld of %s in %s is NaN: take other weights, or name "
                             "it in weights.new",
                             (long long)i, name, spec->weights_file);
    return 0;
}

int worker_weights_load(const struct worker_setup *setup, struct session *session,
                        struct error *error)
{
    const struct training_config *config = &setup->spec.training;
    AUTO_WEIGHTS struct weights weights = {0};
    const struct graph *graph = session_graph(session);
    struct session_tensor tensor;
    int r = setup->spec.weights_file ? weights_open(&setup->spec, &weights, error) : 0;

    if (!setup->spec.weights_file || r < 0)
        return r;
    r = weights_gather(&weights, graph, error);
    for (int i = 0; r == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        char misfit[2 * SHAPE_TEXT + GRAPH_NAME_MAX + 64];
        float *values = session_scratch(session);

        if ((tensor.role != TENSOR_PARAMETER && tensor.role != TENSOR_STATISTIC) ||
            !is_taken(&setup->spec, &graph->tensors[graph_find_tensor(graph, tensor.name)]))
            continue;
        if (describe_misfit(&weights, tensor.name, &tensor.shape, misfit, sizeof misfit))
            return error_set(error, -EINVAL,
                             "the weights have changed since the job was planned: %s", misfit);
        safetensors_read_floats(&weights.file, weights_find(&weights, tensor.name), values);
        r = check_numbers(&setup->spec, tensor.name, values, graph_shape_elements(&tensor.shape),
                          error);
        if (r < 0)
            return r;
        if (config->rounds_parameters && tensor.role == TENSOR_PARAMETER)
            tensor_type_round(config->compute_type, values, graph_shape_elements(&tensor.shape));
        r = session_write(session, i, values, error);
    }
    return r;
}
