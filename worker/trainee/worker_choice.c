/* worker_choice.c: see worker_choice.h. */
#include "worker/trainee/worker_choice.h"

#include "base/text.h"
#include "proto/json.h"
#include "worker/trainee/worker_estimate.h"
#include "worker/trainee/worker_precision.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The part of the memory that one job may fill if no limit is given: the same as the default of the
 * daemon's HighWatermarkRatio. */
static const double default_limit_ratio = 0.85;

/* Bytes that stay free below a limit. Processes were measured to peak up to 1 MiB above their
 * plan. */
static const size_t reserve_bytes = 4 << 20;

/* The batch of an evaluation if neither specification nor checkpoint has one. */
enum { EVALUATION_BATCH = 64 };

static void add_reason(struct worker_choice *choice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_reason(struct worker_choice *choice, const char *format, ...)
{
    va_list arguments;

    if (choice->reason_count == WORKER_REASONS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(choice->reasons[choice->reason_count++], WORKER_REASON_BYTES, format, arguments);
    va_end(arguments);
}

static double mebibytes(size_t bytes)
{
    return (double)bytes / 1024 / 1024;
}

/* ---- limits and choices that are given
 * -------------------------------------------------------- */

/* Finds the smallest of the given limits, or else a part of the device's memory. */
static int find_limit(const struct worker_setup *setup, const struct worker_options *options,
                      struct worker_choice *choice, struct error *error)
{
    uint64_t option = 0, specified = setup->spec.memory_limit;

    if (options->memory_limit && (text_parse_bytes(options->memory_limit, &option) < 0 || !option))
        return error_set(error, -EINVAL,
                         "--memory-limit is \"%s\"; it must be a size such as \"2 GiB\"",
                         options->memory_limit);
    choice->memory_limit = (size_t)(default_limit_ratio * (double)setup->device_info.memory_bytes);
    choice->limit_name = setup->device_info.owns_memory
                             ? "85% of the device's memory"
                             : "85% of the memory that this process may use";
    choice->limit_is_given = specified > 0;
    choice->limit_is_booked = option > 0;
    if (option) {
        choice->memory_limit = option;
        choice->limit_name = "--memory-limit";
    }
    if (specified && (!option || specified <= option)) {
        choice->memory_limit = specified;
        choice->limit_name = "train.memory_limit";
    }
    return 0;
}

struct json_object *worker_choices_json(const struct worker_setup *setup)
{
    const struct training_config *config = &setup->spec.training;
    struct json_object *json = json_object_new_object();

    json_set_int(json, "batch_size", config->batch);
    json_set_int(json, "accumulate", config->accumulate);
    if (config->recompute.kind == RECOMPUTE_SEGMENTS)
        json_set_int(json, "recompute", config->recompute.segments);
    else
        json_set_string(json, "recompute", recompute_kind_to_string(config->recompute.kind));
    if (config->direct_convolutions[0])
        json_set_string(json, "direct_convolutions", config->direct_convolutions);
    if (strcmp(setup->spec.precision, "auto") == 0)
        json_set_string(json, "precision", tensor_type_to_string(config->compute_type));
    return json;
}

/* Takes over the choices of a plan. */
static int take_choices(struct worker_setup *setup, const char *text, struct error *error)
{
    JSON_AUTO struct json_object *json = NULL;
    struct training_config *config = &setup->spec.training;
    int r = json_parse(text, strlen(text), &json, error);

    if (r < 0)
        return error_prefix(error, "--choices");
    config->batch = config->evaluation_batch = json_get_int(json, "batch_size", 0);
    config->accumulate = json_get_int(json, "accumulate", 0);
    if (config->batch < 1 || config->accumulate < 1 || !json_get(json, "recompute"))
        return error_set(error, -EINVAL,
                         "--choices needs batch_size, accumulate and recompute, as a plan has "
                         "them under \"choices\"");
    worker_spec_read_recompute(json_get(json, "recompute"), &setup->spec);
    snprintf(config->direct_convolutions, sizeof config->direct_convolutions, "%s",
             json_get_string(json, "direct_convolutions", ""));
    return 0;
}

int64_t worker_choice_evaluation_batch(const struct worker_setup *setup,
                                       const struct checkpoint_state *checkpoint)
{
    if (setup->spec.training.evaluation_batch)
        return setup->spec.training.evaluation_batch;
    return checkpoint->batch ? checkpoint->batch : EVALUATION_BATCH;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* The bytes of a plan that the limit concerns: the process's, or those on a device with its own
 * memory. */
static size_t measure_plan(void *setup, struct training *training)
{
    const struct worker_setup *s = setup;

    return s->device_info.owns_memory ? worker_estimate_device_bytes(setup, training)
                                      : worker_estimate_process_bytes(setup, training);
}

/* Refuses a plan that does not fit on its device or into a limit, before anything is allocated. */
static int check_device_memory(const struct worker_setup *setup, const struct worker_choice *choice,
                               struct training *training, struct error *error)
{
    const struct backend_device_info *info = &setup->device_info;
    size_t bytes = session_memory(training_session(training))->arena_bytes;

    if (info->owns_memory && (choice->limit_is_given || choice->limit_is_booked) &&
        bytes > choice->memory_limit)
        return error_set(error, -ERROR_DEVICE_MEMORY,
                         "the run needs %.1f MiB of the memory of %s, and %s is %.1f MiB",
                         mebibytes(bytes), info->name, choice->limit_name,
                         mebibytes(choice->memory_limit));
    if (!info->owns_memory || bytes <= info->memory_bytes)
        return 0;
    return error_set(error, -ERROR_DEVICE_MEMORY,
                     "the run needs %.1f MiB of the memory of %s, which has %.1f MiB: take a "
                     "smaller train.batch_size, or \"auto\"",
                     mebibytes(bytes), info->name, mebibytes(info->memory_bytes));
}

static void explain_batch(const struct worker_setup *setup, struct worker_choice *choice)
{
    const struct training_choice *found = &choice->found;
    double limit = mebibytes(choice->memory_limit);

    if (found->next_batch)
        add_reason(choice,
                   "batch_size %lld: takes %.1f MiB of the %.1f MiB of %s%s; %lld would take "
                   "%.1f MiB",
                   (long long)found->batch, mebibytes(found->bytes), limit, choice->limit_name,
                   setup->device_info.owns_memory ? "" : ", of which 4 stay free",
                   (long long)found->next_batch, mebibytes(found->next_bytes));
    else
        add_reason(choice, "batch_size %lld: takes %.1f MiB of the %.1f MiB of %s; it is %s",
                   (long long)found->batch, mebibytes(found->bytes), limit, choice->limit_name,
                   found->batch == setup->split.train.count ? "the whole training set"
                                                            : "the whole effective_batch_size");
}

static void explain_recompute(struct worker_choice *choice, const struct training_config *config)
{
    const struct training_choice *found = &choice->found;
    char segments[32];

    snprintf(segments, sizeof segments, "%d segments", config->recompute.segments);
    add_reason(choice, "recompute %s: takes %.1f MiB instead of %.1f MiB",
               config->recompute.kind == RECOMPUTE_SEGMENTS
                   ? segments
                   : recompute_kind_to_string(config->recompute.kind),
               mebibytes(found->bytes), mebibytes(found->kept_bytes));
}

static int search(struct worker_setup *setup, bool batch, struct worker_choice *choice,
                  struct error *error)
{
    const struct worker_spec *spec = &setup->spec;
    bool keeps_limit = batch || spec->recompute != RECOMPUTE_WISH_GIVEN || choice->limit_is_given;
    const struct training_wishes wishes = {
        .batch = batch,
        .effective_batch = spec->effective_batch,
        .recompute = spec->recompute,
        .memory_limit = keeps_limit ? choice->memory_limit : SIZE_MAX,
        .memory_reserve = keeps_limit && !setup->device_info.owns_memory ? reserve_bytes : 0,
        .memory_bytes = measure_plan,
        .context = setup};
    struct training_data data = worker_setup_data(setup);
    int r = training_choose(&setup->spec.training, &wishes, &data, setup->backend, setup->device,
                            worker_setup_build, setup, &choice->found, error);

    if (r < 0)
        return r == -ERROR_DEVICE_MEMORY ? error_prefix(error, "%s", choice->limit_name) : r;
    choice->memory_bytes = choice->found.bytes;
    choice->process_bytes = setup->device_info.owns_memory ? 0 : choice->found.bytes;
    if (batch)
        explain_batch(setup, choice);
    if (choice->found.recompute.kind != RECOMPUTE_NONE)
        explain_recompute(choice, &spec->training);
    return 0;
}

int worker_choice_prepare(struct worker_setup *setup, const struct worker_options *options,
                          const struct checkpoint_state *resumed, struct worker_choice *choice,
                          struct training **training, struct error *error)
{
    struct training_config *config = &setup->spec.training;
    bool batch = options->max_batch || config->batch == 0;
    struct training_data data;
    int r;

    *choice = (struct worker_choice){0};
    config->memory_limit = setup->spec.memory_limit;
    r = find_limit(setup, options, choice, error);
    if (r == 0 && options->choices)
        r = take_choices(setup, options->choices, error);
    if (r < 0)
        return r;
    if (batch && resumed && resumed->batch) {
        config->batch = config->evaluation_batch = resumed->batch;
        config->accumulate = resumed->accumulate;
    }
    if (resumed)
        worker_precision_adopt(resumed, false, setup);
    if (resumed)
        snprintf(config->direct_convolutions, sizeof config->direct_convolutions, "%s",
                 resumed->direct_convolutions);
    batch = batch && (options->max_batch || config->batch == 0);
    if (!options->choices)
        r = search(setup, batch, choice, error);
    data = worker_setup_data(setup);
    if (r == 0)
        r = training_prepare(config, &data, setup->backend, setup->device, worker_setup_build,
                             setup, training, error);
    return r < 0 ? r : check_device_memory(setup, choice, *training, error);
}
