/* job.c: see job.h. */
#include "client/view/job.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/view/job_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const job_states[JOB_STATES] = {"done",     "failed",  "cancelled",  "queued",
                                            "starting", "running", "preempting", "paused"};

bool job_state_is_final(const char *state)
{
    for (size_t i = 0; i < JOB_STATES_FINAL; i++)
        if (strcmp(state, job_states[i]) == 0)
            return true;
    return false;
}

enum style job_state_style(const char *state)
{
    static const struct {
        const char *state;
        enum style style;
    } styles[] = {
        {"starting", STYLE_CYAN},    {"running", STYLE_CYAN}, {"preempting", STYLE_YELLOW},
        {"paused", STYLE_YELLOW},    {"done", STYLE_GREEN},   {"failed", STYLE_RED},
        {"cancelled", STYLE_YELLOW},
    };

    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].state, state) == 0)
            return styles[i].style;
    return STYLE_PLAIN;
}

double job_run_seconds(struct json_object *job, double now)
{
    double started = json_get_double(job, "started", NAN),
           ended = json_get_double(job, "ended", now),
           ran = json_get_double(job, "ran", ended - started);

    return ran < 0 ? 0 : ran;
}

const char *job_reason(struct json_object *job)
{
    static const struct {
        const char *name, *meaning;
    } waits[] = {
        {"planning", "its plan is being made"},
        {"device_busy", "waits for a free slot"},
        {"memory", "waits for memory"},
        {"held", "is held back"},
        {"backoff", "waits before the next attempt"},
        {"draining", "waits because the device is drained"},
        {"dependency", "waits for other jobs"},
        {"time", "waits for its time"},
        {"group_limit", "waits for a place in its group"},
        {"sweep", "comes after the points before it"},
    };
    const char *reason = json_get_string(job, "reason", "");
    const char *wait = json_get_string(job, "wait_reason", "");

    for (size_t i = 0; !*reason && i < sizeof waits / sizeof *waits; i++)
        if (strcmp(waits[i].name, wait) == 0)
            return waits[i].meaning;
    return reason;
}

char *job_start_format(struct json_object *job, char *output, size_t size)
{
    double left = json_get_double(job, "expected_start", NAN) - clock_now();
    char text[32];

    if (isnan(left))
        *output = '\0';
    else if (left < 1)
        snprintf(output, size, "now");
    else if (left < 60)
        snprintf(output, size, "in about %.0f s", left);
    else if (left < 3600)
        snprintf(output, size, "in about %.0f min", left / 60);
    else
        snprintf(output, size, "in about %s", text_format_duration(left, text, sizeof text));
    return output;
}

/* Writes "45%, loss 1.2340, 12.0 s left", as far as it is known. */
static void job_detail_progress(struct json_object *progress, char *output, size_t size)
{
    double step = json_get_double(progress, "step", 0),
           steps = json_get_double(progress, "steps", 0);
    double loss = json_get_double(progress, "loss", NAN);
    double left = json_get_double(progress, "seconds_left", NAN);
    double fraction = json_get_double(progress, "fraction", NAN);
    char text[32];
    size_t used;

    if (!isnan(fraction))
        used = (size_t)snprintf(output, size, "%.0f%%", floor(100 * fraction));
    else if (steps > 0)
        used = (size_t)snprintf(output, size, "%.0f%%", floor(100 * step / steps));
    else
        used = (size_t)snprintf(output, size, "step %.0f", step);
    if (!isnan(loss) && used < size)
        used += (size_t)snprintf(output + used, size - used, ", loss %s",
                                 display_format_value(loss, text, sizeof text));
    if (!isnan(left) && used < size)
        snprintf(output + used, size - used, ", %s left",
                 text_format_duration(left, text, sizeof text));
}

char *job_detail(struct json_object *job, char *output, size_t size)
{
    const char *state = json_get_string(job, "state", "");
    struct json_object *progress = json_get(job, "progress"), *best = json_get(job, "best");
    char value[32], start[64];

    if (strcmp(state, "running") == 0 && progress)
        job_detail_progress(progress, output, size);
    else if (strcmp(state, "done") == 0 && best)
        snprintf(output, size, "%s %s", json_get_string(best, "metric", ""),
                 display_format_value(json_get_double(best, "value", NAN), value, sizeof value));
    else if (strcmp(state, "queued") == 0 && *job_start_format(job, start, sizeof start))
        snprintf(output, size, "starts %s: %s", start, job_reason(job));
    else
        snprintf(output, size, "%s", job_reason(job));
    return output;
}

void job_print_table(struct json_object *jobs, const struct display *display, FILE *output)
{
    static const enum job_column order[] = {
        JOB_COLUMN_NUMBER, JOB_COLUMN_NAME,      JOB_COLUMN_STATE, JOB_COLUMN_DEVICE,
        JOB_COLUMN_USER,   JOB_COLUMN_SUBMITTED, JOB_COLUMN_RAN,   JOB_COLUMN_WHAT,
    };
    struct job_table table;

    job_table_begin(&table, order, sizeof order / sizeof *order);
    for (size_t i = 0; jobs && i < json_object_array_length(jobs); i++)
        job_table_add(&table, json_object_array_get_idx(jobs, i));
    job_table_end(&table, display, output);
}

