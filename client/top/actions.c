/* actions.c: what the keys of `top` do to the selected job: questions, calls to the daemon, and
 * what came of them. The number of the job is kept from the key on: another one may stand in its
 * place when the question is answered. */
#include "client/connection/connection.h"
#include "client/top/top.h"
#include "client/view/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
    ANSWER_MILLISECONDS = 5000,
    NAME_SHOWN = 60,
    PRIORITY_GREATEST = 1000 /* of either sign, by the schema of specifications */
};

static void __attribute__((format(printf, 3, 4)))
message_set(struct top *top, enum style style, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(top->message, sizeof top->message, format, arguments);
    va_end(arguments);
    top->message_style = style;
}

/* ---- calls --------------------------------------------------------------------------------- */

static void failure_tell(struct top *top, int result, const struct error *error)
{
    if (result == -ETIMEDOUT)
        message_set(top, STYLE_RED, "the daemon has not answered; it may be done all the same");
    else
        message_set(top, STYLE_RED, "%s", error->text);
}

/* Tells what the daemon has made of the job. */
static void outcome_tell(struct top *top, struct json_object *job)
{
    const char *reason = job_reason(job);

    message_set(top, STYLE_GREEN, "job %" PRId64 ": %s%s%s", json_get_int(job, "id", 0),
                json_get_string(job, "state", "?"), *reason ? ": " : "", reason);
}

/* Whether the daemon would do it with `force`: its sentence names the option. */
static bool force_helps(const struct error *error)
{
    return strstr(error->text, "--force") != NULL;
}

/* Asks once more, as work would be lost. */
static void force_ask(struct top *top, enum action action, const struct error *error)
{
    char question[640];

    snprintf(question, sizeof question, "Do it all the same? y/N  %.500s", error->text);
    prompt_confirm(&top->prompt, question);
    top->action = action;
    top->action_force = true;
}

/* Calls a method that answers with the job. */
static void job_call(struct top *top, enum action action, const char *method, const char *device,
                     bool force)
{
    struct varlink_reply reply;
    struct json_object *parameters = json_object_new_object();
    struct error error = {0};
    int result;

    json_set_int(parameters, "id", top->action_job);
    if (device)
        json_set_string(parameters, "device", device);
    if (force)
        json_set_bool(parameters, "force", true);
    result = connection_call_quietly(top->invocation, ANSWER_MILLISECONDS, method, parameters,
                                     &reply, &error);
    if (result == 0)
        outcome_tell(top, json_get(reply.parameters, "job"));
    else if (!force && force_helps(&error))
        force_ask(top, action, &error);
    else
        failure_tell(top, result, &error);
    if (result == 0)
        varlink_reply_release(&reply);
    top->changed = true;
}

/* The job is shown with its new priority at once: the next key may come before the picture. */
static void priority_show(struct top *top, int64_t priority)
{
    struct json_object *job = job_list_selected(&top->list);

    if (json_get_int(job, "id", 0) == top->action_job)
        json_set_int(job, "priority", priority);
}

static void priority_call(struct top *top, int64_t priority)
{
    struct varlink_reply reply;
    struct json_object *parameters = json_object_new_object(), *ids = json_object_new_array(),
                       *changes = json_object_new_object(), *edited;
    struct error error = {0};
    const char *change;
    int result;

    json_object_array_add(ids, json_object_new_int64(top->action_job));
    json_set_int(changes, "priority", priority);
    json_set(parameters, "ids", ids);
    json_set(parameters, "changes", changes);
    result = connection_call_quietly(top->invocation, ANSWER_MILLISECONDS, "Edit", parameters,
                                     &reply, &error);
    top->changed = true;
    if (result < 0) {
        failure_tell(top, result, &error);
        return;
    }
    edited = json_object_array_get_idx(json_get(reply.parameters, "edited"), 0);
    change = json_get_string(edited, "change", NULL);
    message_set(top, STYLE_GREEN, "job %" PRId64 ": %s", top->action_job,
                change ? change : "it is so already");
    varlink_reply_release(&reply);
    priority_show(top, priority);
}

/* ---- questions ----------------------------------------------------------------------------- */

