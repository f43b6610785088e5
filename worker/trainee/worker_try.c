/* worker_try.c: `traind-worker try` runs one batch forward and backward, and then two steps, and
 * says whether the job can learn. What would fail in the first seconds of a job fails here. */
#include "base/clock.h"
#include "base/text.h"
#include "engine/train/agreement.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { STEPS = 2, SHAPE_BYTES = 96 };

struct trial {
    struct worker_setup setup;
    struct worker_choice choice;
    struct training *training;
    struct training_requests requests;
    struct checkpoint_agreement before, after; /* of the first batch */
    int64_t steps;                             /* that were made */
    double losses[STEPS], seconds[STEPS];      /* of each; NAN: not measured by itself */
    double mark;                               /* when the latest one ended */
};

/* ---- the steps ---- */

/* Called after each step; asks the run to stop behind the second, before anything is evaluated. */
static int on_metrics(void *context, int64_t step, double epoch,
                      const struct training_values *values, struct error *error)
{
    struct trial *trial = context;
    double now = clock_monotonic();

    (void)epoch;
    (void)error;
    if (step < 1 || step > STEPS)
        return 0;
    trial->steps = step;
    /* what is reported with other names comes at the end of an epoch, behind its evaluation */
    trial->seconds[step - 1] =
        values->count && strcmp(values->values[0].name, "step_loss") == 0 ? now - trial->mark : NAN;
    trial->losses[step - 1] = values->count ? values->values[0].value : NAN;
    trial->mark = now;
    if (step == STEPS)
        atomic_store(&trial->requests.stop, 1);
    return 0;
}

/* The first parameter with a number that is infinite or none; NULL: all are finite. */
static int find_nonfinite(struct session *session, const char **name, struct error *error)
{
    struct session_tensor tensor;
    int r = 0;

    *name = NULL;
    for (int i = 0; r == 0 && !*name && session_tensor(session, i, &tensor) == 0; i++) {
        const float *values = session_scratch(session);

        if (tensor.role != TENSOR_PARAMETER || tensor.type != TENSOR_FLOAT32)
            continue;
        r = session_read(session, i, session_scratch(session), error);
        for (size_t k = 0; r == 0 && !*name && k < tensor.bytes / sizeof *values; k++)
            if (!isfinite(values[k]))
                *name = tensor.name;
    }
    return r;
}

/* A job may have one step alone (train.max_steps). */
static const char *after_steps(int64_t steps)
{
    return steps == 1 ? "after one step" : "after two steps";
}

/* float16 begins with a scale that overflows, and lowers it from step to step. */
static int check_gradients(const struct trial *trial, const struct checkpoint_agreement *measured,
                           const char *when, struct error *error)
{
    if (!isfinite(measured->loss))
        return error_set(error, -ERROR_NONFINITE_LOSS,
                         "the loss of the first batch %s is %g: look for values in the data that "
                         "are not finite or very large, and try a smaller learning rate "
                         "(train.optimizer.lr) or data.normalize",
                         when, measured->loss);
    if (isfinite(measured->gradient_norm) || trial->setup.precision.type == TENSOR_FLOAT16)
        return 0;
    return error_set(error, -ERROR_NONFINITE_LOSS,
                     "the gradients of the first batch %s are not finite, although the loss is "
                     "%g: try train.precision float32, or a smaller learning rate "
                     "(train.optimizer.lr)",
                     when, measured->loss);
}

static int run_steps(struct trial *trial, struct error *error)
{
    const struct training_events events = {.context = trial, .metrics = on_metrics};
    const struct checkpoint_texts texts = {0};
    struct training_result result;
    const char *name;
    int r = agreement_measure_first(trial->training, &trial->before, error);

    if (r == 0)
        r = check_gradients(trial, &trial->before, "before any step", error);
    if (r < 0)
        return r;
    trial->mark = clock_monotonic();
    r = training_run(trial->training, &texts, &events, &trial->requests, &result, error);
    if (r == 0)
        r = agreement_measure_first(trial->training, &trial->after, error);
    if (r == 0)
        r = check_gradients(trial, &trial->after, after_steps(trial->steps), error);
    if (r == 0)
        r = find_nonfinite(training_session(trial->training), &name, error);
    if (r == 0 && name)
        r = error_set(error, -ERROR_NONFINITE_LOSS,
                      "%s has values that are not finite %s: try a smaller learning rate "
                      "(train.optimizer.lr) or train.clip_norm",
                      name, after_steps(trial->steps));
    return r;
}

/* ---- what is printed ---- */

/* The layers of the forward part with the shapes that they give, the batch first. What the loss
 * gives are gradients. */
static struct json_object *layers_new(const struct graph *graph)
{
    struct json_object *layers = json_object_new_array();

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct graph_tensor *output = &graph->tensors[node->output[0]];
        struct json_object *layer;
        char shape[SHAPE_BYTES];

        if (node->phase != GRAPH_FORWARD || node->recomputed)
            continue;
        layer = json_object_new_object();
        json_set_string(layer, "name", node->name);
        json_set_string(layer, "operator", graph_op_to_string(node->op));
        if (strcmp(node->name, "loss") != 0)
            json_set_string(layer, "shape",
                            graph_shape_format(&output->shape, shape, sizeof shape));
        json_object_array_add(layers, layer);
    }
    return layers;
}

