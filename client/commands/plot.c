/* plot.c: `trainctl plot` draws metrics of jobs as curves in the terminal. */
#include "base/cleanup.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/metric_pages.h"
#include "client/connection/sweep.h"
#include "client/view/chart.h"
#include "client/view/job.h"
#include "client/view/sixel.h"
#include "proto/varlink.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_DEFAULT = 16,
    CURVES_MAX = 1000,
    POINTS = 2000 /* a longer curve comes in so many buckets: more than dots of any screen */
};

struct plotted_job {
    int64_t id;
    struct json_object *shown; /* the reply to Show; owned */
};

/* Where a curve of the chart comes from. */
struct origin {
    const struct plotted_job *job;
    const char *metric;
    char *name; /* of the curve; owned */
};

struct plot {
    struct invocation *invocation;
    struct plotted_job *jobs;
    size_t job_count;
    struct json_object *names; /* of the metrics; owned */
    struct chart chart;
    struct origin *origins; /* as many as curves; owned */
    double smoothing;
    bool epochs;       /* the x axis; else steps */
    int64_t nonfinite; /* values of long curves that are not finite */
};

/* ---- the jobs -------------------------------------------------------------------------------- */

/* Fetches the jobs that `text` names, each once. */
static enum exit_status jobs_add(struct plot *plot, const char *text)
{
    struct id_list list = {0};
    enum exit_status status = sweep_append_ids(plot->invocation, text, &list);
    struct plotted_job *more;

    more = status ? NULL
                  : realloc(plot->jobs, (plot->job_count + list.count + 1) * sizeof *plot->jobs);
    if (!status && !more) {
        complain("not enough memory for %zu jobs", list.count);
        status = EXIT_STATUS_FAILED;
    }
    plot->jobs = more ? more : plot->jobs;
    for (size_t i = 0; i < list.count && !status; i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters;
        size_t known = 0;

        while (known < plot->job_count && plot->jobs[known].id != list.ids[i])
            known++;
        if (known < plot->job_count)
            continue;
        parameters = json_object_new_object();
        json_set_int(parameters, "id", list.ids[i]);
        status = connection_call(plot->invocation, "Show", parameters, &reply);
        if (status)
            break;
        job_complete_metrics(json_get(reply.parameters, "job"));
        plot->jobs[plot->job_count++] =
            (struct plotted_job){.id = list.ids[i], .shown = json_object_get(reply.parameters)};
    }
    free(list.ids);
    return status;
}

static struct json_object *job_metrics(const struct plotted_job *job)
{
    return json_get(json_get(job->shown, "job"), "metrics");
}

static bool metric_exists(const struct plot *plot, const char *name)
{
    for (size_t i = 0; i < plot->job_count; i++)
        if (json_get(job_metrics(&plot->jobs[i]), name))
            return true;
    return false;
}

static void name_add(struct plot *plot, const char *name)
{
    if (!plot->names)
        plot->names = json_object_new_array();
    json_object_array_add(plot->names, json_object_new_string(name));
}

static bool name_is_listed(const struct plot *plot, const char *name)
{
    size_t count = plot->names ? json_object_array_length(plot->names) : 0;

    for (size_t i = 0; i < count; i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(plot->names, i)), name) == 0)
            return true;
    return false;
}

/* The metrics that --name lists, each once. */
static enum exit_status names_read(struct plot *plot)
{
    JSON_AUTO struct json_object *words = invocation_option_words(plot->invocation, "name");
    size_t count = words ? json_object_array_length(words) : 0;

    if (words && count == 0) {
        complain("--name names no metric; `trainctl show JOB` lists those of a job");
        return EXIT_STATUS_USAGE;
    }
    for (size_t i = 0; i < count; i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(words, i));

        if (!name_is_listed(plot, word))
            name_add(plot, word);
    }
    return EXIT_STATUS_DONE;
}