static int names_compare(const void *first, const void *second)
{
    return strcmp(json_object_get_string(*(struct json_object *const *)first),
                  json_object_get_string(*(struct json_object *const *)second));
}

struct json_object *job_metrics_new(struct json_object *job)
{
    struct json_object *metrics = json_get(job, "metrics"), *odd = json_get(job, "nonfinite");
    JSON_AUTO struct json_object *names = json_object_new_array();
    struct json_object *made = json_object_new_object();

    if (metrics) {
        json_object_object_foreach (metrics, name, unused) {
            (void)unused;
            json_object_array_add(names, json_object_new_string(name));
        }
    }
    for (size_t i = 0; odd && i < json_object_array_length(odd); i++)
        json_object_array_add(names, json_object_get(json_object_array_get_idx(odd, i)));
    json_object_array_sort(names, names_compare);
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));

        json_object_object_add(made, name,
                               json_object_new_double(json_get_double(metrics, name, NAN)));
    }
    return made;
}

void job_complete_metrics(struct json_object *job)
{
    json_set(job, "metrics", job_metrics_new(job));
}

/* Prints the test result of the weights that an export writes. */
static void test_print(struct json_object *job, FILE *output)
{
    JSON_AUTO struct json_object *metrics = job_metrics_new(job);
    const char *name = json_get(metrics, "test_accuracy") ? "test_accuracy" : "test_loss";
    char text[32];

    if (json_get(metrics, name))
        fprintf(output, ", %s %s%s", name,
                display_format_value(json_get_double(metrics, name, NAN), text, sizeof text),
                json_get(metrics, "last_test_loss") ? " with its weights" : "");
}

void job_print_sentence(struct json_object *job, const struct display *display, FILE *output)
{
    const char *state = json_get_string(job, "state", "?"), *device, *reason = job_reason(job);
    double seconds = job_run_seconds(job, clock_now());
    enum style style = job_state_style(state);
    char name[512], detail[2048], escaped[4096], duration[32], value[32];
    struct json_object *best = json_get(job, "best");

    text_escape_controls(json_get_string(job, "name", ""), name, sizeof name);
    device = json_get_string(job, "device", NULL);
    fprintf(output, "job %" PRId64 " (%s): %s%s%s", json_get_int(job, "id", 0), name,
            display_style(display, style), state, display_style_end(display, style));
    if (job_state_is_final(state) && !isnan(seconds))
        fprintf(output, " after %s", text_format_duration(seconds, duration, sizeof duration));
    if (device)
        fprintf(output, " on %s", device);
    if (strcmp(state, "done") == 0 && best) {
        snprintf(detail, sizeof detail, "%s", json_get_string(best, "metric", ""));
        fprintf(output, ", best %s %s at step %" PRId64,
                text_escape_controls(detail, escaped, sizeof escaped),
                display_format_value(json_get_double(best, "value", NAN), value, sizeof value),
                json_get_int(best, "step", 0));
        test_print(job, output);
    } else if (*reason && strcmp(state, "done") != 0) {
        fprintf(output, ": %s", text_escape_controls(reason, escaped, sizeof escaped));
    }
    fputc('\n', output);
}

static void json_copy(struct json_object *from, struct json_object *to, const char *key)
{
    json_set(to, key, json_object_get(json_get(from, key)));
}

struct json_object *job_result_new(struct json_object *show)
{
    static const char *const keys[] = {"id",     "name",        "state",     "device",
                                       "reason", "exit_status", "submitted", "started",
                                       "ended",  "metrics",     "nonfinite", "best"};
    struct json_object *result = json_object_new_object(), *job = json_get(show, "job");

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_copy(job, result, keys[i]);
    json_copy(show, result, "attempts");
    return result;
}

/* The length of a colour sequence (ESC [ digits ; … m) at the start of `text`; 0: there is none. */
static size_t colour_sequence(const char *text, size_t length)
{
    size_t used = 2;

    if (length < 3 || text[0] != '\033' || text[1] != '[')
        return 0;
    while (used < length && ((text[used] >= '0' && text[used] <= '9') || text[used] == ';'))
        used++;
    return used < length && text[used] == 'm' ? used + 1 : 0;
}

void job_print_log(const char *text, size_t length, const struct display *display, FILE *output)
{
    if (!display->terminal) {
        fwrite(text, 1, length, output);
        return;
    }
    for (size_t i = 0; i < length;) {
        size_t colour = colour_sequence(text + i, length - i), shown = colour;
        char escaped[5];

        if (!colour)
            shown = strchr("\n\t\r", text[i]) ? 1 : text_printable_length(text + i);
        if (shown && (!colour || display->colour))
            fwrite(text + i, 1, shown, output);
        if (!shown) {
            shown = text_escape_character(text + i, escaped);
            fputs(escaped, output);
        }
        i += shown;
    }
}
