/* loop_measure.c: measures after epochs and within them: evaluates the validation set, reports the
 * metrics, and applies what follows from them. Also runs the test at the end. */
#include "engine/train/evaluation.h"
#include "engine/train/loop_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void training_values_add(struct training_values *values, const char *name, double value)
{
    if (values->count < TRAINING_VALUES_MAX)
        values->values[values->count++] = (struct training_value){name, value};
}

/* NULL: the metric was not measured. */
static const double *find_value(const struct training_values *values, const char *name)
{
    for (int i = 0; i < values->count; i++) {
        if (strcmp(values->values[i].name, name) == 0)
            return &values->values[i].value;
    }
    return NULL;
}

/* Gets the outputs from evaluation_run(). */
struct reading {
    struct metrics *metrics;
    const struct dataset_view *view;
};

static int read_outputs(void *context, struct session *session, const struct loader_batch *batch,
                        struct error *error)
{
    const struct reading *reading = context;

    return metrics_add(reading->metrics, session, reading->view, batch, error);
}

/* Checks that a metric that influences weights has a value. */
static int check_watched(const struct loop *loop, enum metric_kind kind, const char *name,
                         struct error *error)
{
    if (!(loop->training->watched >> kind & 1))
        return 0;
    return error_set(error, -EINVAL,
                     "%s, which the run watches, is not defined for this validation set: a class "
                     "has no sample in it, or a prediction is not a number; watch another metric "
                     "or set a larger data.validation_fraction",
                     name);
}

static int add_metrics(struct loop *loop, enum metric_subset subset,
                       const struct step_metrics *sums, struct error *error)
{
    const struct training *training = loop->training;
    int r = 0;

    for (int i = 0; r == 0 && i < METRIC_COUNT; i++) {
        double value;

        if (!(training->measured[subset] >> i & 1))
            continue;
        value = metrics_value(training->metrics, i, sums);
        if (!isnan(value) || isnan(sums->loss_sum))
            training_values_add(&loop->result->values, metric_name(subset, i), value);
        else if (subset == METRIC_VALIDATION)
            r = check_watched(loop, i, metric_name(subset, i), error);
    }
    return r;
}

/* The loss of each head, and its standard error. */
static void add_heads(struct loop *loop, enum metric_subset subset)
{
    struct metrics *metrics = loop->training->metrics;

    for (int i = 0; i < metrics_head_count(metrics); i++) {
        struct metric_mean loss = metrics_head_loss(metrics, subset, i);

        training_values_add(&loop->result->values, loss.name, loss.mean);
        training_values_add(&loop->result->values, loss.error_name, loss.error);
    }
}

/* Evaluates the set, if there is one, and adds its metrics to the result's values. 1: asked to
 * stop. */
static int loop_evaluate(struct loop *loop, enum metric_subset subset, struct error *error)
{
    struct training *training = loop->training;
    bool validation = subset == METRIC_VALIDATION;
    struct feed *feed = validation ? training->validation : training->test;
    unsigned task = metric_task(training->data.train.dataset, &training->data.heads);
    bool reads = metrics_head_count(training->metrics) ||
                 training->measured[subset] & ~metrics_of_sums(task);
    struct reading reading = {training->metrics,
                              validation ? &training->data.validation : &training->data.test};
    struct step_metrics sums;
    double before = loop->mark;
    int r;

    if (!feed)
        return 0;
    if (reads)
        metrics_begin(training->metrics, training->measured[subset]);
    profile_enter(training->profile, PROFILE_EVALUATION);
    r = evaluation_run(training->session, feed, loop_launch_batches(loop),
                       reads ? read_outputs : NULL, &reading, &loop->requests->stop, &sums, error);
    profile_enter(training->profile, PROFILE_OTHER);
    loop_mark(loop, false);
    if (r < 0)
        return r == -EINTR ? 1 : r;
    loop->result->evaluation_seconds += loop->mark - before;
    loop->result->evaluation_samples += (double)sums.samples;
    r = add_metrics(loop, subset, &sums, error);
    if (r == 0)
        add_heads(loop, subset);
    return r;
}

bool loop_evaluation_is_due(const struct loop *loop)
{
    const struct training_config *config = &loop->training->config;
    const struct checkpoint_state *state = loop->state;

    return config->evaluate_every_steps && state->step > 0 && state->micro_step == 0 &&
           state->step % config->evaluate_every_steps == 0 && state->step != state->measured_step &&
           state->position < loop->training->epoch_samples;
}

/* Whether an evaluation is due at the end of the epoch. The run's last weights are always
 * evaluated. */
static bool epoch_evaluation_is_due(const struct loop *loop)
{
    const struct training_config *config = &loop->training->config;
    const struct checkpoint_state *state = loop->state;

    if (state->step == loop->training->total_steps)
        return true;
    return config->evaluate_every_steps ? state->step % config->evaluate_every_steps == 0
                                        : (state->epoch + 1) % config->evaluate_every_epochs == 0;
}

/* Adds the time of the whole epoch, and its energy if the device measures it. */
static void add_epoch(struct loop *loop)
{
    struct training_values *values = &loop->result->values;
    double joules = loop_read_energy(loop) - loop->epoch_energy;

    training_values_add(values, "epoch_seconds",
                        loop->state->epoch_seconds + loop->evaluation_seconds);
    if (joules >= 0) /* false for NAN, too */
        training_values_add(values, "epoch_joules", joules);
}