/* Without a choice: the losses of one job, one metric of several. */
static void names_choose(struct plot *plot)
{
    static const char *const usual[] = {"validation_loss", "train_loss", "loss"};

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (metric_exists(plot, usual[i]) && (!plot->names || plot->job_count == 1))
            name_add(plot, usual[i]);
    for (size_t i = 0; i < plot->job_count && !plot->names; i++) {
        struct json_object *metrics = job_metrics(&plot->jobs[i]);

        if (!json_object_is_type(metrics, json_type_object))
            continue;
        json_object_object_foreach (metrics, name, value) {
            (void)value;
            name_add(plot, name);
            break;
        }
    }
}

/* Finds jobs and metrics. The last argument is a metric if one of the jobs before it has it. */
static enum exit_status arguments_read(struct plot *plot)
{
    struct invocation *invocation = plot->invocation;
    size_t count = invocation->argument_count;
    enum exit_status status = names_read(plot);

    for (size_t i = 0; i < count && !status; i++) {
        const char *argument = invocation->arguments[i];

        if (i > 0 && i == count - 1 && !plot->names && metric_exists(plot, argument))
            name_add(plot, argument);
        else
            status = jobs_add(plot, argument);
        if (status && i > 0 && i == count - 1)
            complain("nor is it a metric of the jobs before it");
    }
    if (!status && !plot->names)
        names_choose(plot);
    return status;
}

/* What the jobs report would be metrics, if the daemon could read it: its warnings say so. */
static void no_metrics_complain(const struct plot *plot)
{
    bool ended = true;

    for (size_t i = 0; i < plot->job_count; i++)
        ended = ended && job_state_is_final(
                             json_get_string(json_get(plot->jobs[i].shown, "job"), "state", ""));
    if (ended)
        complain("the job%s reported no metrics", plot->job_count > 1 ? "s" : "");
    else
        complain("there are no metrics yet");
    for (size_t i = 0; i < plot->job_count; i++) {
        struct json_object *warnings = json_get(plot->jobs[i].shown, "warnings");

        for (size_t k = 0; warnings && k < json_object_array_length(warnings); k++)
            complain("job %" PRId64 ": %s", plot->jobs[i].id,
                     json_object_get_string(json_object_array_get_idx(warnings, k)));
    }
}

/* Says why there is nothing to draw. */
static enum exit_status nothing_to_draw(const struct plot *plot)
{
    size_t count = plot->names ? json_object_array_length(plot->names) : 0;

    if (plot->job_count == 0)
        complain("there are no jobs to draw");
    else if (count == 0)
        no_metrics_complain(plot);
    else
        complain("no values of %s%s: `trainctl show %" PRId64 "` lists the metrics of a job",
                 json_object_get_string(json_object_array_get_idx(plot->names, 0)),
                 count > 1 ? " and the others" : "", plot->jobs[0].id);
    return EXIT_STATUS_FAILED;
}

/* ---- the curves ------------------------------------------------------------------------------ */

struct collecting {
    struct chart_curve *curve;
    size_t room;
    const char *x; /* the member of a row */
};

/* Makes room for so many values more. */
static enum exit_status room_make(struct collecting *collecting, size_t count)
{
    struct chart_curve *curve = collecting->curve;
    size_t needed = curve->count + count, room = needed * 2;
    double *x, *y;

    if (needed <= collecting->room)
        return EXIT_STATUS_DONE;
    x = reallocarray(curve->x, room, sizeof *x);
    curve->x = x ? x : curve->x;
    y = x ? reallocarray(curve->y, room, sizeof *y) : NULL;
    curve->y = y ? y : curve->y;
    if (!y) {
        complain("not enough memory for %zu values", room);
        return EXIT_STATUS_FAILED;
    }
    collecting->room = room;
    return EXIT_STATUS_DONE;
}

/* There is room for it. */
static void value_add(struct chart_curve *curve, double x, double y)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room_make() has made it */
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

static enum exit_status rows_take(void *context, struct json_object *rows, int64_t cursor)
{
    struct collecting *collecting = context;
    size_t count = json_object_array_length(rows);
    enum exit_status status = room_make(collecting, count);

    (void)cursor;
    for (size_t i = 0; i < count && !status; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);

        value_add(collecting->curve, json_get_double(row, collecting->x, NAN),
                  json_get_double(row, "value", NAN));
    }
    return status;
}

static double list_get(struct json_object *buckets, const char *list, size_t index)
{
    struct json_object *value = json_object_array_get_idx(json_get(buckets, list), index);

    return value ? json_object_get_double(value) : NAN;
}

