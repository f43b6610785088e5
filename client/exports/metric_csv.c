/* metric_csv.c: see metric_csv.h. */
#include "client/exports/metric_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct metric_csv_row {
    size_t job; /* counts metric_csv_add_job() */
    size_t column;
    int64_t id, step; /* id: of the job */
    double epoch, time, value;
    size_t place; /* orders rows of one step as they arrived */
};

static void text_print(FILE *output, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && *text != ' ') {
        fputs(text, output);
        return;
    }
    fputc('"', output);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', output);
        fputc(*text, output);
    }
    fputc('"', output);
}

static void number_print(FILE *output, double number, const char *otherwise)
{
    char text[JSON_DOUBLE_BYTES];

    fputs(isfinite(number) ? json_format_double(number, text, sizeof text) : otherwise, output);
}

void metric_csv_open(struct metric_csv *csv, FILE *output, bool wide)
{
    *csv = (struct metric_csv){.output = output,
                               .wide = wide,
                               .metrics = json_object_new_object(),
                               .job_names = json_object_new_array()};
    if (!wide)
        fputs("job,job_name,metric,step,epoch,time,value\n", output);
}

void metric_csv_close(struct metric_csv *csv)
{
    json_object_put(csv->metrics);
    json_object_put(csv->job_names);
    free(csv->rows);
}

void metric_csv_add_job(struct metric_csv *csv, const char *name)
{
    json_object_array_add(csv->job_names, json_object_new_string(name));
}

static const char *job_name(const struct metric_csv *csv, size_t job)
{
    return json_object_get_string(json_object_array_get_idx(csv->job_names, job));
}

static void line_begin(struct metric_csv *csv, int64_t id, size_t job)
{
    fprintf(csv->output, "%" PRId64 ",", id);
    text_print(csv->output, job_name(csv, job));
    fputc(',', csv->output);
}

/* Prints a row of the long form. */
static void row_print(struct metric_csv *csv, int64_t id, struct json_object *row)
{
    line_begin(csv, id, json_object_array_length(csv->job_names) - 1);
    text_print(csv->output, json_get_string(row, "name", ""));
    fprintf(csv->output, ",%" PRId64 ",", json_get_int(row, "step", 0));
    number_print(csv->output, json_get_double(row, "epoch", NAN), "");
    fputc(',', csv->output);
    number_print(csv->output, json_get_double(row, "time", NAN), "");
    fputc(',', csv->output);
    number_print(csv->output, json_get_double(row, "value", NAN), "NaN");
    fputc('\n', csv->output);
}

static int row_keep(struct metric_csv *csv, int64_t id, struct json_object *row,
                    struct error *error)
{
    const char *name = json_get_string(row, "name", "");

    if (csv->row_count == csv->row_capacity) {
        size_t capacity = csv->row_capacity ? 2 * csv->row_capacity : 1024;
        struct metric_csv_row *grown = realloc(csv->rows, capacity * sizeof *grown);

        if (!grown)
            return error_no_memory(error, "%zu values", capacity);
        csv->rows = grown;
        csv->row_capacity = capacity;
    }
    if (!json_get(csv->metrics, name))
        json_set_int(csv->metrics, name, json_object_object_length(csv->metrics));
    csv->rows[csv->row_count] = (struct metric_csv_row){
        .job = json_object_array_length(csv->job_names) - 1,
        .column = (size_t)json_get_int(csv->metrics, name, 0),
        .id = id,
        .step = json_get_int(row, "step", 0),
        .epoch = json_get_double(row, "epoch", NAN),
        .time = json_get_double(row, "time", NAN),
        .value = json_get_double(row, "value", NAN),
        .place = csv->row_count,
    };
    csv->row_count++;
    return 0;
}

int metric_csv_add(struct metric_csv *csv, int64_t job, struct json_object *rows,
                   struct error *error)
{
    int result = 0;

    for (size_t i = 0; i < json_object_array_length(rows) && result == 0; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);

        if (csv->wide)
            result = row_keep(csv, job, row, error);
        else
            row_print(csv, job, row);
    }
    return result;
}

/* ---- the wide form --------------------------------------------------------------------------- */

static int compare_numbers(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

static int compare_rows(const void *first, const void *second)
{
    const struct metric_csv_row *left = first, *right = second;
    int jobs = compare_numbers((int64_t)left->job, (int64_t)right->job);
    int steps = compare_numbers(left->step, right->step);

    return jobs    ? jobs
           : steps ? steps
                   : compare_numbers((int64_t)left->place, (int64_t)right->place);
}

/* Prints the line of `count` rows of one job and step; `cells` has room for all columns. */
static void line_print(struct metric_csv *csv, const struct metric_csv_row *rows, size_t count,
                       const struct metric_csv_row **cells, size_t columns)
{
    double epoch = NAN;

    memset(cells, 0, columns * sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        cells[rows[i].column] = &rows[i];
        if (!isnan(rows[i].epoch))
            epoch = rows[i].epoch;
    }
    line_begin(csv, rows->id, rows->job);
    fprintf(csv->output, "%" PRId64 ",", rows->step);
    number_print(csv->output, epoch, "");
    fputc(',', csv->output);
    number_print(csv->output, rows[count - 1].time, "");
    for (size_t i = 0; i < columns; i++) {
        fputc(',', csv->output);
        if (cells[i])
            number_print(csv->output, cells[i]->value, "NaN");
    }
    fputc('\n', csv->output);
}

int metric_csv_finish(struct metric_csv *csv, struct error *error)
{
    size_t columns = (size_t)json_object_object_length(csv->metrics), first = 0;
    AUTO_FREE const struct metric_csv_row **cells = calloc(columns + 1, sizeof *cells);

    if (!csv->wide)
        return 0;
    if (!cells)
        return error_no_memory(error, "%zu columns", columns);
    fputs("job,job_name,step,epoch,time", csv->output);
    json_object_object_foreach (csv->metrics, name, unused) {
        (void)unused;
        fputc(',', csv->output);
        text_print(csv->output, name);
    }
    fputc('\n', csv->output);
    if (csv->row_count)
        qsort(csv->rows, csv->row_count, sizeof *csv->rows, compare_rows);
    while (first < csv->row_count) {
        size_t end = first + 1;

        while (end < csv->row_count && csv->rows[end].job == csv->rows[first].job &&
               csv->rows[end].step == csv->rows[first].step)
            end++;
        line_print(csv, &csv->rows[first], end - first, cells, columns);
        first = end;
    }
    return 0;
}