static struct json_object *input_new(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        char shape[SHAPE_BYTES];

        if (graph->tensors[i].role == TENSOR_INPUT)
            return json_object_new_string(
                graph_shape_format(&graph->tensors[i].shape, shape, sizeof shape));
    }
    return NULL;
}

static size_t peak_bytes(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) < 0 ? 0 : (size_t)usage.ru_maxrss * 1024;
}

static struct json_object *report_new(const struct trial *trial)
{
    const struct session *session = training_session(trial->training);
    struct json_object *json = json_object_new_object(), *steps = json_object_new_array();
    struct json_object *memory = json_object_new_object();

    json_set_string(json, "device", trial->setup.device_info.name);
    json_set_string(json, "precision", tensor_type_to_string(trial->setup.precision.type));
    json_set_int(json, "parameters", session_parameter_count(session));
    json_set(json, "choices", worker_choices_json(&trial->setup));
    json_set(json, "input", input_new(session_graph(session)));
    json_set(json, "layers", layers_new(session_graph(session)));
    json_set_double(json, "loss_before", trial->before.loss);
    json_set_double(json, "gradient_norm_before", trial->before.gradient_norm);
    for (int64_t i = 0; i < trial->steps; i++) {
        struct json_object *step = json_object_new_object();

        json_set_double(step, "loss", trial->losses[i]);
        json_set_double(step, "seconds", trial->seconds[i]);
        json_object_array_add(steps, step);
    }
    json_set(json, "steps", steps);
    json_set_double(json, "loss_after", trial->after.loss);
    json_set_double(json, "gradient_norm_after", trial->after.gradient_norm);
    json_set_bool(json, "gradients_are_finite",
                  isfinite(trial->before.gradient_norm) && isfinite(trial->after.gradient_norm));
    json_set_int(memory, "arena", (int64_t)session_memory(session)->arena_bytes);
    json_set_int(memory, "process", (int64_t)peak_bytes());
    json_set(json, "memory", memory);
    return json;
}

static void print_text(struct json_object *json)
{
    struct json_object *layers = json_get(json, "layers"), *steps = json_get(json, "steps");
    struct json_object *memory = json_get(json, "memory");
    char bytes[48], process[48], shown[512]; /* names may come from a model's file */

    printf("%-28s %-20s %s\n", "layer", "operator", "shape");
    printf("%-28s %-20s %s\n", "(samples)", "", json_get_string(json, "input", ""));
    for (size_t i = 0; i < json_object_array_length(layers); i++) {
        struct json_object *layer = json_object_array_get_idx(layers, i);

        printf("%-28s %-20s %s\n",
               text_escape_controls(json_get_string(layer, "name", ""), shown, sizeof shown),
               json_get_string(layer, "operator", ""), json_get_string(layer, "shape", ""));
    }
    printf("loss of the first batch %.6g, %s %.6g\n", json_get_double(json, "loss_before", NAN),
           after_steps((int64_t)json_object_array_length(steps)),
           json_get_double(json, "loss_after", NAN));
    for (size_t i = 0; i < json_object_array_length(steps); i++) {
        double seconds = json_get_double(json_object_array_get_idx(steps, i), "seconds", NAN);

        if (!isnan(seconds))
            printf("step %zu: %.3g ms\n", i + 1, 1e3 * seconds);
    }
    printf("gradients: norm %.6g, %s\n", json_get_double(json, "gradient_norm_before", NAN),
           json_get_bool(json, "gradients_are_finite", false) ? "finite" : "not finite");
    printf(
        "memory: arena %s, process %s\n",
        text_format_bytes((uint64_t)json_get_int(memory, "arena", 0), bytes, sizeof bytes),
        text_format_bytes((uint64_t)json_get_int(memory, "process", 0), process, sizeof process));
}

/* ---- the command ---- */

static int prepare(const struct worker_options *options, struct trial *trial, struct error *error)
{
    const struct worker_opening opening = {0};
    struct worker_setup *setup = &trial->setup;
    int r = worker_setup_open(options, &opening, setup, error);

    if (r == 0 && setup->spec.continues)
        r = error_set(error, -EINVAL,
                      "weights.continue goes on with a job of a daemon, which cannot be tried");
    if (r == 0)
        r = worker_weights_check(setup, error);
    if (r < 0)
        return r;
    setup->spec.training.profile_steps = 0;
    setup->spec.training.evaluate_every_steps = 0; /* two steps are looked at, and nothing else */
    r = worker_choice_prepare(setup, options, NULL, &trial->choice, &trial->training, error);
    if (r == 0)
        r = training_allocate(trial->training, error);
    if (r == 0)
        r = worker_weights_load(setup, training_session(trial->training), error);
    return r;
}

int worker_try(const struct worker_options *options)
{
    struct trial trial = {0};
    struct error error = {0};
    int r = prepare(options, &trial, &error);

    if (r == 0)
        r = run_steps(&trial, &error);
    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
    } else {
        JSON_AUTO struct json_object *json = report_new(&trial);

        if (options->json)
            json_print(json, stdout);
        else
            print_text(json);
    }
    training_free(trial.training);
    worker_setup_release(&trial.setup);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
