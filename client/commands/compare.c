/* compare.c: `trainctl compare` groups jobs by the keys that differ between their specifications,
 * and shows mean and standard deviation of each metric. */
#include "client/connection/job_pages.h"
#include "client/connection/sweep.h"
#include "client/view/comparison.h"
#include "client/view/job.h"
#include "client/view/table.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64, KEYS_TOLD = 6 };

/* ---- the jobs -------------------------------------------------------------------------------- */

/* Parses "12-41" or "12". */
static bool range_parse(const char *text, int64_t *first, int64_t *last)
{
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    *first = *last = strtoll(text, &end, 10);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        *last = strtoll(end + 1, &end, 10);
    return *end == '\0' && *first <= *last;
}

/* Fetches one job with its specification. */
static enum exit_status job_fetch(struct invocation *invocation, int64_t id,
                                  struct json_object *jobs)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    job_complete_metrics(json_get(reply.parameters, "job"));
    json_object_array_add(jobs, json_object_get(reply.parameters));
    return EXIT_STATUS_DONE;
}

static bool job_append(void *context, struct json_object *job)
{
    json_object_array_add(context, json_object_get(job));
    return true;
}

/* Appends the jobs with that name, newest first. `own`: only the caller's, otherwise all users'. */
static enum exit_status named_list(struct invocation *invocation, const char *name, bool own,
                                   struct json_object *found)
{
    struct json_object *filter = json_object_new_object();

    json_set_string(filter, "name", name);
    if (own)
        json_set_bool(filter, "own", true);
    return job_pages_walk(invocation, filter, job_append, found);
}

/* Fetches all of the caller's jobs with that name, oldest first. If there are none, fetches those
 * of other users and prints a note, because any user may choose any name. */
static enum exit_status named_fetch(struct invocation *invocation, const char *name,
                                    struct json_object *jobs)
{
    JSON_AUTO struct json_object *found = json_object_new_array();
    enum exit_status status = named_list(invocation, name, true, found);

    if (!status && json_object_array_length(found) == 0) {
        status = named_list(invocation, name, false, found);
        if (!status && json_object_array_length(found) > 0)
            complain("none of your jobs is called \"%s\": these are other users'", name);
    }
    if (status)
        return status;
    if (json_object_array_length(found) == 0) {
        complain("there is no job called %s", name);
        return EXIT_STATUS_FAILED;
    }
    for (size_t i = json_object_array_length(found); i-- > 0 && !status;)
        status =
            job_fetch(invocation, json_get_int(json_object_array_get_idx(found, i), "id", 0), jobs);
    return status;
}

static enum exit_status jobs_fetch(struct invocation *invocation, struct json_object *jobs)
{
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++) {
        struct id_list list = {0};
        int64_t first, last;

        if (sweep_named(invocation->arguments[i], &first)) {
            status = sweep_append_ids(invocation, invocation->arguments[i], &list);
            for (size_t k = 0; k < list.count && !status; k++)
                status = job_fetch(invocation, list.ids[k], jobs);
            free(list.ids);
        } else if (!range_parse(invocation->arguments[i], &first, &last))
            status = named_fetch(invocation, invocation->arguments[i], jobs);
        else
            for (int64_t id = first; id <= last && !status; id++)
                status = job_fetch(invocation, id, jobs);
    }
    return status;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The path without its first part, for example "optimizer.name". */
static const char *key_title(const char *path)
{
    const char *dot = strchr(path, '.');

    return dot ? dot + 1 : path;
}

/* Adds, for example, "0.8731 ± 0.0021". The deviation has as many decimals as the mean. */
static void cell_add(const struct invocation *invocation, struct table *table,
                     struct json_object *value)
{
    char mean[32] = "", text[80];
    const char *point;

    if (value)
        display_format_value(json_get_double(value, "mean", NAN), mean, sizeof mean);
    snprintf(text, sizeof text, "%s", mean);
    point = strchr(mean, '.');
    if (json_get(value, "deviation"))
        snprintf(text, sizeof text, "%s %s %.*f", mean, invocation->output.unicode ? "±" : "+-",
                 point ? (int)strspn(point + 1, "0123456789") : 0,
                 json_get_double(value, "deviation", 0));
    table_add(table, text, STYLE_PLAIN);
}

