/* advice_text.c: see advice_text.h. */
#include "worker/trainee/advice_text.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT(...) snprintf(text, ADVICE_TEXT_BYTES, __VA_ARGS__)

static double percent(double share)
{
    return 100 * share;
}

static double share(const struct advice_facts *facts, enum advice_bottleneck part)
{
    return percent(facts->time.part[part]);
}

/* Whether it is known what the time goes into. */
static bool is_divided(const struct advice_facts *facts)
{
    return !facts->parts->reason[0];
}

static const char *plural(double number)
{
    return number == 1 ? "" : "s";
}

/* "epoch", "20 epochs": behind "every". */
static char *format_interval(int64_t steps, int64_t epochs, char *text, size_t size)
{
    int64_t number = steps ? steps : epochs;
    const char *unit = steps ? "step" : "epoch";

    if (number == 1)
        snprintf(text, size, "%s", unit);
    else
        snprintf(text, size, "%" PRId64 " %ss", number, unit);
    return text;
}

/* ---- causes ---- */

static void cause_of_batch(const struct advice_facts *facts, char *text)
{
    const struct measurement *base = facts->base;
    enum advice_bottleneck largest = advice_time_largest(&facts->time);

    if (largest == ADVICE_LAUNCH)
        TEXT("A step has %" PRId64 " sample%s: beginning its operators and waiting for threads "
             "takes %.0f%% of the time, and takes as long with more samples.",
             base->batch, plural((double)base->batch), share(facts, ADVICE_LAUNCH));
    else if (facts->parts->update_share > 0.3)
        TEXT("A step has %" PRId64 " sample%s, and updating all %.0f parameters after it takes "
             "%.0f%% of its time, however many samples it has.",
             base->batch, plural((double)base->batch), base->parameters,
             percent(facts->parts->update_share));
    else
        TEXT("A step of %" PRId64 " sample%s reads all %.0f parameters, and does not fill the "
             "units of %s.",
             base->batch, plural((double)base->batch), base->parameters, base->device);
}

static void cause_of_threads(const struct advice_facts *facts, const struct measurement *measured,
                             char *text)
{
    if (measured->threads > facts->base->threads)
        TEXT("%d of the %d cores that this process may use train%s.", facts->base->threads,
             facts->cores, facts->base->threads == 1 ? "s" : "");
    else if (is_divided(facts))
        TEXT("A step is too small for %d threads: they wait for each other, which takes %.0f%% of "
             "the time.",
             facts->base->threads, share(facts, ADVICE_LAUNCH));
    else
        TEXT("A step is too small for %d threads: they wait for each other.", facts->base->threads);
}

static void cause_of_loader_threads(const struct advice_facts *facts,
                                    const struct measurement *measured, char *text)
{
    int present = facts->base->loader_threads;

    if (measured->loader_threads < present)
        TEXT("%d thread%s prepare%s batches, and to hand one over takes longer than to make it.",
             present, plural(present), present == 1 ? "s" : "");
    else if (present == 0 && is_divided(facts))
        TEXT("The thread that trains prepares each batch itself, which takes %.0f%% of the time.",
             share(facts, ADVICE_DATA));
    else if (present == 0)
        TEXT("The thread that trains prepares each batch itself.");
    else if (!is_divided(facts))
        TEXT("%d thread%s prepare%s batches, and training waits for them.", present,
             plural(present), present == 1 ? "s" : "");
    else
        TEXT("Training waits for batches for %.0f%% of the time: %d thread%s prepare%s them.",
             share(facts, ADVICE_DATA), present, plural(present), present == 1 ? "s" : "");
}

static void cause_of_augmentation(const struct advice_facts *facts, char *text)
{
    if (is_divided(facts))
        TEXT("To change the samples takes longer than the threads that prepare them have: training "
             "waits for batches for %.0f%% of the time.",
             share(facts, ADVICE_DATA));
    else
        TEXT("To change the samples takes longer than the threads that prepare them have.");
}

