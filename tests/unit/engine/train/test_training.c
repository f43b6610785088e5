/* test_training.c: a training run as a library: the promises of the loop besides learning.
 * tests/integration/test_worker_train covers exact resume, records and accuracies with the
 * program. */
#include "engine/data/split.h"
#include "engine/models/models.h"
#include "engine/train/training.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- allocations that the program itself asks for (libraries are the backend's affair) ---- */

static long allocations;

#if defined(__SANITIZE_ADDRESS__)
static const bool counts_allocations = false; /* the sanitizer has an allocator of its own */
#else
static const bool counts_allocations = true;

extern const char __executable_start[], etext[];
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static void count_caller(const char *caller)
{
    allocations += caller >= __executable_start && caller < etext;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    count_caller(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    count_caller(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t bytes)
{
    count_caller(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}
#endif

/* ---- a run over 100 rows of two features ---- */

struct fixture {
    char path[64];
    struct dataset *dataset;
    struct dataset_split split;
    struct dataset_normalisation normalisation;
    struct backend_device *device;
    struct training_config config;
    struct model_data data;
    struct training *training;
    struct training_requests requests;
    struct training_result result;
    struct error error;

    int epochs, progress, step_rows; /* counted from the run's reports */
    int evaluations;
    int64_t evaluated[32]; /* at which steps */
    long allocations_at_first_step;
    int64_t last_step;
    int stop_after_rows;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    static const int64_t hidden[] = {16};
    struct fixture *f = context;
    struct model_config model = {.kind = MODEL_MLP,
                                 .hidden = hidden,
                                 .hidden_count = 1,
                                 .activation = ACTIVATION_TANH,
                                 .dropout = 0.1f};

    return model_build(&model, &f->data, graph, error);
}

static int on_metrics(void *context, int64_t step, double epoch,
                      const struct training_values *values, struct error *error)
{
    struct fixture *f = context;

    (void)epoch;
    (void)error;
    f->last_step = step;
    for (int i = 0; i < values->count; i++)
        if (strcmp(values->values[i].name, "validation_loss") == 0)
            f->evaluated[f->evaluations++] = step;
    if (strcmp(values->values[0].name, "step_loss") != 0) {
        f->epochs++;
        return 0;
    }
    if (f->step_rows++ == 0)
        f->allocations_at_first_step = allocations;
    if (f->step_rows == f->stop_after_rows)
        atomic_store(&f->requests.stop, 1);
    return 0;
}

static int on_progress(void *context, const struct training_progress *progress, struct error *error)
{
    struct fixture *f = context;

    (void)progress;
    (void)error;
    f->progress++;
    return 0;
}

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    const char *folder = getenv("TMPDIR");
    struct dataset_config config = {.format = DATASET_CSV, .path_count = 1};
    struct backend_device_config device = {.threads = 2};
    const char *path = f->path;
    FILE *file;

    *f = (struct fixture){0};
    snprintf(f->path, sizeof f->path, "%s/rows.csv", folder ? folder : "/tmp");
    file = fopen(f->path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        fprintf(file, "%f,%f,%d\n", sin(i), cos(i), sin(i) * cos(i) > 0);
    fclose(file);
    config.paths = &path;
    assert_int_equal(dataset_open(&config, NULL, &f->dataset, &f->error), 0);
    assert_int_equal(dataset_split(f->dataset,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 1},
                                   &f->split, &f->error),
                     0);
    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &f->split.train,
                                                   &f->normalisation, &f->error),
                     0);
    assert_int_equal(backend_cpu()->device_open(&device, &f->device, &f->error), 0);
    f->data = (struct model_data){.type = TENSOR_FLOAT32,
                                  .sample_shape = {2},
                                  .rank = 1,
                                  .outputs = 2,
                                  .loss = LOSS_CROSS_ENTROPY};
    f->config =
        (struct training_config){.epochs = 5,
                                 .batch = 12,
                                 .accumulate = 2,
                                 .evaluation_batch = 12,
                                 .shuffle = true,
                                 .seed = 7,
                                 .clip_norm = 1,
                                 .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
                                 .schedule = {.kind = SCHEDULE_CONSTANT, .learning_rate = 0.1},
                                 .early_metric = "validation_loss",
                                 .early_patience = 100,
                                 .restore_best = true,
                                 .best_metric = "validation_loss",
                                 .checkpoint_keep = 1};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    training_free(f->training);
    backend_cpu()->device_close(f->device);
    dataset_normalisation_release(&f->normalisation);
    dataset_split_release(&f->split);
    dataset_close(f->dataset);
    unlink(f->path);
    return 0;
}

