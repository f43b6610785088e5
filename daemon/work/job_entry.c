/* job_entry.c: see job_entry.h. */
#include "daemon/work/job_entry.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

char *job_needs_text(struct json_object *spec)
{
    static const char *const keys[] = {"device", "resources"};
    JSON_AUTO struct json_object *part = json_object_new_object();

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_set(part, keys[i], json_object_get(json_get(spec, keys[i])));
    return memory_copy_text(json_text(part, NULL));
}

char *job_user_name(uid_t uid)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];

    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        return memory_copy_text(found->pw_name);
    return memory_format("%u", (unsigned)uid);
}

void job_entry_release(struct job_entry *entry)
{
    free(entry->name);
    free(entry->spec);
    free(entry->group);
    free(entry->needs);
    free(entry->final_reason);
    dependencies_release(&entry->submission.dependencies);
}

int job_entry_prepare(struct json_object *spec, uid_t uid, struct job_entry *entry,
                      struct job_spec_fault *fault, struct error *error)
{
    struct json_object *normalised JSON_AUTO = NULL;
    struct job_submission *submission = &entry->submission;
    const char *text, *group;
    size_t length;
    int result = job_spec_normalise(spec, &normalised, fault, error);

    if (result < 0)
        return result;
    text = json_text(normalised, &length);
    if (length > SPEC_TEXT_MAX)
        return error_set(
            error, -EINVAL,
            "the specification has %zu bytes with its defaults; at most %d are allowed", length,
            SPEC_TEXT_MAX);
    group = json_get_string(normalised, "group", NULL);
    entry->spec = strdup(text);
    entry->name = strdup(json_get_string(normalised, "name", ""));
    entry->group = group ? strdup(group) : NULL;
    entry->needs = job_needs_text(normalised);
    if (!entry->spec || !entry->name || (group && !entry->group) ||
        dependencies_read(json_get(normalised, "after"), &submission->dependencies) < 0)
        return error_no_memory(error, "a specification of %zu bytes", length);
    snprintf(entry->snapshot, sizeof entry->snapshot, "%s",
             json_get_string(json_get(normalised, "snapshot"), "id", ""));
    entry->has_at = json_get(normalised, "at") != NULL;
    entry->weights_job = json_get_int(json_get(normalised, "weights"), "job", 0);
    entry->weights_step = json_get_int(json_get(normalised, "weights"), "step", -1);
    submission->uid = uid;
    submission->kind = job_spec_is_command(normalised) ? JOB_COMMAND : JOB_NATIVE;
    submission->priority = (int)json_get_int(normalised, "priority", 0);
    submission->put_first = json_get_double(normalised, "put_first", 0);
    submission->held = json_get_bool(normalised, "hold", false);
    submission->at = json_get_double(normalised, "at", 0);
    submission->notifies = json_get(normalised, "notify") != NULL;
    submission->group = entry->group;
    submission->needs = entry->needs;
    if (submission->kind == JOB_NATIVE)
        job_spec_plan_digest(normalised, submission->plan_digest);
    else
        job_spec_command_digest(normalised, submission->plan_digest);
    return 0;
}

int job_priority_check(int64_t priority, int64_t maximum, struct job_spec_fault *fault,
                       struct error *error)
{
    if (priority <= maximum)
        return 0;
    *fault = (struct job_spec_fault){.path = "priority"};
    return error_set(error, -EINVAL,
                     "priority is %lld; users may give at most %lld (PriorityMax), only "
                     "administrators more",
                     (long long)priority, (long long)maximum);
}

static void format_local(double at, char *text, size_t size)
{
    time_t seconds = (time_t)at;
    struct tm parts;

    if (!localtime_r(&seconds, &parts) || !strftime(text, size, "%F %T %Z", &parts))
        snprintf(text, size, "%.0f", at);
}

char *job_at_describe(double at, char *text, size_t size)
{
    char time[64];

    format_local(at, time, sizeof time);
    snprintf(text, size, "waits until %s (at)", time);
    return text;
}

int job_at_check(bool has_at, double at, double now, struct job_spec_fault *fault,
                 struct error *error)
{
    char asked[64], present[64];

    if (!has_at || at > now)
        return 0;
    *fault = (struct job_spec_fault){.path = "at"};
    format_local(at, asked, sizeof asked);
    format_local(now, present, sizeof present);
    return error_set(error, -EINVAL,
                     "at is %s, which has passed: it is %s. Give a later time, or none to start at "
                     "once",
                     asked, present);
}
