/* workload.c: see workload.h. */
#include "simulator/workload.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28, TRACE_COLUMNS = 10 };

int cluster_parse(const char *text, struct cluster *cluster, struct error *error)
{
    *cluster = (struct cluster){0};
    while (*text) {
        size_t name = strcspn(text, ":,");
        char *end = NULL;
        long count = text[name] == ':' ? strtol(text + name + 1, &end, 10) : 0;
        int total = 0;

        if (cluster->type_count == POLICY_TYPES_MAX)
            return error_set(error, -EINVAL, "a cluster has at most %d types of devices",
                             POLICY_TYPES_MAX);
        for (int type = 0; type < cluster->type_count; type++)
            total += cluster->counts[type];
        if (name == 0 || !end || end == text + name + 1 || (*end && *end != ',') || count < 1 ||
            count > POLICY_DEVICES_MAX - total)
            return error_set(error, -EINVAL,
                             "\"%s\" is not a cluster: TYPE:DEVICES[,TYPE:DEVICES]…, such as "
                             "v100:4,p100:4, of %d devices at most",
                             text, POLICY_DEVICES_MAX);
        cluster->counts[cluster->type_count] = (int)count;
        cluster->names[cluster->type_count] = strndup(text, name);
        if (!cluster->names[cluster->type_count++])
            return error_set(error, -ENOMEM, "out of memory");
        if (*end == ',' && end[1] == '\0')
            return error_set(error, -EINVAL, "a type of devices is missing behind the comma");
        text = *end ? end + 1 : end;
    }
    return cluster->type_count ? 0 : error_set(error, -EINVAL, "the cluster has no devices");
}

void cluster_free(struct cluster *cluster)
{
    for (int type = 0; type < cluster->type_count; type++)
        free(cluster->names[type]);
    *cluster = (struct cluster){0};
}

void workload_free(struct workload *workload)
{
    for (size_t i = 0; i < workload->count; i++)
        free(workload->jobs[i].model);
    free(workload->jobs);
    *workload = (struct workload){0};
}

/* ---- the trace ------------------------------------------------------------------------------- */

static int number_parse(const char *text, double *number)
{
    char *end;

    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number) ? 0 : -EINVAL;
}

static int job_parse(char *line, struct workload_job *job, struct error *error)
{
    char *columns[TRACE_COLUMNS];
    double devices;
    int count = 0;

    for (char *column; count < TRACE_COLUMNS && (column = strsep(&line, "\t"));)
        columns[count++] = column;
    if (count < TRACE_COLUMNS)
        return error_set(error, -EINVAL, "has %d columns, not %d", count, TRACE_COLUMNS);
    *job = (struct workload_job){0};
    if (number_parse(columns[5], &job->steps) < 0 || !(job->steps > 0))
        return error_set(error, -EINVAL, "column 6, \"%s\", is not a number of steps", columns[5]);
    if (number_parse(columns[6], &devices) < 0 || devices < 1 || devices > POLICY_DEVICES_MAX ||
        devices != floor(devices))
        return error_set(error, -EINVAL, "column 7, \"%s\", is not a number of devices",
                         columns[6]);
    if (number_parse(columns[9], &job->arrival) < 0 || job->arrival < 0 ||
        job->arrival > JOB_SECONDS_MAX)
        return error_set(error, -EINVAL,
                         "column 10, \"%s\", is not a time in seconds, from 0 to %.0f", columns[9],
                         JOB_SECONDS_MAX);
    job->devices = (int)devices;
    job->model = strdup(columns[0]);
    return job->model ? 0 : error_set(error, -ENOMEM, "out of memory");
}