static int prepare(struct fixture *f)
{
    struct training_data data = {.train = f->split.train,
                                 .validation = f->split.validation,
                                 .test = f->split.validation,
                                 .normalisation = &f->normalisation};

    return training_prepare(&f->config, &data, backend_cpu(), f->device, build, f, &f->training,
                            &f->error);
}

static int run(struct fixture *f)
{
    struct training_events events = {.context = f, .metrics = on_metrics, .progress = on_progress};
    struct checkpoint_texts texts = {0};

    assert_int_equal(prepare(f), 0);
    assert_int_equal(training_allocate(f->training, &f->error), 0);
    return training_run(f->training, &texts, &events, &f->requests, &f->result, &f->error);
}

/* ---- tests ---- */

static void test_no_allocation_after_the_first_step(void **state)
{
    struct fixture *f = *state;

    if (!counts_allocations)
        skip();
    assert_int_equal(run(f), 0);
    assert_int_equal(f->epochs, 5 + 1); /* five epochs and the test set */
    assert_true(f->allocations_at_first_step > 0);
    assert_int_equal(allocations, f->allocations_at_first_step);
}

static void test_counts_steps_and_epochs(void **state)
{
    struct fixture *f = *state;

    /* 80 samples: 7 batches of 12 (the last one of 8), 4 updates of 2
     * batches (the last one of 1) */
    assert_int_equal(run(f), 0);
    assert_int_equal(training_total_steps(f->training), 20);
    assert_int_equal(training_total_epochs(f->training), 5);
    assert_int_equal(f->result.steps, 20);
    assert_int_equal(training_state(f->training)->batches, 35);
    assert_int_equal(f->result.outcome, TRAINING_COMPLETED);
    assert_true(f->result.best_weights);
}

static void test_leaves_the_last_batch_out(void **state)
{
    struct fixture *f = *state;

    f->config.drop_last = true;
    /* 6 batches of 12, 3 updates */
    assert_int_equal(run(f), 0);
    assert_int_equal(training_total_steps(f->training), 15);
    assert_int_equal(training_state(f->training)->batches, 30);
    assert_int_equal(f->epochs, 5 + 1 + (f->result.weights_step != 15));
    assert_null(session_graph_for(training_session(f->training), true, 8, 0));
}

static void test_stops_at_max_steps(void **state)
{
    struct fixture *f = *state;

    f->config.steps = 6;
    assert_int_equal(run(f), 0);
    assert_int_equal(f->result.steps, 6);
    assert_int_equal(training_state(f->training)->epoch, 1);
    assert_int_equal(training_state(f->training)->position, 48);
    /* the second epoch, which was cut short, is measured, too; the last weights and the best ones
     * are tested */
    assert_int_equal(f->epochs, 2 + 2);
}

static void expect_evaluations(struct fixture *f, const int64_t *steps, int count)
{
    assert_int_equal(run(f), 0);
    assert_int_equal(f->evaluations, count);
    assert_memory_equal(f->evaluated, steps, (size_t)count * sizeof *steps);
    assert_int_equal(training_total_evaluations(f->training), count);
}

static void test_evaluates_every_steps(void **state)
{
    static const int64_t steps[] = {3, 6, 9, 12, 15, 18, 20};
    struct fixture *f = *state;

    f->config.evaluate_every_steps = 3;
    expect_evaluations(f, steps, 7);
    /* step 12 ends an epoch, as 4, 8 and 16 do; and the test */
    assert_int_equal(f->epochs, 7 + 3 + 1);
}

static void test_evaluates_every_epochs(void **state)
{
    static const int64_t steps[] = {8, 16, 20};
    struct fixture *f = *state;

    f->config.evaluate_every_epochs = 2;
    expect_evaluations(f, steps, 3);
    assert_int_equal(f->epochs, 5 + 1);
}

static void test_stops_when_asked(void **state)
{
    struct fixture *f = *state;

    f->stop_after_rows = 3;
    assert_int_equal(run(f), 0);
    assert_int_equal(f->result.outcome, TRAINING_INTERRUPTED);
    assert_in_range(f->result.steps, 1, 3);
}

