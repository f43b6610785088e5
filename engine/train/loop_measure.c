/* loop_measure.c: what follows an epoch: the sets are evaluated, the metrics told, and the best of
 * them watched; and the test at the end. */
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

static double find_value(const struct training_values *values, const char *name)
{
    for (int i = 0; i < values->count; i++) {
        if (strcmp(values->values[i].name, name) == 0)
            return values->values[i].value;
    }
    return NAN;
}

static int loop_evaluate(struct loop *loop, struct loader *loader, const char *loss_name,
                         const char *accuracy_name, struct error *error)
{
    struct training_values *values = &loop->result->values;
    struct step_metrics metrics;
    int r;

    if (!loader)
        return 0;
    r = evaluation_run(loop->training->session, loader, NULL, NULL, &loop->requests->stop, &metrics,
                       error);
    loop_mark(loop, false);
    if (r == -EINTR)
        return 1;
    if (r < 0)
        return r;
    training_values_add(values, loss_name, metrics.loss_sum / (double)metrics.samples);
    if (loop->training->classification)
        training_values_add(values, accuracy_name,
                            (double)metrics.correct / (double)metrics.samples);
    return 0;
}

/* Fills the result's values with those of the epoch. 1: asked to stop. */
static int loop_measure_epoch(struct loop *loop, struct error *error)
{
    const struct step_metrics *sums = &loop->state->sums;
    struct training_values *values = &loop->result->values;
    double before = loop->mark;
    int r = loop_read_sums(loop, error);

    values->count = 0;
    if (r < 0)
        return r;
    if (sums->samples) {
        training_values_add(values, "train_loss", sums->loss_sum / (double)sums->samples);
        if (loop->training->classification)
            training_values_add(values, "train_accuracy",
                                (double)sums->correct / (double)sums->samples);
    }
    r = loop_evaluate(loop, loop->training->validation, "validation_loss", "validation_accuracy",
                      error);
    if (r != 0)
        return r;
    if (loop->state->epoch_seconds > 0)
        training_values_add(values, "samples_per_second",
                            (double)sums->samples / loop->state->epoch_seconds);
    training_values_add(values, "learning_rate", loop->learning_rate);
    training_values_add(values, "epoch_seconds",
                        loop->state->epoch_seconds + (loop->mark - before));
    return 0;
}

int loop_finish_epoch(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    const struct training_config *config = &training->config;
    struct checkpoint_state *state = loop->state;
    bool whole = state->position == training->data.train.count, best = false;
    double epoch = loop_epoch(loop);
    int r = loop_measure_epoch(loop, error);

    if (r == 0 && loop->events->metrics)
        r = loop->events->metrics(loop->events->context, state->step, epoch, &loop->result->values,
                                  error);
    if (r != 0)
        return r;
    if (config->best_metric)
        best = tracker_update(&state->best, find_value(&loop->result->values, config->best_metric),
                              state->step, epoch);
    if (config->early_metric &&
        tracker_update(&state->early, find_value(&loop->result->values, config->early_metric),
                       state->step, epoch) &&
        training->best_weights.values)
        r = weights_copy_save(&training->best_weights, training->session, error);
    if (r == 0 && best && loop->events->best)
        r = loop->events->best(loop->events->context, &state->best, error);
    if (r < 0)
        return r;
    if (whole) {
        state->epoch++;
        state->position = 0;
        state->epoch_seconds = 0;
        session_reset_metrics(training->session, true);
    }
    if (best || (whole && config->checkpoint_every_epochs &&
                 state->epoch % config->checkpoint_every_epochs == 0))
        r = loop_write_checkpoint(loop, best, error);
    return r;
}

int loop_test(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    struct training_values test = {.count = 0};
    int r = loop_evaluate(loop, training->test, "test_loss", "test_accuracy", error);

    if (r != 0 || !training->test || !loop->events->metrics)
        return r;
    for (int i = 0; i < loop->result->values.count; i++) {
        const struct training_value *value = &loop->result->values.values[i];

        if (strncmp(value->name, "test_", 5) == 0)
            training_values_add(&test, value->name, value->value);
    }
    return loop->events->metrics(loop->events->context, loop->state->step, loop_epoch(loop), &test,
                                 error);
}
