/* job_edit.c: see job_edit.h. */
#include "daemon/work/job_edit.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_SHOWN_MAX = 64 };

/* When keys may change that are not JOB_EDIT_WAITING. A row holds for the keys below it, too. */
static const struct {
    const char *path;
    enum job_edit_time native, command;
} rules[] = {
    {"name", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"priority", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"group", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"notify", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"retry", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"time_limit", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"resources.time", JOB_EDIT_ALWAYS, JOB_EDIT_ALWAYS},
    {"put_first", JOB_EDIT_PLACING, JOB_EDIT_PLACING},
    {"model", JOB_EDIT_UNBEGUN, JOB_EDIT_UNBEGUN},
    {"data", JOB_EDIT_UNBEGUN, JOB_EDIT_UNBEGUN},
    {"train", JOB_EDIT_UNBEGUN, JOB_EDIT_UNBEGUN},
    {"weights", JOB_EDIT_UNBEGUN, JOB_EDIT_UNBEGUN},
    {"directory", JOB_EDIT_UNBEGUN, JOB_EDIT_WAITING},
    {"after", JOB_EDIT_NEVER, JOB_EDIT_NEVER},
    {"hold", JOB_EDIT_NEVER, JOB_EDIT_NEVER},
    {"snapshot", JOB_EDIT_NEVER, JOB_EDIT_NEVER},
};

/* Keys that say when and where a job runs, and those that nobody edits. All others say what runs
 * with its owner's rights. */
static const char *const placing_keys[] = {"name",      "priority",   "put_first", "group",
                                           "retry",     "time_limit", "at",        "device",
                                           "resources", "after",      "hold",      "snapshot"};