/* Adds a long curve: of each bucket the least and the greatest value, which together are a stroke,
 * or, where one line is asked for, the mean. It ends with the last value of all. */
static enum exit_status buckets_take(struct collecting *collecting, struct json_object *buckets,
                                     bool means, double last)
{
    const char *x_list = strcmp(collecting->x, "epoch") == 0 ? "epochs" : "steps";
    struct json_object *steps = json_get(buckets, "steps");
    size_t count = steps ? json_object_array_length(steps) : 0;
    enum exit_status status = room_make(collecting, 2 * count + 1);
    double x = NAN;

    for (size_t i = 0; i < count && !status; i++) {
        x = json_get(buckets, x_list) ? list_get(buckets, x_list, i) : NAN;
        if (!means) {
            value_add(collecting->curve, x, list_get(buckets, "minima", i));
            value_add(collecting->curve, x, list_get(buckets, "maxima", i));
        } else {
            value_add(collecting->curve, x, list_get(buckets, "means", i));
        }
    }
    if (!status && count > 0 && !means && isfinite(last))
        value_add(collecting->curve, x, last);
    return status;
}

/* Fetches the curve in buckets if it has more values than these; `*buckets` NULL: it is short, or
 * the daemon is too old for that. The caller owns it. */
static void buckets_fetch(const struct plot *plot, int64_t id, const char *metric,
                          struct json_object **buckets)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();

    *buckets = NULL;
    json_set_int(parameters, "id", id);
    json_set_string(parameters, "name", metric);
    json_set_int(parameters, "points", POINTS);
    if (connection_try(plot->invocation, "Curve", parameters, &reply) &&
        json_get_int(reply.parameters, "rows", 0) > POINTS)
        *buckets = json_object_get(reply.parameters);
}

/* "12 fashion-cnn", and the metric where there are several. The caller owns it. */
static char *curve_name(const struct plot *plot, const struct plotted_job *job, const char *metric)
{
    const char *name = json_get_string(json_get(job->shown, "job"), "name", "");
    bool several = json_object_array_length(plot->names) > 1;
    char *text = NULL;

    if (asprintf(&text, "%" PRId64 " %s%s%s", job->id, name, several ? " " : "",
                 several ? metric : "") < 0)
        return NULL;
    return text;
}

static enum exit_status curve_add(struct plot *plot, const struct plotted_job *job,
                                  const char *metric)
{
    struct chart_curve *curve = &plot->chart.curves[plot->chart.count];
    struct collecting collecting = {.curve = curve, .x = plot->epochs ? "epoch" : "step"};
    JSON_AUTO struct json_object *names = json_object_new_array(), *buckets = NULL;
    enum exit_status status;

    json_object_array_add(names, json_object_new_string(metric));
    plot->origins[plot->chart.count] = (struct origin){.job = job, .metric = metric};
    plot->chart.count++; /* from here on its memory is released with the others' */
    buckets_fetch(plot, job->id, metric, &buckets);
    if (buckets)
        status = buckets_take(&collecting, buckets, plot->smoothing > 0 || plot->invocation->json,
                              json_get_double(job_metrics(job), metric, NAN));
    else
        status = metric_pages_walk(plot->invocation, job->id, names, 0, rows_take, &collecting);
    plot->nonfinite += json_get_int(buckets, "nonfinite", 0);
    if (status)
        return status;
    if (curve->count == 0) {
        plot->chart.count--;
        return EXIT_STATUS_DONE;
    }
    curve->name = plot->origins[plot->chart.count - 1].name = curve_name(plot, job, metric);
    if (plot->smoothing > 0)
        chart_smooth(curve->y, curve->count, plot->smoothing);
    return curve->name ? EXIT_STATUS_DONE : EXIT_STATUS_FAILED;
}

/* Tells which of several metrics no job has: the others are drawn. */
static void absent_complain(const struct plot *plot, size_t metrics)
{
    for (size_t m = 0; m < metrics && plot->chart.count > 0; m++) {
        const char *name = json_object_get_string(json_object_array_get_idx(plot->names, m));
        bool drawn = false;

        for (size_t i = 0; i < plot->chart.count; i++) {
            const char *metric = plot->origins[i].metric;

            drawn = drawn || (metric && strcmp(metric, name) == 0);
        }
        if (!drawn)
            complain("there are no values of %s", name);
    }
}