static void cause_of_evaluation(const struct advice_facts *facts, char *text)
{
    const struct advice_rhythm *rhythm = &facts->rhythm;
    double seconds = facts->parts->costs.evaluation;
    char duration[48], every[48];

    TEXT("The validation set is evaluated every %s. That takes %s, as long as training on %.0f "
         "samples, and %.0f%% of the time, with the checkpoints of the best weights.",
         format_interval(rhythm->evaluate_steps, rhythm->evaluate_epochs, every, sizeof every),
         text_format_duration(seconds, duration, sizeof duration), seconds / facts->base->step,
         share(facts, ADVICE_EVALUATION) + percent(facts->cost.best / facts->cost.all));
}

static void cause_of_checkpoints(const struct advice_facts *facts, char *text)
{
    const struct advice_rhythm *rhythm = &facts->rhythm;
    char duration[48], every[48];

    if (rhythm->checkpoint_seconds > 0)
        text_format_duration(rhythm->checkpoint_seconds, every, sizeof every);
    else
        format_interval(rhythm->checkpoint_steps, rhythm->checkpoint_epochs, every, sizeof every);
    TEXT("A checkpoint is written every %s. One takes %s, and all of them %.0f%% of the time.",
         every, text_format_duration(facts->parts->costs.checkpoint, duration, sizeof duration),
         share(facts, ADVICE_CHECKPOINTS));
}

char *advice_cause(const struct advice_facts *facts, const struct advice_option *option,
                   const struct measurement *measured, char text[ADVICE_TEXT_BYTES])
{
    const struct measurement *base = facts->base;

    text[0] = '\0';
    switch (option->kind) {
    case ADVICE_BATCH:
        cause_of_batch(facts, text);
        break;
    case ADVICE_ACCUMULATE:
        TEXT("An update adds up %" PRId64 " batches of %" PRId64 " samples, although larger "
             "batches fit into the memory: every batch begins all operators anew.",
             base->accumulate, base->batch);
        break;
    case ADVICE_PRECISION:
        TEXT("Products are calculated in %s, and %s is faster in %s.", base->precision,
             base->device, measured->precision);
        break;
    case ADVICE_RECOMPUTE:
        TEXT("Activations are calculated again for the gradients, although all of them fit into "
             "the memory.");
        break;
    case ADVICE_DETERMINISTIC:
        TEXT("%s has faster algorithms, which add in any order.", base->device);
        break;
    case ADVICE_LENGTH_BUCKETS:
        TEXT("All sequences are padded to the longest one, and padding is calculated like any "
             "other step.");
        break;
    case ADVICE_LOADER_THREADS:
        cause_of_loader_threads(facts, measured, text);
        break;
    case ADVICE_THREADS:
        cause_of_threads(facts, measured, text);
        break;
    case ADVICE_AUGMENT:
        cause_of_augmentation(facts, text);
        break;
    case ADVICE_WIDTH:
        TEXT("Widths of the model are no multiples of what the vector units of %s work in.",
             base->device);
        break;
    case ADVICE_EVALUATE:
        cause_of_evaluation(facts, text);
        break;
    case ADVICE_CHECKPOINT:
        cause_of_checkpoints(facts, text);
        break;
    case ADVICE_KINDS:
        break;
    }
    return text;
}

/* ---- results ---- */

static void result_of_batch(const struct advice_facts *facts, const struct measurement *measured,
                            char *text)
{
    bool sgd = strcmp(facts->optimizer, "sgd") == 0;
    double factor = (double)measured->batch / (double)facts->base->batch;

    TEXT("Epochs have fewer updates, so the learning rate has to grow: begin with %.3g (%s), or "
         "measure it by `trainctl lr-find`. Beyond some batch more epochs are needed (McCandlish "
         "and others 2018, arXiv:1812.06162).",
         advice_learning_rate(facts->learning_rate, factor, sgd),
         sgd ? "in proportion: Goyal and others 2017, arXiv:1706.02677"
             : "by the root of the batch: Malladi and others 2022, arXiv:2205.10092");
}

