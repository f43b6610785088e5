/* decision_view.c: see decision_view.h. */
#include "daemon/methods/decision_view.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_MAX = 256 };

static struct json_object *candidate_at(struct json_object *candidates, size_t index)
{
    return json_object_array_get_idx(candidates, index);
}

static size_t candidate_count(struct json_object *candidates)
{
    return candidates ? json_object_array_length(candidates) : 0;
}

static bool has_verdict(struct json_object *candidate, const char *verdict)
{
    return strcmp(json_get_string(candidate, "verdict", ""), verdict) == 0;
}

/* The candidate with which the others are compared: the chosen one, else the fastest. */
static struct json_object *candidate_best(struct json_object *candidates)
{
    struct json_object *best = NULL;

    for (size_t i = 0; i < candidate_count(candidates); i++) {
        struct json_object *candidate = candidate_at(candidates, i);
        double seconds = json_get_double(candidate, "seconds", INFINITY);

        if (has_verdict(candidate, "chosen"))
            return candidate;
        if (isfinite(seconds) && (!best || seconds < json_get_double(best, "seconds", INFINITY)))
            best = candidate;
    }
    return best;
}

/* Whether the job might get the device, now or later. */
static bool might_take(struct json_object *candidate)
{
    return !has_verdict(candidate, "not_allowed") && !has_verdict(candidate, "cannot_run") &&
           !has_verdict(candidate, "too_large");
}

/* The fastest of the candidates that were not chosen but might be. */
static struct json_object *candidate_fastest_other(struct json_object *candidates)
{
    struct json_object *best = NULL;

    for (size_t i = 0; i < candidate_count(candidates); i++) {
        struct json_object *candidate = candidate_at(candidates, i);
        double seconds = json_get_double(candidate, "seconds", INFINITY);

        if (!has_verdict(candidate, "chosen") && might_take(candidate) && isfinite(seconds) &&
            (!best || seconds < json_get_double(best, "seconds", INFINITY)))
            best = candidate;
    }
    return best;
}

/* The first candidate with that verdict; NULL: none. Entries for kinds of devices that the machine
 * lacks do not count. */
static struct json_object *candidate_find(struct json_object *candidates, const char *verdict)
{
    for (size_t i = 0; i < candidate_count(candidates); i++)
        if (has_verdict(candidate_at(candidates, i), verdict) &&
            !json_get_string(candidate_at(candidates, i), "absence", NULL))
            return candidate_at(candidates, i);
    return NULL;
}

/* ---- a candidate's sentence ---------------------------------------------------------------- */

/* Says why the job did not get a device on which it would end sooner. */
static void explain_obstacle(struct json_object *faster, char *text, size_t size)
{
    static const struct {
        const char *verdict, *words;
    } obstacles[] = {
        {"busy", "other jobs gain more from it"},
        {"memory", "too little of its memory is free"},
        {"few", "too few of its kind are free"},
        {"restart", "a move there does not pay"},
        {"draining", "it is drained or quarantined"},
        {"lost", "it is not there any more"},
    };
    int64_t other = json_get_int(faster, "other", 0);
    const char *words = "all jobs together gain more so";

    for (size_t i = 0; i < sizeof obstacles / sizeof *obstacles; i++)
        if (has_verdict(faster, obstacles[i].verdict))
            words = obstacles[i].words;
    if (other && has_verdict(faster, "busy"))
        snprintf(text, size, "job %" PRId64 " has it", other);
    else if (other && has_verdict(faster, "reserved"))
        snprintf(text, size, "it is held for job %" PRId64 ", which has waited too long", other);
    else
        snprintf(text, size, "%s", words);
}

static void explain_chosen(struct json_object *candidate, struct json_object *candidates,
                           char *text)
{
    struct json_object *other = candidate_fastest_other(candidates);
    double seconds = json_get_double(candidate, "seconds", NAN);
    double others = json_get_double(other, "seconds", NAN);
    char obstacle[128];

    if (candidate_find(candidates, "not_preferred")) {
        snprintf(text, SENTENCE_MAX, "the job prefers it");
    } else if (!other || isnan(seconds)) {
        snprintf(text, SENTENCE_MAX, "the one that can take it");
    } else if (seconds <= others) {
        snprintf(text, SENTENCE_MAX, "finishes it first");
    } else if (has_verdict(other, "slower")) {
        snprintf(text, SENTENCE_MAX,
                 "might finish it first: that is found out by running it there");
    } else {
        explain_obstacle(other, obstacle, sizeof obstacle);
        snprintf(text, SENTENCE_MAX, "%s would take less, but %s",
                 json_get_string(other, "device", "another device"), obstacle);
    }
}