static enum exit_status curves_collect(struct plot *plot)
{
    size_t metrics = plot->names ? json_object_array_length(plot->names) : 0;
    enum exit_status status = EXIT_STATUS_DONE;

    if (plot->job_count * metrics > CURVES_MAX) {
        complain("%zu curves are too many: at most %d", plot->job_count * metrics, CURVES_MAX);
        return EXIT_STATUS_USAGE;
    }
    plot->chart.curves = calloc(plot->job_count * metrics + 1, sizeof *plot->chart.curves);
    plot->origins = calloc(plot->job_count * metrics + 1, sizeof *plot->origins);
    if (!plot->chart.curves || !plot->origins) {
        complain("not enough memory for %zu curves", plot->job_count * metrics);
        return EXIT_STATUS_FAILED;
    }
    for (size_t i = 0; i < plot->job_count; i++)
        for (size_t m = 0; m < metrics && !status; m++)
            status = curve_add(plot, &plot->jobs[i],
                               json_object_get_string(json_object_array_get_idx(plot->names, m)));
    if (!status)
        absent_complain(plot, metrics);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Lets curves be an image where the terminal shows sixels, and colours are wanted; --sixel does not
 * ask the terminal, and --braille wants text. */
static enum exit_status image_choose(struct plot *plot)
{
    const struct invocation *invocation = plot->invocation;
    struct chart *chart = &plot->chart;
    bool wanted = invocation_flag(invocation, "sixel");

    if (invocation->json || invocation_flag(invocation, "braille"))
        return EXIT_STATUS_DONE;
    if (!wanted && !(invocation->output.colour && sixel_terminal_has()))
        return EXIT_STATUS_DONE;
    if (sixel_terminal_cell(&chart->cell_width, &chart->cell_height))
        return EXIT_STATUS_DONE;
    chart->cell_width = chart->cell_height = 0;
    if (!wanted)
        return EXIT_STATUS_DONE;
    complain("--sixel: standard output is no terminal that tells how many pixels it has");
    return EXIT_STATUS_USAGE;
}

static enum exit_status options_read(struct plot *plot)
{
    const struct invocation *invocation = plot->invocation;
    const char *smooth = invocation_option(invocation, "smooth");
    int64_t rows = ROWS_DEFAULT;
    enum exit_status status =
        invocation_option_integer(invocation, "height", CHART_ROWS_MIN, &rows);
    char *end;

