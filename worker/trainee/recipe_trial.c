/* recipe_trial.c: see recipe_trial.h. */
#include "worker/trainee/recipe_trial.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/trainee/worker_choice.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Seconds between two looks at the clock. */
static const double look_seconds = 0.1;

/* A training ends when this part of its epochs brought nothing better: the best weights of small
 * tables come early. */
enum { PATIENCE_PART = 4 };

struct run {
    struct worker_setup setup;
    struct training *training;
    struct training_requests requests;
    double deadline;
};

int recipe_trial_specify(const struct recipe_trial *trial, struct json_object **copy,
                         struct error *error)
{
    struct json_object *data, *train, *split = json_object_new_object();
    char present[PATH_MAX];

    *copy = NULL;
    if (json_object_deep_copy(trial->specification, copy, NULL) < 0 || !split) {
        json_object_put(split);
        return error_no_memory(error, "the specification");
    }
    if (!json_get(*copy, "directory") && getcwd(present, sizeof present))
        json_set_string(*copy, "directory", present);
    data = json_get(*copy, "data");
    train = json_get(*copy, "train");
    json_object_object_del(data, "test");
    json_set_string(split, "by",
                    json_get(json_get(*copy, "model"), "loss") ? "random" : "stratified");
    json_set_int(split, "folds", trial->folds);
    json_set_int(split, "fold", trial->fold);
    json_set(data, "split", split);
    json_set_int(train, "seed", (int64_t)(trial->seed & INT64_MAX));
    json_set_string(train, "precision", "float32");
    return 0;
}

static int open_run(const struct recipe_trial *trial, struct run *run, struct error *error)
{
    JSON_AUTO struct json_object *spec = NULL;
    struct worker_setup *setup = &run->setup;
    struct training_config *config = &setup->spec.training;
    struct worker_choice choice;
    int r = recipe_trial_specify(trial, &spec, error);

    if (r == 0)
        r = worker_setup_open_data(trial->options, json_object_to_json_string(spec), setup, error);
    if (r == 0)
        r = dataset_split_hold_out(&setup->split, setup->spec.split.fraction, trial->seed, error);
    if (r == 0)
        r = worker_setup_open_device(trial->options, setup, error);
    if (r < 0)
        return r;
    config->progress_seconds = look_seconds;
    config->early_metric = config->best_metric; /* whose best weights are kept in memory */
    config->early_patience = (config->epochs + PATIENCE_PART - 1) / PATIENCE_PART;
    config->restore_best = true;
    config->best_metric = NULL;
    r = worker_choice_prepare(setup, trial->options, NULL, &choice, &run->training, error);
    return r < 0 ? r : training_allocate(run->training, error);
}

static int on_progress(void *context, const struct training_progress *progress, struct error *error)
{
    struct run *run = context;

    (void)progress;
    (void)error;
    if (clock_monotonic() > run->deadline)
        atomic_store(&run->requests.stop, 1);
    return 0;
}

double recipe_trial_variance(const struct dataset *dataset)
{
    double sum = 0, squares = 0, mean;

    for (int64_t i = 0; i < dataset->count; i++)
        sum += *dataset_targets(dataset, i);
    mean = sum / (double)dataset->count;
    for (int64_t i = 0; i < dataset->count; i++) {
        double distance = *dataset_targets(dataset, i) - mean;

        squares += distance * distance;
    }
    return squares / (double)dataset->count;
}

static double find_score(const struct run *run, const struct training_values *values)
{
    const struct dataset *dataset = run->setup.train;
    bool is_class = dataset->target == DATASET_TARGET_CLASS;

    for (int i = 0; i < values->count; i++)
        if (strcmp(values->values[i].name, is_class ? "test_accuracy" : "test_loss") == 0)
            return is_class ? values->values[i].value
                            : 1 - values->values[i].value / recipe_trial_variance(dataset);
    return NAN;
}

int recipe_trial_run(const struct recipe_trial *trial, double *score, struct error *error)
{
    struct run run = {.deadline = trial->deadline};
    const struct checkpoint_texts texts = {0};
    const struct training_events events = {.context = &run, .progress = on_progress};
    struct training_result result = {0};
    int r = open_run(trial, &run, error);

    *score = NAN;
    if (r == 0)
        r = training_run(run.training, &texts, &events, &run.requests, &result, error);
    if (r == 0 && result.outcome == TRAINING_INTERRUPTED)
        r = error_set(error, -ETIME, "the time is over");
    if (r == 0)
        *score = find_score(&run, &result.values);
    training_free(run.training);
    worker_setup_release(&run.setup);
    return r;
}