static int trace_parse(char *text, struct workload *workload, struct error *error)
{
    size_t capacity = 0, number = 0;

    for (char *line; (line = strsep(&text, "\n"));) {
        size_t length = strlen(line);

        number++;
        if (length > 0 && line[length - 1] == '\r') /* written on Windows */
            line[length - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (workload->count == capacity) {
            struct workload_job *grown;

            capacity = capacity ? 2 * capacity : 256;
            grown = realloc(workload->jobs, capacity * sizeof *grown);
            if (!grown)
                return error_set(error, -ENOMEM, "out of memory");
            workload->jobs = grown;
        }
        if (job_parse(line, &workload->jobs[workload->count], error) < 0)
            return error_prefix(error, "line %zu", number);
        workload->jobs[workload->count++].line = number;
    }
    return workload->count ? 0 : error_set(error, -EINVAL, "there are no jobs in it");
}

/* ---- throughputs ----------------------------------------------------------------------------- */

static void set_speeds(struct workload_job *job, const struct cluster *cluster,
                       struct json_object *throughputs)
{
    AUTO_FREE char *key = NULL;

    if (asprintf(&key, "('%s', %d)", job->model, job->devices) < 0) {
        key = NULL;
        return;
    }
    for (int type = 0; type < cluster->type_count; type++) {
        struct json_object *row = json_get(throughputs, cluster->names[type]);

        row = row ? json_get(row, key) : NULL;
        if (row && cluster->counts[type] >= job->devices)
            job->steps_per_second[type] = fmax(json_get_double(row, "null", 0), 0);
    }
}

/* Steps per second on the best type; 0: no type can run it. */
static double fastest_speed(const struct workload_job *job, const struct cluster *cluster)
{
    double fastest = 0;

    for (int type = 0; type < cluster->type_count; type++)
        fastest = fmax(fastest, job->steps_per_second[type]);
    return fastest;
}

static int compare_arrivals(const void *a, const void *b)
{
    const struct workload_job *left = a, *right = b;

    if (left->arrival != right->arrival)
        return left->arrival > right->arrival ? 1 : -1;
    return (left->line > right->line) - (left->line < right->line);
}

static int throughputs_load(const char *path, const struct cluster *cluster,
                            struct workload *workload, struct error *error)
{
    JSON_AUTO struct json_object *throughputs = NULL;
    size_t kept = 0, too_long = 0;

    if (json_parse_file(path, FILE_BYTES_MAX, &throughputs, error) < 0)
        return error->code;
    for (int type = 0; type < cluster->type_count; type++)
        if (!json_object_is_type(throughputs, json_type_object) ||
            !json_get(throughputs, cluster->names[type]))
            return error_set(error, -EINVAL, "%s has no type of devices \"%s\"", path,
                             cluster->names[type]);
    for (size_t i = 0; i < workload->count; i++) {
        struct workload_job *job = &workload->jobs[i];
        double fastest;

        set_speeds(job, cluster, throughputs);
        fastest = fastest_speed(job, cluster);
        if (job->steps / fastest > JOB_SECONDS_MAX && fastest > 0 && too_long == 0)
            too_long = job->line;
        if (fastest > 0)
            workload->jobs[kept++] = *job;
        else
            free(job->model);
    }
    workload->left_out = workload->count - kept;
    workload->count = kept;
    if (too_long)
        return error_set(error, -EINVAL,
                         "the job of line %zu takes longer than %.0f seconds on any device of this "
                         "cluster; give it fewer steps",
                         too_long, JOB_SECONDS_MAX);
    return kept ? 0
                : error_set(error, -EINVAL, "%s says of no job that it runs on this cluster", path);
}

int workload_load(const char *trace, const char *throughputs, const struct cluster *cluster,
                  struct workload *workload, struct error *error)
{
    AUTO_FREE char *text = NULL;
    size_t size;
    int result = file_read(AT_FDCWD, trace, FILE_BYTES_MAX, &text, &size, error);

    *workload = (struct workload){0};
    if (result < 0)
        return result;
    result = trace_parse(text, workload, error);
    if (result < 0)
        error_prefix(error, "%s", trace);
    if (result == 0)
        result = throughputs_load(throughputs, cluster, workload, error);
    if (result < 0) {
        workload_free(workload);
        return result;
    }
    qsort(workload->jobs, workload->count, sizeof *workload->jobs, compare_arrivals);
    return 0;
}