static void test_loss_that_is_no_number(void **state)
{
    struct fixture *f = *state;

    f->config.clip_norm = 0;
    f->config.schedule.learning_rate = 3e38;
    assert_int_equal(run(f), -ERROR_NONFINITE_LOSS);
    assert_non_null(strstr(f->error.text, "NaN or infinite at step"));
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;

    f->config.early_metric = "validation_los";
    assert_int_equal(prepare(f), -EINVAL);
    assert_non_null(strstr(f->error.text, "\"validation_los\" is not measured"));
    f->config.early_metric = NULL;
    f->config.batch = 0;
    assert_int_equal(prepare(f), -EINVAL);
    f->config.drop_last = true;
    f->config.batch = 81;
    assert_int_equal(prepare(f), -EINVAL);
    assert_non_null(strstr(f->error.text, "80 samples, fewer than train.batch_size 81"));
    f->config.batch = 8;
    f->config.epochs = 0;
    assert_int_equal(prepare(f), -EINVAL);
    f->config.epochs = 1;
    f->split.validation.count = 0;
    assert_int_equal(prepare(f), -EINVAL);
    assert_non_null(strstr(f->error.text, "needs a validation set"));
}

/* The plan's staging is as large as the loaders need, and planning allocates nothing. */
static void test_plan_is_what_is_allocated(void **state)
{
    struct fixture *f = *state;
    const struct memory_plan *plan;
    size_t sum = 0;

    assert_int_equal(prepare(f), 0);
    plan = session_memory(training_session(f->training));
    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        sum += plan->class_bytes[i];
    assert_int_equal(sum, plan->arena_bytes);
    assert_true(plan->class_bytes[MEMORY_STAGING] > 0);
    assert_null(session_staging(training_session(f->training)));
    assert_int_equal(training_allocate(f->training, &f->error), 0);
    assert_non_null(session_staging(training_session(f->training)));
}

/* The weights after a run, with or without a profile. */
static float *run_for_weights(struct fixture *f, int64_t profile_steps, size_t *bytes)
{
    struct session_tensor tensor;
    float *weights = NULL;

    *bytes = 0;
    f->config.profile_steps = profile_steps;
    assert_int_equal(run(f), 0);
    for (int i = 0; session_tensor(training_session(f->training), i, &tensor) == 0; i++) {
        weights = realloc(weights, *bytes + tensor.bytes);
        assert_non_null(weights);
        assert_int_equal(
            session_read(training_session(f->training), i, (char *)weights + *bytes, &f->error), 0);
        *bytes += tensor.bytes;
    }
    return weights;
}

static void test_profile_changes_no_bit(void **state)
{
    struct fixture *f = *state;
    size_t bytes, profiled_bytes;
    float *weights = run_for_weights(f, 0, &bytes), *profiled;

    assert_null(training_profile(f->training));
    training_free(f->training);
    profiled = run_for_weights(f, 3, &profiled_bytes);
    assert_int_equal(bytes, profiled_bytes);
    assert_memory_equal(weights, profiled, bytes);
    free(weights);
    free(profiled);
}

static void test_profile(void **state)
{
    struct fixture *f = *state;
    const struct profile *profile;
    struct profile_totals totals;

    f->config.profile_steps = 3;
    assert_int_equal(run(f), 0);
    if (counts_allocations)
        assert_int_equal(allocations, f->allocations_at_first_step);
    profile = training_profile(f->training);
    /* the 10 batches of warm-up end within the second epoch; its last batch, of 8, is not
     * recorded */
    assert_int_equal(profile->run_count, 6);
    assert_int_equal(profile->runs[0].batch, 11);
    assert_int_equal(profile->runs[3].batch, 15);
    for (int i = 0; i < PROFILE_PHASE_COUNT; i++)
        assert_true(i == PROFILE_CHECKPOINT ? profile->seconds[i] == 0 : profile->seconds[i] > 0);
    assert_int_equal(profile_sum_up(profile, &totals, &f->error), 0);
    assert_int_equal(totals.lanes, 1); /* such a small model is one task */
    for (int32_t i = 0; i < profile->graph->node_count; i++) {
        const struct graph_node *node = &profile->graph->nodes[i];

        /* every second batch ends with an update; the activation is the first layer's */
        assert_int_equal(totals.nodes[i].calls, node->phase == GRAPH_UPDATE ? 3
                                                : node->op == OP_ACTIVATION ? 0
                                                                            : 6);
    }
    assert_true(totals.idle >= 0);
    free(totals.nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_allocation_after_the_first_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts_steps_and_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaves_the_last_batch_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stops_at_max_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evaluates_every_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evaluates_every_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stops_when_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loss_that_is_no_number, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan_is_what_is_allocated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_profile_changes_no_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_profile, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