static void explain_slower(struct json_object *candidate, struct json_object *candidates,
                           char *text)
{
    struct json_object *best = candidate_best(candidates);
    double factor =
        json_get_double(candidate, "seconds", NAN) / json_get_double(best, "seconds", NAN);

    if (best == candidate || !isfinite(factor))
        snprintf(text, SENTENCE_MAX, "the job ends later there");
    else if (factor < 1)
        snprintf(text, SENTENCE_MAX,
                 "might be slower than %s: that is found out by running it there",
                 json_get_string(best, "device", "another device"));
    else
        snprintf(text, SENTENCE_MAX, "%.3g times as long as on %s", factor,
                 json_get_string(best, "device", "another device"));
}

/* How many more bytes the job needs on the device than are free for it. 0: only the low watermark
 * keeps it away. A candidate without headroom has no limit. */
static int64_t missing_memory(struct json_object *candidate)
{
    int64_t need = json_get_int(candidate, "memory", 0);
    int64_t missing = need - json_get_int(candidate, "headroom", need);

    return missing > 0 ? missing : 0;
}

static void explain_memory(struct json_object *candidate, char *text)
{
    char need[32], left[32];

    if (!missing_memory(candidate))
        snprintf(text, SENTENCE_MAX,
                 "is filled beyond its low watermark, above which no further job joins");
    else
        snprintf(
            text, SENTENCE_MAX, "needs %s, of which %s are free",
            text_format_bytes((uint64_t)json_get_int(candidate, "memory", 0), need, sizeof need),
            text_format_bytes((uint64_t)json_get_int(candidate, "headroom", 0), left, sizeof left));
}

/* The sentences of verdicts that always have the same one. */
static const struct {
    const char *verdict, *sentence;
} fixed[] = {
    {"equal", "as good, but one is enough"},
    {"not_preferred", "the job prefers another"},
    {"restart", "faster, but not by so much that a move pays"},
    {"few", "free, but the job needs more of its kind"},
    {"draining", "takes no further job: it is drained or quarantined"},
    {"lost", "is not there any more"},
    {"user_limit", "free, but the job's user has as many devices as allowed"},
    {"not_allowed", "the job may not use it"},
    {"cannot_run", "cannot run this job"},
    {"too_large", "needs more than jobs may ever hold there"},
};

static void explain_candidate(struct json_object *candidate, struct json_object *candidates,
                              char *text)
{
    int64_t other = json_get_int(candidate, "other", 0);
    const char *absence = json_get_string(candidate, "absence", NULL);
    const char *because = json_get_string(candidate, "because", NULL);

    text[0] = '\0';
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (has_verdict(candidate, fixed[i].verdict))
            snprintf(text, SENTENCE_MAX, "%s", fixed[i].sentence);
    if (absence)
        snprintf(text, SENTENCE_MAX, "this machine has none%s%s", *absence ? ": " : "", absence);
    else if (json_get_string(candidate, "obstacle", NULL))
        snprintf(text, SENTENCE_MAX, "cannot run this job: %s",
                 json_get_string(candidate, "obstacle", NULL));
    else if (because)
        snprintf(text, SENTENCE_MAX, "%s", because);
    else if (has_verdict(candidate, "chosen"))
        explain_chosen(candidate, candidates, text);
    else if (has_verdict(candidate, "slower"))
        explain_slower(candidate, candidates, text);
    else if (has_verdict(candidate, "memory"))
        explain_memory(candidate, text);
    else if (has_verdict(candidate, "busy") && other)
        snprintf(text, SENTENCE_MAX, "job %" PRId64 " has it", other);
    else if (has_verdict(candidate, "busy"))
        snprintf(text, SENTENCE_MAX, "other jobs gain more from it");
    else if (has_verdict(candidate, "reserved"))
        snprintf(text, SENTENCE_MAX, "held for job %" PRId64 ", which has waited too long", other);
}

/* ---- what must happen before the job starts
 * -------------------------------------------------------------------- */

/* Says what would make room on one device: "job 3 has to leave cpu", "1 GiB more of sim0 has to
 * become free". "": not known. */
static void need_candidate(struct json_object *candidate, char *text, size_t size)
{
    const char *device = json_get_string(candidate, "device", "its device");
    int64_t other = json_get_int(candidate, "other", 0);
    char bytes[32];

    text[0] = '\0';
    if (has_verdict(candidate, "busy") && other)
        snprintf(text, size, "job %" PRId64 " has to leave %s", other, device);
    else if (has_verdict(candidate, "memory") && !missing_memory(candidate))
        snprintf(text, size, "the memory in use of %s has to fall below its low watermark", device);
    else if (has_verdict(candidate, "memory"))
        snprintf(text, size, "%s more of %s has to become free",
                 text_format_bytes((uint64_t)missing_memory(candidate), bytes, sizeof bytes),
                 device);
}