/* "job 12 (fashion-cnn)" */
static char *job_title(struct json_object *job, char *output, size_t size)
{
    const char *name = json_get_string(job, "name", "");

    snprintf(output, size, "job %" PRId64 "%s%.*s%s", json_get_int(job, "id", 0), *name ? " (" : "",
             NAME_SHOWN, name, *name ? ")" : "");
    return output;
}

/* Asks for the device; the tabulator goes through the others. */
static void move_ask(struct top *top, struct json_object *job)
{
    struct json_object *devices = json_get(top->picture.devices, "devices");
    const char *present = json_get_string(job, "device", "");
    char title[160], question[320];

    snprintf(question, sizeof question,
             "move %s to (Tab: the next device):", job_title(job, title, sizeof title));
    prompt_ask(&top->prompt, question, "");
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        const char *name = json_get_string(json_object_array_get_idx(devices, i), "name", "");

        if (strcmp(name, present) != 0)
            prompt_add_choice(&top->prompt, name);
    }
    prompt_add_choice(&top->prompt, "auto");
}

/* Asks what is to be asked; without a question it is done at once. */
static void job_action_begin(struct top *top, enum action action, struct json_object *job)
{
    char title[160], question[320], text[32];

    job_title(job, title, sizeof title);
    switch (action) {
    case ACTION_CANCEL:
        snprintf(question, sizeof question, "cancel %s? y/N", title);
        prompt_confirm(&top->prompt, question);
        break;
    case ACTION_MOVE:
        move_ask(top, job);
        break;
    case ACTION_PRIORITY:
        snprintf(question, sizeof question, "priority of %s:", title);
        snprintf(text, sizeof text, "%" PRId64, json_get_int(job, "priority", 0));
        prompt_ask(&top->prompt, question, text);
        break;
    default:
        top_action_finish(top);
        break;
    }
}

void top_action_begin(struct top *top, enum action action)
{
    struct json_object *job = job_list_selected(&top->list);

    top->action = action;
    top->action_force = false;
    if (action == ACTION_FILTER) {
        prompt_ask(&top->prompt, "show jobs with:", top->list.filter);
        return;
    }
    if (!job) {
        message_set(top, STYLE_YELLOW, "no job is selected");
        return;
    }
    top->action_job = json_get_int(job, "id", 0);
    if (job_state_is_final(json_get_string(job, "state", ""))) {
        message_set(top, STYLE_YELLOW, "job %" PRId64 " has ended", top->action_job);
        return;
    }
    job_action_begin(top, action, job);
}

static void priority_finish(struct top *top, const char *text)
{
    char *end;
    long priority;

    errno = 0;
    priority = strtol(text, &end, 10);
    if (end == text || *end || errno) {
        message_set(top, STYLE_RED, "\"%s\" is no priority: a whole number is", text);
        return;
    }
    priority_call(top, priority);
}

static void filter_finish(struct top *top, const char *text)
{
    snprintf(top->list.filter, sizeof top->list.filter, "%s", text);
    job_list_arrange(&top->list);
}

void top_action_finish(struct top *top)
{
    enum action action = top->action;
    bool force = top->action_force;
    char text[PROMPT_BYTES];

    snprintf(text, sizeof text, "%s", top->prompt.text);
    prompt_close(&top->prompt);
    top->action = ACTION_NONE;
    if (action == ACTION_MOVE && !force)
        snprintf(top->action_device, sizeof top->action_device, "%s", text);
    switch (action) {
    case ACTION_CANCEL:
        job_call(top, action, "Cancel", NULL, false);
        break;
    case ACTION_PAUSE:
        job_call(top, action, "Pause", NULL, force);
        break;
    case ACTION_RESUME:
        job_call(top, action, "Resume", NULL, false);
        break;
    case ACTION_MOVE:
        if (*top->action_device)
            job_call(top, action, "Move", top->action_device, force);
        break;
    case ACTION_PRIORITY:
        priority_finish(top, text);
        break;
    case ACTION_FILTER:
        filter_finish(top, text);
        break;
    default:
        break;
    }
}

void top_priority_step(struct top *top, int step)
{
    struct json_object *job = job_list_selected(&top->list);
    int64_t priority = json_get_int(job, "priority", 0) + step;

    if (!job || priority > PRIORITY_GREATEST || priority < -PRIORITY_GREATEST)
        return;
    top->action_job = json_get_int(job, "id", 0);
    priority_call(top, priority);
}