/* Prints the keys that differ but have no column. */
static void also_print(struct json_object *also)
{
    size_t count = json_object_array_length(also), used = 0;
    char text[1024] = "";

    for (size_t i = 0; i < count && i < KEYS_TOLD && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                                 json_object_get_string(json_object_array_get_idx(also, i)));
    if (count > KEYS_TOLD)
        complain("the jobs also differ in %s and %zu more keys (--json lists them)", text,
                 count - KEYS_TOLD);
    else if (count > 0)
        complain("the jobs also differ in %s", text);
}

static void nonfinite_print(struct json_object *groups)
{
    int64_t count = 0;

    for (size_t i = 0; i < json_object_array_length(groups); i++) {
        json_object_object_foreach (json_get(json_object_array_get_idx(groups, i), "values"), name,
                                    value) {
            (void)name;
            count += json_get_int(value, "nonfinite", 0);
        }
    }
    if (count)
        complain("%" PRId64 " value%s not finite and left out of the means", count,
                 count == 1 ? " is" : "s are");
}

static void comparison_print(const struct invocation *invocation, struct json_object *comparison)
{
    struct json_object *by = json_get(comparison, "by"), *names = json_get(comparison, "metrics");
    struct json_object *groups = json_get(comparison, "groups");
    struct table_column columns[COLUMNS_MAX];
    size_t count = 0, keys = json_object_array_length(by), left;
    struct table *table;

    for (size_t i = 0; i < keys && count < COLUMNS_MAX - 1; i++)
        columns[count++] = (struct table_column){
            key_title(json_object_get_string(json_object_array_get_idx(by, i))), false, 0};
    keys = count;
    columns[count++] = (struct table_column){"JOBS", true, 0};
    for (size_t i = 0; i < json_object_array_length(names) && count < COLUMNS_MAX; i++)
        columns[count++] = (struct table_column){
            json_object_get_string(json_object_array_get_idx(names, i)), true, 0};
    table = table_new(columns, count);
    for (size_t i = 0; i < json_object_array_length(groups); i++) {
        struct json_object *group = json_object_array_get_idx(groups, i);
        struct json_object *values = json_get(group, "values");

        for (size_t k = 0; k < keys; k++) {
            struct json_object *value = json_get(
                json_get(group, "key"), json_object_get_string(json_object_array_get_idx(by, k)));

            table_add(table,
                      json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                      : value                                      ? json_text(value, NULL)
                                                                   : "-",
                      STYLE_PLAIN);
        }
        table_add_integer(table, (int64_t)json_object_array_length(json_get(group, "jobs")));
        for (size_t k = 0; k < count - keys - 1; k++)
            cell_add(invocation, table, json_get(values, columns[keys + 1 + k].title));
    }
    table_print(table, &invocation->output, stdout);
    table_free(table);
    nonfinite_print(groups);
    also_print(json_get(comparison, "also"));
    left = json_object_array_length(json_get(comparison, "left_out"));
    if (left)
        complain("%zu of the jobs did not end as done and are left out", left);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *jobs = json_object_new_array(), *comparison = NULL;
    JSON_AUTO struct json_object *by = invocation_option_words(invocation, "by");
    JSON_AUTO struct json_object *metrics = invocation_option_words(invocation, "metric");
    enum exit_status status = jobs_fetch(invocation, jobs);
    struct error error = {0};

    if (status)
        return status;
    comparison = comparison_new(jobs, by, metrics, &error);
    if (!comparison) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (invocation->json)
        json_print(comparison, stdout);
    else
        comparison_print(invocation, comparison);
    return EXIT_STATUS_DONE;
}

static const struct command_option compare_options[] = {
    {"by", 0, "KEY[,KEY…]",
     "Keys of the specification to group by (default: those that differ, except train.seed, "
     "data.split.fold and environment)",
     COMPLETE_KEYS},
    {"metric", 'm', "NAME[,NAME…]", "Metrics to compare (default: those of the test set)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_compare = {
    .name = "compare",
    .place = 140,
    .arguments = "JOBS…",
    .summary = "Compare the results of jobs: mean and deviation, grouped by differing keys",
    .details = "JOBS is a number, a range such as 12-41, sweep:12, or a name: all jobs that have "
               "it. Jobs "
               "whose keys agree,\ntrain.seed and data.split.fold aside, form a group; the "
               "deviation is that of a sample (n - 1).",
    .minimum = 1,
    .maximum = -1,
    .options = compare_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