static void result_of_precision(const struct measurement *measured, char *text)
{
    if (strcmp(measured->precision, "float32") == 0)
        TEXT("Products are more exact.");
    else
        TEXT("What products read is rounded to %d bits: compare the validation metrics of a run "
             "of each.",
             strcmp(measured->precision, "bfloat16") == 0 ? 8 : 11);
}

char *advice_result(const struct advice_facts *facts, const struct advice_option *option,
                    const struct measurement *measured, char text[ADVICE_TEXT_BYTES])
{
    struct advice_costs costs = facts->parts->costs;
    struct advice_cost cost;
    char duration[48];
    double samples;

    text[0] = '\0';
    switch (option->kind) {
    case ADVICE_BATCH:
        result_of_batch(facts, measured, text);
        break;
    case ADVICE_ACCUMULATE:
        TEXT("The updates are the same but for rounding, unless batch norm measures its moments "
             "over the larger batch.");
        break;
    case ADVICE_PRECISION:
        result_of_precision(measured, text);
        break;
    case ADVICE_RECOMPUTE:
        TEXT("The results have the same bits; the run takes more memory.");
        break;
    case ADVICE_DETERMINISTIC:
        TEXT("Two runs, or one that is resumed, differ in the last bits.");
        break;
    case ADVICE_LENGTH_BUCKETS:
        TEXT("A batch then has sequences of similar lengths, so that the order of samples "
             "changes.");
        break;
    case ADVICE_LOADER_THREADS:
        TEXT("The results have the same bits.");
        break;
    case ADVICE_THREADS:
        TEXT("The results have the same bits. The daemon books as many cores.");
        break;
    case ADVICE_AUGMENT:
        TEXT("The model sees less varied samples, and may generalise worse.");
        break;
    case ADVICE_WIDTH:
        TEXT("It is another model, with %.0f parameters instead of %.0f.", measured->parameters,
             facts->base->parameters);
        break;
    case ADVICE_EVALUATE:
        TEXT("The weights are the same. There are fewer measurements; the patience of an early "
             "stop and of the schedule plateau counts these, and the best weights are chosen "
             "among fewer.");
        break;
    case ADVICE_CHECKPOINT:
        samples = option->rhythm.checkpoint_steps
                      ? (double)option->rhythm.checkpoint_steps * option->rhythm.step_samples
                      : (double)option->rhythm.checkpoint_epochs * option->rhythm.epoch_samples;
        costs.step = facts->base->step;
        cost = advice_cost_of(&costs, &option->rhythm);
        text_format_duration(samples * (cost.all - cost.checkpoints), duration, sizeof duration);
        TEXT("The weights are the same. After a crash the steps of %s at most are made again.",
             duration);
        break;
    case ADVICE_KINDS:
        break;
    }
    return text;
}

/* ---- the bound ---- */

char *advice_bound(const struct advice_facts *facts, char text[ADVICE_TEXT_BYTES])
{
    enum advice_bottleneck largest = advice_time_largest(&facts->time);
    double part = share(facts, largest);

    if (!facts->parts->calibrated && largest != ADVICE_DATA && largest < ADVICE_EVALUATION)
        TEXT("%s is bound by its operators. `traind-worker calibrate` tells how close they are to "
             "what it can do.",
             facts->base->device);
    else if (largest == ADVICE_ARITHMETIC)
        TEXT("Arithmetic bounds it: %.0f%% of the time, at %.0f%% of the speed that products of "
             "matrices reach here.",
             part, percent(fmin(facts->parts->ceiling_share, 1))); /* timings differ */
    else if (largest == ADVICE_MEMORY)
        TEXT("Memory bounds it: operators that mostly move bytes take %.0f%% of the time.", part);
    else if (largest == ADVICE_LAUNCH)
        TEXT("Small operators bound it: to begin them and to wait for threads takes %.0f%% of the "
             "time.",
             part);
    else
        TEXT("%s takes most: %.0f%% of the time.",
             largest == ADVICE_DATA         ? "Preparing batches"
             : largest == ADVICE_EVALUATION ? "Evaluating"
                                            : "Writing checkpoints",
             part);
    return text;
}
