/* export_csv.c: see export_jobs.h. */
#include "base/cleanup.h"
#include "base/text.h"
#include "client/connection/metric_pages.h"
#include "client/connection/sweep.h"
#include "client/exports/export_jobs.h"
#include "client/exports/metric_csv.h"
#include "client/exports/replacement_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum exit_status export_find_jobs(struct invocation *invocation, int64_t **ids, size_t *count)
{
    JSON_AUTO struct json_object *seen = json_object_new_object();
    struct id_list list = {0};
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++)
        status = sweep_append_ids(invocation, invocation->arguments[i], &list);
    *count = 0;
    for (size_t i = 0; i < list.count; i++) {
        char key[24];

        snprintf(key, sizeof key, "%" PRId64, list.ids[i]);
        if (json_get(seen, key))
            continue;
        json_set_bool(seen, key, true);
        list.ids[(*count)++] = list.ids[i];
    }
    *ids = list.ids;
    return status;
}

struct csv_export {
    struct metric_csv csv;
    int64_t job;
    int64_t values;
};

static enum exit_status rows_take(void *context, struct json_object *rows, int64_t cursor)
{
    struct csv_export *export = context;
    struct error error = {0};

    (void)cursor;
    export->values += (int64_t)json_object_array_length(rows);
    if (metric_csv_add(&export->csv, export->job, rows, &error) == 0)
        return EXIT_STATUS_DONE;
    complain("%s", error.text);
    return EXIT_STATUS_FAILED;
}

static enum exit_status job_add(struct invocation *invocation, struct csv_export *export)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "id", export->job);
    status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    metric_csv_add_job(&export->csv,
                       json_get_string(json_get(reply.parameters, "job"), "name", ""));
    return metric_pages_walk(invocation, export->job, NULL, 0, rows_take, export);
}

static enum exit_status table_write(struct invocation *invocation, FILE *output, bool wide,
                                    const char *path, const int64_t *ids, size_t count)
{
    struct csv_export export = {0};
    enum exit_status status = EXIT_STATUS_DONE;
    struct error error = {0};

    metric_csv_open(&export.csv, output, wide);
    for (size_t i = 0; i < count && !status && !ferror(output); i++) {
        export.job = ids[i];
        status = job_add(invocation, &export);
    }
    if (!status && metric_csv_finish(&export.csv, &error) < 0) {
        complain("%s", error.text);
        status = EXIT_STATUS_FAILED;
    }
    if (!status && (fflush(output) != 0 || ferror(output))) {
        complain("cannot write %s: %s", path, strerror(errno));
        status = EXIT_STATUS_FAILED;
    }
    metric_csv_close(&export.csv);
    if (status || output == stdout)
        return status;
    if (invocation->json) {
        JSON_AUTO struct json_object *result = json_object_new_object();

        json_set_string(result, "file", path);
        json_set_int(result, "jobs", (int64_t)count);
        json_set_int(result, "values", export.values);
        json_print(result, stdout);
    } else {
        char escaped[4096];

        printf("%s: %" PRId64 " values of %zu job%s\n",
               text_escape_controls(path, escaped, sizeof escaped), export.values, count,
               count == 1 ? "" : "s");
    }
    return status;
}

enum exit_status export_csv(struct invocation *invocation, const char *path, bool wide)
{
    struct replacement_file file = {0};
    AUTO_FREE int64_t *ids = NULL;
    size_t count;
    enum exit_status status = export_find_jobs(invocation, &ids, &count);
    FILE *output;

    if (status)
        return status;
    if (strcmp(path, "-") == 0)
        return table_write(invocation, stdout, wide, "standard output", ids, count);
    status = replacement_file_open(&file, path);
    if (status)
        return status;
    output = fdopen(dup(file.descriptor), "w");
    if (!output) {
        complain("cannot write %s: %s", path, strerror(errno));
        status = EXIT_STATUS_FAILED;
    } else {
        status = table_write(invocation, output, wide, path, ids, count);
        fclose(output);
    }
    if (!status)
        status = replacement_file_finish(&file);
    replacement_file_close(&file);
    return status;
}