/* Fills the result's values with those of the epoch so far. 1: asked to stop. */
static int measure(struct loop *loop, bool evaluates, struct error *error)
{
    const struct step_metrics *sums = &loop->state->sums;
    struct training_values *values = &loop->result->values;
    double before = loop->mark;
    int r = loop_read_sums(loop, error);

    values->count = 0;
    if (r < 0)
        return r;
    if (sums->samples) {
        training_values_add(values, "train_loss", step_metrics_loss(sums));
        if (loop->training->classification)
            training_values_add(values, "train_accuracy",
                                (double)sums->correct / (double)sums->labels);
    }
    if (evaluates)
        r = loop_evaluate(loop, METRIC_VALIDATION, error);
    if (r != 0)
        return r;
    loop->evaluation_seconds += loop->mark - before;
    if (loop->state->epoch_seconds > 0)
        training_values_add(values, "samples_per_second",
                            (double)sums->samples / loop->state->epoch_seconds);
    training_values_add(values, "learning_rate", loop->learning_rate);
    if (loop->state->loss_scale.scale > 0) {
        training_values_add(values, "loss_scale", loop->state->loss_scale.scale);
        training_values_add(values, "skipped_steps", (double)loop->state->loss_scale.skipped);
    }
    if (loop->state->position == loop->training->epoch_samples)
        add_epoch(loop);
    return 0;
}

/* Applies what follows from the values: trackers, the best weights, the plateau schedule. `best`:
 * whether they are the best so far by checkpoint.best. */
static int watch(struct loop *loop, bool *best, struct error *error)
{
    struct training *training = loop->training;
    const struct training_config *config = &training->config;
    struct checkpoint_state *state = loop->state;
    const double *of_best = find_value(&loop->result->values, state->best.metric);
    const double *of_early = find_value(&loop->result->values, state->early.metric);
    const double *of_plateau = find_value(&loop->result->values, state->plateau.metric);
    double epoch = loop_epoch(loop);
    int r = 0;

    *best = of_best && tracker_update(&state->best, *of_best, state->step, epoch);
    if (of_early && tracker_update(&state->early, *of_early, state->step, epoch) &&
        training->best_weights.values)
        r = weights_copy_save(&training->best_weights, training->session, error);
    if (of_plateau && state->step - loop->training->steps_before >= config->schedule.warmup_steps)
        plateau_update(&state->plateau, &config->schedule.plateau, *of_plateau);
    if (r == 0 && *best && loop->events->best)
        r = loop->events->best(loop->events->context, &state->best, error);
    return r;
}

/* 1: asked to stop. */
static int measure_and_watch(struct loop *loop, bool evaluates, bool *best, struct error *error)
{
    int r = measure(loop, evaluates, error);

    if (r == 0 && loop->events->metrics)
        r = loop->events->metrics(loop->events->context, loop->state->step, loop_epoch(loop),
                                  &loop->result->values, error);
    if (r == 0)
        r = watch(loop, best, error);
    if (r == 0)
        loop->state->measured_step = loop->state->step;
    return r;
}

int loop_measure(struct loop *loop, struct error *error)
{
    bool best = false;
    int r = measure_and_watch(loop, true, &best, error);

    return r == 0 && best ? loop_write_checkpoint(loop, true, error) : r;
}

int loop_finish_epoch(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    const struct training_config *config = &training->config;
    struct checkpoint_state *state = loop->state;
    bool whole = state->position == training->epoch_samples, best = false;
    int r = 0;

    if (state->measured_step != state->step)
        r = measure_and_watch(loop, epoch_evaluation_is_due(loop), &best, error);
    if (r != 0)
        return r;
    if (whole) {
        state->epoch++;
        state->position = 0;
        state->epoch_seconds = loop->evaluation_seconds = 0;
        loop->epoch_energy = loop->energy; /* which add_epoch() has read */
        session_reset_metrics(training->session, true);
    }
    if (best || (whole && config->checkpoint_every_epochs &&
                 state->epoch % config->checkpoint_every_epochs == 0))
        r = loop_write_checkpoint(loop, best, error);
    return r;
}

int loop_test(struct loop *loop, enum metric_subset subset, struct error *error)
{
    const struct training_values *values = &loop->result->values;
    struct training_values test = {.count = 0};
    int before = values->count;
    int r = loop_evaluate(loop, subset, error);

    if (r != 0 || !loop->training->test || !loop->events->metrics)
        return r;
    for (int i = before; i < values->count; i++)
        training_values_add(&test, values->values[i].name, values->values[i].value);
    return loop->events->metrics(loop->events->context, loop->state->step, loop_epoch(loop), &test,
                                 error);
}

int loop_test_was_last(struct loop *loop, struct error *error)
{
    static const char prefix[] = "last_";
    struct training_values *values = &loop->result->values;
    struct training_values test = {.count = 0};

    for (int i = 0; i < values->count; i++)
        if (strncmp(values->values[i].name, "last_test_", 10) == 0)
            training_values_add(&test, values->values[i].name + strlen(prefix),
                                values->values[i].value);
    for (int i = 0; i < test.count; i++)
        training_values_add(values, test.values[i].name, test.values[i].value);
    if (test.count == 0 || !loop->events->metrics)
        return 0;
    return loop->events->metrics(loop->events->context, loop->state->step, loop_epoch(loop), &test,
                                 error);
}