/* Lists what would make room on each device; any one of these is enough. */
static void need_device(struct json_object *candidates, char *text)
{
    size_t used = 0;

    for (size_t i = 0; i < candidate_count(candidates) && used < SENTENCE_MAX; i++) {
        char need[128];

        need_candidate(candidate_at(candidates, i), need, sizeof need);
        if (*need)
            used += (size_t)snprintf(text + used, SENTENCE_MAX - used, "%s%s", used ? ", or " : "",
                                     need);
    }
    if (!used)
        snprintf(text, SENTENCE_MAX, "a job that goes before it has to end");
}

static void explain_needs(struct json_object *decision, char *text)
{
    static const struct {
        const char *verdict, *sentence;
    } needs[] = {
        {"start", "nothing more: it starts at once"},
        {"wait_draining", "a device that could take it has to be taken back into use"},
        {"wait_reserved", "the job that the devices are held for has to start"},
        {"wait_user_limit", "another job of the user has to end"},
        {"wait_reservation", "the next device that suits it is its own"},
        {"impossible", "the specification has to ask for less, or allow more devices: as it is, "
                       "the job fails as soon as it is submitted"},
    };
    const char *verdict = json_get_string(decision, "verdict", "");

    text[0] = '\0';
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (strcmp(verdict, needs[i].verdict) == 0)
            snprintf(text, SENTENCE_MAX, "%s", needs[i].sentence);
    if (strcmp(verdict, "wait_devices") == 0 || strcmp(verdict, "wait_memory") == 0)
        need_device(json_get(decision, "candidates"), text);
    if (strcmp(verdict, "wait_lost") == 0)
        snprintf(text, SENTENCE_MAX, "%s has to come back",
                 json_get_string(candidate_find(json_get(decision, "candidates"), "lost"), "device",
                                 "a device that is lost"));
}

/* ---- the view ------------------------------------------------------------------------------ */

static void copy_member(struct json_object *from, struct json_object *to, const char *key)
{
    json_set(to, key, json_object_get(json_get(from, key)));
}

static struct json_object *view_candidates(struct json_object *candidates)
{
    static const char *const keys[] = {"device", "kind", "seconds", "step_seconds", "deviation",
                                       "basis",  "runs", "memory",  "headroom",     "verdict"};
    struct json_object *list = json_object_new_array();
    char text[SENTENCE_MAX];

    for (size_t i = 0; i < candidate_count(candidates); i++) {
        struct json_object *candidate = candidate_at(candidates, i);
        struct json_object *view = json_object_new_object();

        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            copy_member(candidate, view, keys[k]);
        explain_candidate(candidate, candidates, text);
        json_set_string(view, "reason", *text ? text : NULL);
        json_object_array_add(list, view);
    }
    return list;
}

struct json_object *decision_view(struct json_object *decision, int64_t attempt, bool waits)
{
    JSON_AUTO struct json_object *owned = decision;
    struct json_object *view = json_object_new_object();
    char needs[SENTENCE_MAX] = "";

    copy_member(owned, view, "time");
    json_set(view, "attempt", attempt ? json_object_new_int64(attempt) : NULL);
    copy_member(owned, view, "verdict");
    copy_member(owned, view, "device");
    json_set_string(view, "reason", json_get_string(owned, "sentence", NULL));
    if (waits)
        explain_needs(owned, needs);
    json_set_string(view, "needs", *needs ? needs : NULL);
    json_set(view, "candidates", view_candidates(json_get(owned, "candidates")));
    return view;
}

struct json_object *decision_view_undecided(const char *wait_reason, const char *reason)
{
    static const struct {
        const char *wait_reason, *needs;
    } known[] = {
        {"planning", "its plan has to be made, which begins when one of the planning runs ends"},
        {"held", "somebody has to release it: trainctl release"},
        {"backoff", "the time until its next attempt has to pass"},
        {"dependency", "the jobs that it comes after have to end"},
        {"time", "its time has to come (at)"},
        {"group_limit", "a job of its group has to end"},
    };
    struct json_object *view = json_object_new_object();
    const char *needs = NULL;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].wait_reason, wait_reason) == 0)
            needs = known[i].needs;
    json_set(view, "time", NULL);
    json_set(view, "attempt", NULL);
    json_set_string(view, "verdict", wait_reason);
    json_set(view, "device", NULL);
    json_set_string(view, "reason", reason);
    json_set_string(view, "needs", needs);
    json_set(view, "candidates", json_object_new_array());
    return view;
}
