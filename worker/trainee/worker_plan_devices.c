/* worker_plan_devices.c: plans for further devices (plan --also).
 *
 * A separate child process, forked after the data are open, plans for each device. Effects of a
 * driver on the process stay in the child. CUDA reads CUDA_VISIBLE_DEVICES once per process; each
 * child sets it to its device. */
#include "base/cleanup.h"
#include "base/file.h"
#include "worker/trainee/worker_backends.h"
#include "worker/trainee/worker_child.h"
#include "worker/trainee/worker_estimate.h"
#include "worker/trainee/worker_plan.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNNAMED_PATH_MAX = 32 };

/* A word for the cause of the failure, for programs. */
static const char *failure_cause(const struct worker_setup *setup, int code)
{
    if (setup->stage == WORKER_STAGE_DEVICE && setup->device)
        return "precision";
    if (setup->stage == WORKER_STAGE_DEVICE)
        return code == -ENOENT || code == -ERROR_OTHER_VERSION ? "plugin" : "device";
    return code == -ERROR_UNSUPPORTED                        ? "operator"
           : code == -ENOMEM || code == -ERROR_DEVICE_MEMORY ? "memory"
                                                             : "plan";
}

static void set_failure(struct json_object *entry, const char *cause, const char *reason)
{
    json_set_bool(entry, "runs", false);
    json_set_string(entry, "cause", cause);
    json_set_string(entry, "reason", reason);
}

/* Takes the members of a device's plan that concern only that device. */
static void take_members(struct json_object *plan, struct json_object *entry)
{
    static const char *const keys[] = {
        "threads",           "memory",           "memory_bytes",
        "precision",         "precision_reason", "kernels_per_batch",
        "predicted_seconds", "predicted_by",     "predicted_step_seconds",
        "warnings"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_set(entry, keys[i], json_object_get(json_get(plan, keys[i])));
    if (json_get_int(plan, "memory_bytes", 0) == 0)
        json_set_int(entry, "memory_bytes", json_get_int(json_get(plan, "memory"), "arena", 0));
}

/* The choices of the plan that apply to every device. */
static char *common_choices(struct json_object *plan)
{
    JSON_AUTO struct json_object *choices = NULL;

    if (json_object_deep_copy(json_get(plan, "choices"), &choices, NULL) < 0)
        return NULL;
    json_object_object_del(choices, "direct_convolutions");
    json_object_object_del(choices, "precision");
    return strdup(json_text(choices, NULL));
}

/* In the child, if the common choices need too much memory: adds choices that fit on the device as
 * "smaller" {choices, reasons, next_batch} to the entry. */
static void plan_smaller(const struct worker_options *options, struct worker_setup *setup,
                         struct json_object *entry)
{
    static const char *const keys[] = {"choices", "reasons", "next_batch"};
    struct training_config *config = &setup->spec.training;
    struct worker_options own = *options;
    JSON_AUTO struct json_object *plan = NULL;
    struct json_object *smaller;

    own.choices = NULL;
    config->batch = config->evaluation_batch = 0;
    config->accumulate = 1;
    if (worker_plan_make(&own, setup, &plan, NULL) < 0)
        return;
    smaller = json_object_new_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_set(smaller, keys[i], json_object_get(json_get(plan, keys[i])));
    json_set(entry, "smaller", smaller);
}

/* Writes the JSON to an unnamed file and fills its path for an option; false: it cannot be
 * written. */
static bool unnamed_file(struct json_object *json, char path[UNNAMED_PATH_MAX])
{
    size_t length;
    const char *text = json_text(json, &length);
    int descriptor = json ? memfd_create("calibration", MFD_CLOEXEC) : -1;

    /* it stays open until the child ends */
    snprintf(path, UNNAMED_PATH_MAX, "/proc/self/fd/%d", descriptor);
    return descriptor >= 0 && file_write_all(descriptor, text, length) == 0;
}

/* In the child: makes the device's entry. The parent's open device is not touched. */
static void plan_here(const struct worker_options *options, struct worker_setup *setup,
                      const char *choices, struct json_object *wanted, struct json_object *entry)
{
    struct worker_options own = *options;
    JSON_AUTO struct json_object *plan = NULL;
    struct error error = {0};
    char calibration[UNNAMED_PATH_MAX];
    int r;

    own.device = json_get_string(entry, "device", "");
    own.device_config = NULL;
    own.plugin = json_get_string(wanted, "plugin", options->plugin);
    own.calibration =
        unnamed_file(json_get(wanted, "calibration"), calibration) ? calibration : NULL;
    own.memory_limit = NULL; /* it concerns the machine's memory */
    own.choices = choices;
    setup->simulation.simulated = false;
    setup->device = NULL;
    setup->stage = WORKER_STAGE_DEVICE;
    r = worker_setup_open_device(&own, setup, &error);
    if (r == 0) {
        setup->stage = WORKER_STAGE_PLAN;
        r = worker_plan_make(&own, setup, &plan, &error);
    }
    if (setup->device)
        json_set(entry, "versions", worker_versions_json(&setup->device_info));
    if (r < 0) {
        set_failure(entry, failure_cause(setup, r), error.text);
        if ((r == -ENOMEM || r == -ERROR_DEVICE_MEMORY) && setup->stage == WORKER_STAGE_PLAN &&
            setup->spec.batch_is_auto)
            plan_smaller(&own, setup, entry);
        return;
    }
    json_set_bool(entry, "runs", true);
    take_members(plan, entry);
    if (own.calibration && strcmp(json_get_string(entry, "predicted_by", ""), own.calibration) == 0)
        json_set_string(entry, "predicted_by", "what the daemon keeps of it");
}

/* The child's input. */
struct question {
    const struct worker_options *options;
    struct worker_setup *setup;
    const char *choices;
    struct json_object *wanted;
};

static struct json_object *child_answer(void *data)
{
    const struct question *question = data;
    struct json_object *entry = json_object_new_object(), *wanted = question->wanted;
    const char *id = json_get_string(wanted, "id", NULL);

    if (id)
        worker_backend_see(json_get_string(wanted, "device", ""), id);
    json_set_string(entry, "device", json_get_string(wanted, "device", ""));
    json_set_string(entry, "type", json_get_string(wanted, "type", NULL));
    plan_here(question->options, question->setup, question->choices, wanted, entry);
    return entry;
}

static void explain_end(int status, char *text, size_t size)
{
    if (status < 0)
        snprintf(text, size, "no process can be started for it");
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(text, size, "its driver did not answer within %d seconds", WORKER_CHILD_SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "planning there was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "planning there ended with status %d", WEXITSTATUS(status));
}

static struct json_object *plan_elsewhere(const struct worker_options *options,
                                          struct worker_setup *setup, const char *choices,
                                          struct json_object *wanted)
{
    struct question question = {options, setup, choices, wanted};
    char text[160];
    int status;
    struct json_object *entry = worker_child_ask(child_answer, &question, &status);

    if (entry)
        return entry;
    explain_end(status, text, sizeof text);
    entry = json_object_new_object();
    json_set_string(entry, "device", json_get_string(wanted, "device", ""));
    json_set_string(entry, "type", json_get_string(wanted, "type", NULL));
    set_failure(entry, "device", text);
    return entry;
}

static struct json_object *plan_on_each(const struct worker_options *options,
                                        struct worker_setup *setup, struct json_object *plan,
                                        struct json_object *wanted)
{
    AUTO_FREE char *choices = common_choices(plan);
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; choices && i < json_object_array_length(wanted); i++)
        json_object_array_add(
            list, plan_elsewhere(options, setup, choices, json_object_array_get_idx(wanted, i)));
    return list;
}

static int64_t batch_of(struct json_object *smaller)
{
    return json_get_int(json_get(smaller, "choices"), "batch_size", INT64_MAX);
}

/* The entry with the smallest "smaller" batches; NULL: the common choices fit on all devices. */
static struct json_object *find_smallest(struct json_object *list)
{
    struct json_object *found = NULL;

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);

        if (json_get(entry, "smaller") &&
            (!found || batch_of(json_get(entry, "smaller")) < batch_of(json_get(found, "smaller"))))
            found = entry;
    }
    return found;
}

