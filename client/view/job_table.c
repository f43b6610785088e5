/* job_table.c: see job_table.h. */
#include "client/view/job_table.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/view/job.h"

#include <math.h>

static void number_add(struct table *table, struct json_object *job, double now)
{
    (void)now;
    table_add_integer(table, json_get_int(job, "id", 0));
}

/* Another user's job may have no name. */
static void name_add(struct table *table, struct json_object *job, double now)
{
    const char *name = json_get_string(job, "name", "");

    (void)now;
    table_add(table, *name ? name : "-", STYLE_PLAIN);
}

static void state_add(struct table *table, struct json_object *job, double now)
{
    const char *state = json_get_string(job, "state", "?");

    (void)now;
    table_add(table, state, job_state_style(state));
}

static void device_add(struct table *table, struct json_object *job, double now)
{
    (void)now;
    table_add(table, json_get_string(job, "device", "-"), STYLE_PLAIN);
}

static void user_add(struct table *table, struct json_object *job, double now)
{
    (void)now;
    table_add(table, json_get_string(job, "user", ""), STYLE_PLAIN);
}

static void priority_add(struct table *table, struct json_object *job, double now)
{
    (void)now;
    table_add_integer(table, json_get_int(job, "priority", 0));
}

static void submitted_add(struct table *table, struct json_object *job, double now)
{
    char text[64];

    table_add(table,
              display_format_ago(json_get_double(job, "submitted", now), now, text, sizeof text),
              STYLE_PLAIN);
}

static void ran_add(struct table *table, struct json_object *job, double now)
{
    double ran = job_run_seconds(job, now);
    char text[64];

    table_add(table, isnan(ran) ? "-" : text_format_duration(ran, text, sizeof text), STYLE_PLAIN);
}

/* A width that does not change every second: "5:07", "1:05:07", "12 d 07 h". */
static void clock_add(struct table *table, struct json_object *job, double now)
{
    double seconds = job_run_seconds(job, now);
    long whole = seconds < 1e12 ? (long)seconds : 0;
    char text[64];

    if (isnan(seconds))
        snprintf(text, sizeof text, "-");
    else if (whole >= 100 * 3600)
        snprintf(text, sizeof text, "%ld d %02ld h", whole / 86400, whole / 3600 % 24);
    else if (whole >= 3600)
        snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, sizeof text, "%2ld:%02ld", whole / 60, whole % 60);
    table_add(table, text, STYLE_PLAIN);
}

static void what_add(struct table *table, struct json_object *job, double now)
{
    char text[1024];

    (void)now;
    table_add(table, job_detail(job, text, sizeof text), STYLE_PLAIN);
}

static const struct {
    struct table_column column;
    void (*add)(struct table *table, struct json_object *job, double now);
} cells[JOB_COLUMNS] = {
    [JOB_COLUMN_NUMBER] = {{"JOB", true, 0}, number_add},
    [JOB_COLUMN_NAME] = {{"NAME", false, 8}, name_add},
    [JOB_COLUMN_STATE] = {{"STATE", false, 0}, state_add},
    [JOB_COLUMN_DEVICE] = {{"DEVICE", false, 4}, device_add},
    [JOB_COLUMN_USER] = {{"USER", false, 4}, user_add},
    [JOB_COLUMN_PRIORITY] = {{"PRIO", true, 0}, priority_add},
    [JOB_COLUMN_SUBMITTED] = {{"SUBMITTED", false, 0}, submitted_add},
    [JOB_COLUMN_RAN] = {{"RAN", false, 0}, ran_add},
    [JOB_COLUMN_CLOCK] = {{"  RAN", true, 0}, clock_add},
    [JOB_COLUMN_WHAT] = {{"WHAT", false, 12}, what_add},
};

void job_table_begin(struct job_table *table, const enum job_column *order, size_t count)
{
    *table = (struct job_table){.order = order, .count = count, .now = clock_now()};
    for (size_t i = 0; i < count; i++)
        table->columns[i] = cells[order[i]].column;
    table->table = table_new(table->columns, count);
}

void job_table_add(struct job_table *table, struct json_object *job)
{
    for (size_t i = 0; i < table->count; i++)
        cells[table->order[i]].add(table->table, job, table->now);
}

void job_table_end(struct job_table *table, const struct display *display, FILE *output)
{
    if (output)
        table_print(table->table, display, output);
    table_free(table->table);
}
