/* advice_view.c: see advice_view.h. */
#include "proto/advice_view.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

enum { COLUMNS = 80, LINE_BYTES = 1024 };

static const char indent[] = "   ";
/* Measurements that differ by more than this part are told. */
static const double noise_told = 0.1;

static void print_paragraph(const char *first, const char *text, FILE *output)
{
    char shown[4 * LINE_BYTES];

    text_print_wrapped(first, indent, text_escape_controls(text, shown, sizeof shown), COLUMNS,
                       output);
}

/* "12 345.6": few digits, with a unit. */
static char *format_rate(double rate, char *text, size_t size)
{
    if (rate >= 100)
        snprintf(text, size, "%.0f", rate);
    else
        snprintf(text, size, "%.3g", rate);
    return text;
}

static void print_measured(struct json_object *advice, FILE *output)
{
    struct json_object *measured = json_get(advice, "measured");
    int64_t accumulate = json_get_int(measured, "accumulate", 1);
    int64_t batch = json_get_int(measured, "batch_size", 0);
    double samples = json_get_double(measured, "step_samples", (double)batch);
    char rate[32], step[48], shown[LINE_BYTES];

    fprintf(output, "%s on %s",
            text_escape_controls(json_get_string(advice, "job", ""), shown, sizeof shown),
            json_get_string(advice, "device", ""));
    fprintf(output, " (%s)\n",
            text_escape_controls(json_get_string(advice, "model", ""), shown, sizeof shown));
    fprintf(output, "%s samples a second; a step takes %s: ",
            format_rate(json_get_double(measured, "samples_per_second", 0), rate, sizeof rate),
            text_format_duration(json_get_double(measured, "step_seconds", 0), step, sizeof step));
    if (accumulate > 1)
        fprintf(output, "%" PRId64 " batches of ", accumulate);
    /* all data may be fewer than a batch */
    fprintf(output, "%.0f samples, %s\n", samples < (double)batch ? samples : (double)batch,
            json_get_string(measured, "precision", ""));
}

static void print_time(struct json_object *advice, FILE *output)
{
    struct json_object *time = json_get(advice, "time");
    char line[LINE_BYTES];
    size_t used = 0;

    json_object_object_foreach (time, name, value) {
        double share = json_object_get_double(value);

        if (share >= 0.005 && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %.0f%%",
                                     used ? ", " : "", name, 100 * share);
    }
    if (used)
        print_paragraph("time: ", line, output);
}

/* "train.batch_size=64, train.accumulate=1", as --set takes them. */
static void format_changes(struct json_object *changes, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    json_object_object_foreach (changes, key, value) {
        const char *shown = json_object_is_type(value, json_type_string)
                                ? json_object_get_string(value)
                                : json_text(value, NULL);

        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s--set %s%s=%s%s", used ? " " : "",
                                     strchr(shown, ' ') ? "'" : "", key, shown,
                                     strchr(shown, ' ') ? "'" : "");
    }
}

static void print_finding(struct json_object *finding, size_t number, FILE *output)
{
    char changes[LINE_BYTES], line[LINE_BYTES + 64], first[32];

    format_changes(json_get(finding, "changes"), changes, sizeof changes);
    snprintf(first, sizeof first, "%zu. ", number);
    snprintf(line, sizeof line, "%s: %.*f times as fast, %.0f%% of the time saved", changes,
             json_get_double(finding, "gain", 0) < 10 ? 2 : 0, json_get_double(finding, "gain", 0),
             100 * json_get_double(finding, "saved", 0));
    fputc('\n', output);
    print_paragraph(first, line, output);
    print_paragraph(indent, json_get_string(finding, "cause", ""), output);
    print_paragraph(indent, json_get_string(finding, "result", ""), output);
}

void advice_print(struct json_object *advice, FILE *output)
{
    struct json_object *list = json_get(advice, "advice"), *notes = json_get(advice, "notes");
    size_t count = list ? json_object_array_length(list) : 0;
    struct json_object *measured = json_get(advice, "measured");
    double noise = json_get_double(measured, "noise", 0);

    print_measured(advice, output);
    print_time(advice, output);
    if (json_get_string(advice, "bound", NULL))
        print_paragraph("", json_get_string(advice, "bound", NULL), output);
    for (size_t i = 0; i < count; i++)
        print_finding(json_object_array_get_idx(list, i), i + 1, output);
    if (count == 0)
        fprintf(output, "\nNo change that was tried pays%s.\n",
                noise > noise_told ? " more than the measurements differ" : "");
    for (size_t i = 0; notes && i < json_object_array_length(notes); i++)
        print_paragraph("note: ", json_object_get_string(json_object_array_get_idx(notes, i)),
                        output);
    if (noise > noise_told) {
        char line[LINE_BYTES];

        snprintf(line, sizeof line,
                 "the fastest two measurements of its steps differ by %.0f%%, as other work "
                 "runs here: what saves less than %.0f%% of their time is not named.",
                 100 * noise, 100 * json_get_double(measured, "least_saved", 0));
        print_paragraph("note: ", line, output);
    }
}