    if (status)
        return status;
    if (rows > CHART_ROWS_MAX) {
        complain("--height=%" PRId64 ": at most %d lines", rows, CHART_ROWS_MAX);
        return EXIT_STATUS_USAGE;
    }
    if (smooth) {
        plot->smoothing = strtod(smooth, &end);
        if (end == smooth || *end || !(plot->smoothing >= 0 && plot->smoothing < 1)) {
            complain("--smooth=%s: a number from 0 to below 1 is expected, such as 0.9", smooth);
            return EXIT_STATUS_USAGE;
        }
    }
    plot->epochs = invocation_flag(invocation, "epochs");
    plot->chart.x_title = plot->epochs ? "epoch" : "step";
    plot->chart.logarithmic = invocation_flag(invocation, "log");
    plot->chart.rows = (size_t)rows;
    return image_choose(plot);
}

/* A line of JSON for each curve. */
static void curves_print_json(const struct plot *plot)
{
    for (size_t c = 0; c < plot->chart.count; c++) {
        const struct chart_curve *curve = &plot->chart.curves[c];
        const struct plotted_job *job = plot->origins[c].job;
        JSON_AUTO struct json_object *result = json_object_new_object();
        struct json_object *points = json_object_new_array();

        for (size_t i = 0; i < curve->count; i++) {
            struct json_object *point = json_object_new_object();

            if (plot->epochs)
                json_set_double(point, "epoch", curve->x[i]);
            else
                json_set_int(point, "step", (int64_t)curve->x[i]);
            json_set_double(point, "value", curve->y[i]);
            json_object_array_add(points, point);
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every curve has an origin */
        json_set_int(result, "job", job->id);
        json_set_string(result, "name", json_get_string(json_get(job->shown, "job"), "name", ""));
        json_set_string(result, "metric", plot->origins[c].metric);
        json_set(result, "points", points);
        json_print(result, stdout);
    }
}

/* Says how many of the jobs have no curve: among others nobody would see that one is missing. */
static void missing_tell(const struct plot *plot)
{
    size_t drawn = 0;

    for (size_t c = 0; c < plot->chart.count; c++) /* the curves of a job stand together */
        drawn += c == 0 || plot->origins[c].job != plot->origins[c - 1].job;
    if (drawn < plot->job_count)
        complain("%zu of %zu jobs ha%s no values of what is drawn", plot->job_count - drawn,
                 plot->job_count, plot->job_count - drawn == 1 ? "s" : "ve");
}

static enum exit_status chart_show(const struct plot *plot)
{
    char shown[512];
    long left_out;

    if (plot->chart.count == 0)
        return nothing_to_draw(plot);
    missing_tell(plot);
    if (plot->invocation->json) {
        curves_print_json(plot);
        return EXIT_STATUS_DONE;
    }
    if (json_object_array_length(plot->names) == 1)
        puts(text_escape_controls(json_object_get_string(json_object_array_get_idx(plot->names, 0)),
                                  shown, sizeof shown));
    left_out = chart_print(&plot->chart, &plot->invocation->output, stdout);
    if (left_out < 0) {
        complain("not enough memory to draw");
        return EXIT_STATUS_FAILED;
    }
    left_out += plot->nonfinite;
    if (left_out > 0)
        complain("%ld value%s no place in the chart: not finite%s%s", left_out,
                 left_out == 1 ? " has" : "s have",
                 plot->chart.logarithmic ? ", or not above 0" : "",
                 plot->epochs ? ", or without an epoch" : "");
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct plot plot = {.invocation = invocation};
    enum exit_status status = options_read(&plot);

    if (!status)
        status = arguments_read(&plot);
    if (!status)
        status = curves_collect(&plot);
    if (!status)
        status = chart_show(&plot);
    for (size_t i = 0; i < plot.chart.count; i++) {
        free(plot.origins[i].name);
        free(plot.chart.curves[i].x);
        free(plot.chart.curves[i].y);
    }
    free(plot.chart.curves);
    free(plot.origins);
    for (size_t i = 0; i < plot.job_count; i++)
        json_object_put(plot.jobs[i].shown);
    free(plot.jobs);
    json_object_put(plot.names);
    return status;
}

static const struct command_option plot_options[] = {
    {"name", 'n', "METRIC[,METRIC…]", "Draw these metrics; repeatable", COMPLETE_NOTHING},
    {"smooth", 's', "WEIGHT",
     "Draw exponential moving averages: how much of the average stays, such as 0.9",
     COMPLETE_NOTHING},
    {"log", 0, NULL, "A logarithmic y axis", COMPLETE_NOTHING},
    {"epochs", 0, NULL, "Epochs instead of steps as the x axis", COMPLETE_NOTHING},
    {"height", 0, "LINES", "Lines of the chart (default: 16)", COMPLETE_NOTHING},
    {"sixel", 0, NULL, "Draw an image, also where the terminal does not say that it shows sixels",
     COMPLETE_NOTHING},
    {"braille", 0, NULL, "Draw text, also where the terminal shows sixels", COMPLETE_NOTHING},
    {0},
};

const struct command command_plot = {
    .name = "plot",
    .place = 125,
    .arguments = "JOB… [METRIC]",
    .summary = "Draw metrics of jobs as curves",
    .details = "`sweep:12` stands for all jobs of a sweep. The last argument is a metric if one of "
               "the jobs has it. Without one, the losses of a single job are drawn, and "
               "validation_loss, or else another metric, of several.\n\n"
               "Where the screen has no colours, or no Unicode, curves are letters: a is the first "
               "one.",
    .minimum = 1,
    .maximum = -1,
    .options = plot_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