/* Whether the path is that of the key, or of a key below it. */
static bool is_below(const char *path, const char *key)
{
    size_t length = strlen(key);

    return strncmp(path, key, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

static enum job_edit_time time_of(const char *path, enum job_kind kind)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (is_below(path, rules[i].path))
            return kind == JOB_NATIVE ? rules[i].native : rules[i].command;
    return JOB_EDIT_WAITING;
}

static bool is_owners(const char *path)
{
    for (size_t i = 0; i < sizeof placing_keys / sizeof *placing_keys; i++)
        if (is_below(path, placing_keys[i]))
            return false;
    return true;
}

/* ---- what changes ---------------------------------------------------------------------------- */

/* Takes in that a key changes, and adds "path old → new" to the sentence. */
static void note_change(struct job_edit *edit, const char *path, struct json_object *before,
                        struct json_object *after)
{
    enum job_edit_time time = time_of(path, edit->entry.submission.kind);
    char from[VALUE_SHOWN_MAX], to[VALUE_SHOWN_MAX];
    size_t used = strlen(edit->change), room = sizeof edit->change - used, added;
    static const char more[] = "; …";

    if (!*edit->owners_path && is_owners(path))
        snprintf(edit->owners_path, sizeof edit->owners_path, "%s", path);
    if (!*edit->path || time > edit->time)
        snprintf(edit->path, sizeof edit->path, "%s", path);
    edit->time = time > edit->time ? time : edit->time;
    added = (size_t)snprintf(edit->change + used, room, "%s%s %s → %s", used ? "; " : "", path,
                             job_spec_format_value(path, before, from, sizeof from),
                             job_spec_format_value(path, after, to, sizeof to));
    if (added + sizeof more > room) { /* the sentence is full */
        edit->change[used] = '\0';
        if (used >= sizeof more && strcmp(edit->change + used + 1 - sizeof more, more) != 0)
            strcat(edit->change, more);
    }
}

static void compare(struct job_edit *edit, const char *path, struct json_object *before,
                    struct json_object *after);

/* Compares the members of two objects, either of which may be absent. */
static void compare_members(struct job_edit *edit, const char *path, struct json_object *before,
                            struct json_object *after)
{
    char member[sizeof edit->path];

    if (before) {
        json_object_object_foreach (before, key, value) {
            snprintf(member, sizeof member, "%s%s%s", path, *path ? "." : "", key);
            compare(edit, member, value, json_get(after, key));
        }
    }
    if (after) {
        json_object_object_foreach (after, name, value) {
            if (json_object_object_get_ex(before, name, NULL))
                continue;
            snprintf(member, sizeof member, "%s%s%s", path, *path ? "." : "", name);
            compare(edit, member, NULL, value);
        }
    }
}

static void compare(struct job_edit *edit, const char *path, struct json_object *before,
                    struct json_object *after)
{
    bool objects = (!before || json_object_is_type(before, json_type_object)) &&
                   (!after || json_object_is_type(after, json_type_object));

    if (json_object_equal(before, after))
        return;
    if (objects && (before || after))
        compare_members(edit, path, before, after);
    else
        note_change(edit, path, before, after);
}

static bool texts_differ(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") != 0;
}

/* Fills in what the edit changes; `before` and `after` are normalised. */
static void find_changes(struct job_edit *edit, const struct job_entry *old,
                         struct json_object *before, struct json_object *after)
{
    const struct job_entry *new = &edit->entry;
    struct json_object *retry = json_get(after, "retry");

    compare_members(edit, "", before, after);
    edit->priority = new->submission.priority != old->submission.priority;
    edit->group = texts_differ(new->group, old->group);
    edit->needs = texts_differ(new->needs, old->needs);
    edit->work = texts_differ(new->submission.plan_digest, old->submission.plan_digest);
    edit->time_limit_seconds = json_get_double(after, "time_limit", 0);
    edit->time_limit = edit->time_limit_seconds != json_get_double(before, "time_limit", 0);
    edit->at = new->submission.at != old->submission.at || new->has_at != old->has_at;
    edit->retry_limit = (int)json_get_int(retry, "limit", -1);
    edit->backoff_seconds = json_get_double(retry, "backoff", -1);
}

int job_edit_prepare(struct json_object *spec, struct json_object *changes, uid_t uid,
                     struct job_edit *edit, struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *before = NULL, *after = NULL;
    struct job_entry old = {0};
    int result = job_entry_prepare(spec, uid, &old, fault, error);

    if (result == 0) {
        job_spec_drop_defaults(spec); /* some depend on what changes */
        job_spec_merge(spec, changes);
        result = job_entry_prepare(spec, uid, &edit->entry, fault, error);
    }
    if (result == 0 && edit->entry.submission.kind != old.submission.kind)
        result = error_set(error, -EINVAL,
                           "a command cannot become a native job, nor the other way round; submit "
                           "a new job");
    if (result == 0)
        result = json_parse(old.spec, strlen(old.spec), &before, error);
    if (result == 0)
        result = json_parse(edit->entry.spec, strlen(edit->entry.spec), &after, error);
    if (result == 0)
        find_changes(edit, &old, before, after);
    job_entry_release(&old);
    return result;
}

void job_edit_release(struct job_edit *edit)
{
    job_entry_release(&edit->entry);
}

/* ---- whether it may -------------------------------------------------------------------------- */

static int refuse_while_it_runs(const struct job_edit *edit, const struct job_edit_target *target,
                                struct error *error)
{
    long long id = target->id;

    if (strcmp(edit->path, "put_first") == 0)
        return error_set(error, -EBUSY, "job %lld is %s: only a job that waits is put first", id,
                         job_state_to_string(target->state));
    if (target->saves_state)
        return error_set(
            error, -EBUSY,
            "job %lld is %s, and %s counts only when it starts: `trainctl pause %lld`, "
            "edit it, and `trainctl resume %lld`",
            id, job_state_to_string(target->state), edit->path, id, id);
    return error_set(error, -EBUSY,
                     "job %lld is %s, and %s counts only when it starts. It does not save its "
                     "state: `trainctl resubmit %lld --set %s=VALUE` queues it again as a new job, "
                     "and `trainctl cancel %lld` ends this one",
                     id, job_state_to_string(target->state), edit->path, id, edit->path, id);
}

/* Refuses a key that no edit changes. */
static int refuse_key(const struct job_edit *edit, const struct job_edit_target *target,
                      struct error *error)
{
    long long id = target->id;

    if (strcmp(edit->path, "hold") == 0)
        return error_set(error, -EBUSY,
                         "hold is no key to edit: `trainctl hold %lld` and `trainctl release %lld` "
                         "do that",
                         id, id);
    if (strncmp(edit->path, "snapshot", 8) == 0)
        return error_set(error, -EBUSY,
                         "the code of job %lld is frozen: `trainctl resubmit %lld --snapshot` "
                         "queues a new job with the present code",
                         id, id);
    return error_set(error, -EBUSY,
                     "what job %lld waits for cannot be edited: `trainctl resubmit %lld --after "
                     "JOB` queues it as a new job",
                     id, id);
}

int job_edit_check(const struct job_edit *edit, const struct job_edit_target *target,
                   struct error *error)
{
    char limit[32], ran[32];
    long long id = target->id;

    if (edit->time == JOB_EDIT_NEVER)
        return refuse_key(edit, target, error);
    if (edit->time == JOB_EDIT_UNBEGUN && target->begun && !target->by_search)
        return error_set(error, -EBUSY,
                         "job %lld has begun to train, and its checkpoints depend on %s: `trainctl "
                         "resubmit %lld --set %s=VALUE` queues a new job",
                         id, edit->path, id, edit->path);
    if (edit->time > (target->suspended ? JOB_EDIT_PLACING : JOB_EDIT_ALWAYS) && target->runs)
        return refuse_while_it_runs(edit, target, error);
    if (edit->work && target->planning)
        return error_set(error, -EBUSY,
                         "the plan of job %lld is being made, and %s is part of it: `trainctl hold "
                         "%lld`, edit the job once it is planned, and release it",
                         id, edit->path, id);
    if (edit->time_limit && target->runs && edit->time_limit_seconds > 0 &&
        edit->time_limit_seconds <= target->run_seconds)
        return error_set(error, -EBUSY,
                         "job %lld has run for %s already, longer than a time_limit of %s: "
                         "`trainctl cancel %lld` ends it",
                         id, text_format_duration(target->run_seconds, ran, sizeof ran),
                         text_format_duration(edit->time_limit_seconds, limit, sizeof limit), id);
    return 0;
}
