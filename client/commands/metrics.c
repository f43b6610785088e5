/* metrics.c: `trainctl metrics` prints the stored metrics of a job as a table with a column for
 * each name, or row by row as they arrive. */
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/metric_pages.h"
#include "client/connection/stream.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 64 };

struct metrics {
    struct invocation *invocation;
    int64_t id, next;
    struct json_object *names; /* NULL for all */
};

static struct json_object *metrics_parameters(void *context)
{
    struct metrics *metrics = context;
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", metrics->id);
    if (metrics->names)
        json_set(parameters, "names", json_object_get(metrics->names));
    json_set_int(parameters, "after", metrics->next);
    return parameters;
}

static void row_print(const struct invocation *invocation, struct json_object *row)
{
    double epoch = json_get_double(row, "epoch", NAN);
    char value[32], epoch_text[32] = "-", name[256];

    if (invocation->json) {
        json_print(row, stdout);
        return;
    }
    if (!isnan(epoch))
        snprintf(epoch_text, sizeof epoch_text, "%.3f", epoch);
    printf("step %-8" PRId64 "  epoch %-8s  %-24s  %s\n", json_get_int(row, "step", 0), epoch_text,
           text_escape_controls(json_get_string(row, "name", ""), name, sizeof name),
           display_format_value(json_get_double(row, "value", NAN), value, sizeof value));
}

static void rows_receive(void *context, struct json_object *parameters)
{
    struct metrics *metrics = context;
    struct json_object *rows = json_get(parameters, "rows");

    for (size_t i = 0; i < json_object_array_length(rows); i++)
        row_print(metrics->invocation, json_object_array_get_idx(rows, i));
    metrics->next = json_get_int(parameters, "next", metrics->next);
}

struct place {
    int64_t step;
    size_t index; /* orders rows of one step as they arrived */
};

static int place_compare(const void *a, const void *b)
{
    const struct place *left = a, *right = b;

    if (left->step != right->step)
        return left->step > right->step ? 1 : -1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Makes a new array of the rows sorted by step. They arrive in the order of storage, and several
 * processes of a job may report at once. */
static struct json_object *rows_sort(struct json_object *rows)
{
    size_t count = json_object_array_length(rows);
    AUTO_FREE struct place *places = malloc((count + 1) * sizeof *places);
    struct json_object *sorted;

    if (!places)
        return json_object_get(rows);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct place){json_get_int(json_object_array_get_idx(rows, i), "step", 0), i};
    qsort(places, count, sizeof *places, place_compare);
    sorted = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(sorted,
                              json_object_get(json_object_array_get_idx(rows, places[i].index)));
    return sorted;
}

/* Adds one line for the rows of each step: STEP, EPOCH, then a value for each of `names`. */
static void rows_tabulate(struct table *table, struct json_object *rows, const char *const *names,
                          size_t name_count)
{
    size_t count = json_object_array_length(rows), first = 0;

    while (first < count) {
        struct json_object *head = json_object_array_get_idx(rows, first);
        int64_t step = json_get_int(head, "step", 0);
        double epoch = json_get_double(head, "epoch", NAN);
        char text[32];
        size_t end = first + 1;

        while (end < count && json_get_int(json_object_array_get_idx(rows, end), "step", 0) == step)
            end++;
        table_add_integer(table, step);
        snprintf(text, sizeof text, "%.3f", epoch);
        table_add(table, isnan(epoch) ? "" : text, STYLE_PLAIN);
        for (size_t n = 0; n < name_count; n++) {
            text[0] = '\0';
            for (size_t i = first; i < end; i++) {
                struct json_object *row = json_object_array_get_idx(rows, i);

                if (strcmp(json_get_string(row, "name", ""), names[n]) == 0)
                    display_format_value(json_get_double(row, "value", NAN), text, sizeof text);
            }
            table_add(table, text, STYLE_PLAIN);
        }
        first = end;
    }
}

static void rows_print(const struct invocation *invocation, struct json_object *rows)
{
    const char *names[NAMES_MAX];
    struct table_column columns[NAMES_MAX + 2] = {{"STEP", true, 0}, {"EPOCH", true, 0}};
    size_t name_count = 0, count = json_object_array_length(rows);
    struct json_object *sorted;
    struct table *table;

    for (size_t i = 0; i < count; i++) {
        const char *name = json_get_string(json_object_array_get_idx(rows, i), "name", "");
        size_t known = 0;

        while (known < name_count && strcmp(names[known], name) != 0)
            known++;
        if (known == name_count && name_count < NAMES_MAX) {
            names[name_count] = name;
            columns[2 + name_count++] = (struct table_column){name, true, 0};
        }
    }
    table = table_new(columns, 2 + name_count);
    sorted = rows_sort(rows);
    rows_tabulate(table, sorted, names, name_count);
    json_object_put(sorted);
    table_print(table, &invocation->output, stdout);
    table_free(table);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct metrics metrics = {.invocation = invocation};
    JSON_AUTO struct json_object *rows = json_object_new_array();
    enum exit_status status =
        connection_find_job(invocation, invocation->arguments[0], JOB_IS_READ, &metrics.id);

    if (status)
        return status;
    metrics.names = invocation_option_words(invocation, "name");
    if (invocation_flag(invocation, "follow")) {
        struct stream stream = {
            .method = "Metrics", .parameters = metrics_parameters, .context = &metrics};

        status = stream_run(&stream, invocation, rows_receive);
    } else {
        status =
            metric_pages_walk(invocation, metrics.id, metrics.names, 0, metric_pages_append, rows);
        for (size_t i = 0; invocation->json && i < json_object_array_length(rows); i++)
            row_print(invocation, json_object_array_get_idx(rows, i));
        if (!status && !invocation->json)
            rows_print(invocation, rows);
        if (!status && json_object_array_length(rows) == 0 && invocation->output.terminal &&
            !invocation->json)
            printf("no metrics; `trainctl show %" PRId64
                   "` tells of lines that could not be read\n",
                   metrics.id);
    }
    json_object_put(metrics.names);
    return status;
}

static const struct command_option metrics_options[] = {
    {"follow", 'f', NULL, "Go on until the job has ended; Ctrl-C detaches", COMPLETE_NOTHING},
    {"name", 'n', "NAME[,NAME…]", "Only these metrics; repeatable", COMPLETE_NOTHING},
    {0},
};

const struct command command_metrics = {
    .name = "metrics",
    .place = 120,
    .arguments = "JOB",
    .summary = "Print the metrics of a job",
    .minimum = 1,
    .maximum = 1,
    .options = metrics_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