/* Makes the plan again with the choices and reasons of that entry. */
static int plan_again(const struct worker_options *options, struct worker_setup *setup,
                      struct json_object *entry, struct json_object **plan, struct error *error)
{
    struct json_object *smaller = json_get(entry, "smaller"), *reasons = json_object_new_array();
    struct json_object *given = json_get(smaller, "reasons");
    JSON_AUTO struct json_object *runs = json_object_get(json_get(*plan, "runs"));
    JSON_AUTO struct json_object *reason = json_object_get(json_get(*plan, "reason"));
    AUTO_FREE char *choices = common_choices(smaller);
    struct worker_options own = *options;
    char text[WORKER_REASON_BYTES + 64];
    int r;

    own.choices = choices;
    json_object_put(*plan);
    *plan = NULL;
    if (setup->backend->device_trim) /* frees memory of the previous plan */
        setup->backend->device_trim(setup->device);
    r = worker_plan_make(&own, setup, plan, error);
    for (size_t i = 0; i < json_object_array_length(given); i++) {
        snprintf(text, sizeof text, "on %s, %s", json_get_string(entry, "device", ""),
                 json_object_get_string(json_object_array_get_idx(given, i)));
        json_object_array_add(reasons, json_object_new_string(text));
    }
    if (r < 0) {
        json_object_put(reasons);
        return r;
    }
    json_set(*plan, "reasons", reasons);
    json_set(*plan, "next_batch", json_object_get(json_get(smaller, "next_batch")));
    if (runs)
        json_set(*plan, "runs", json_object_get(runs));
    if (reason)
        json_set(*plan, "reason", json_object_get(reason));
    return 0;
}

int worker_plan_devices(const struct worker_options *options, struct worker_setup *setup,
                        struct json_object **plan, struct error *error)
{
    JSON_AUTO struct json_object *wanted = NULL;
    JSON_AUTO struct json_object *list = NULL;
    struct json_object *smallest;
    int r = json_parse(options->also, strlen(options->also), &wanted, error);

    if (r < 0 || !json_object_is_type(wanted, json_type_array))
        return error_set(error, -EINVAL, "--also has to be an array of devices");
    list = plan_on_each(options, setup, *plan, wanted);
    smallest = find_smallest(list);
    if (smallest) {
        r = plan_again(options, setup, smallest, plan, error);
        if (r < 0)
            return r;
        json_object_put(list);
        list = plan_on_each(options, setup, *plan, wanted);
    }
    json_set(*plan, "devices", json_object_get(list));
    return 0;
}
