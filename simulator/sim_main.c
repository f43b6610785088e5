/* sim_main.c: traind-sim replays a trace under traind's scheduler and prints figures. */
#include "base/cleanup.h"
#include "base/file.h"
#include "proto/json.h"
#include "simulator/sim_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

/* The printed figures: name in JSON, words for a person, member of the result, unit. */
static const struct figure {
    const char *name, *words;
    size_t offset;
    enum { FIGURE_HOURS, FIGURE_RATIO, FIGURE_COUNT, FIGURE_MICROSECONDS } unit;
} figures[] = {
#define FIGURE(member) offsetof(struct simulation_result, member)
    {"jobs", "jobs", FIGURE(jobs), FIGURE_COUNT},
    {"left_out", "left out: no device can run them", FIGURE(left_out), FIGURE_COUNT},
    {"average_completion_hours", "completion time, average", FIGURE(average_completion),
     FIGURE_HOURS},
    {"median_completion_hours", "  median", FIGURE(median_completion), FIGURE_HOURS},
    {"p95_completion_hours", "  95th percentile", FIGURE(p95_completion), FIGURE_HOURS},
    {"p99_completion_hours", "  99th percentile", FIGURE(p99_completion), FIGURE_HOURS},
    {"worst_completion_hours", "  longest", FIGURE(worst_completion), FIGURE_HOURS},
    {"makespan_hours", "makespan", FIGURE(makespan), FIGURE_HOURS},
    {"longest_wait_hours", "longest wait in all", FIGURE(longest_wait), FIGURE_HOURS},
    {"average_slowdown", "completion / run time alone, average", FIGURE(average_slowdown),
     FIGURE_RATIO},
    {"p99_slowdown", "  99th percentile", FIGURE(p99_slowdown), FIGURE_RATIO},
    {"utilisation", "devices in use", FIGURE(utilisation), FIGURE_RATIO},
    {"preemptions", "preemptions and moves", FIGURE(preemptions), FIGURE_COUNT},
    {"decisions", "decisions", FIGURE(decisions), FIGURE_COUNT},
    {"inexact_decisions", "  of them not proved the best", FIGURE(inexact), FIGURE_COUNT},
    {"decision_microseconds_median", "decision time, median", FIGURE(decision_median),
     FIGURE_MICROSECONDS},
    {"decision_microseconds_p99", "  99th percentile", FIGURE(decision_p99), FIGURE_MICROSECONDS},
    {"decision_microseconds_worst", "  longest", FIGURE(decision_worst), FIGURE_MICROSECONDS},
};

static double figure_value(const struct figure *figure, const struct simulation_result *result)
{
    const char *member = (const char *)result + figure->offset;

    switch (figure->unit) {
    case FIGURE_COUNT:
        return (double)*(const size_t *)member;
    case FIGURE_HOURS:
        return *(const double *)member / 3600;
    case FIGURE_MICROSECONDS:
        return *(const double *)member * 1e6;
    case FIGURE_RATIO:
        break;
    }
    return *(const double *)member;
}

static void print_json(const struct sim_options *options, const struct workload *workload,
                       const double *completions, const struct simulation_result *result)
{
    JSON_AUTO struct json_object *object = json_object_new_object();

    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        double value = figure_value(&figures[i], result);

        if (figures[i].unit == FIGURE_MICROSECONDS && !options->timing)
            continue;
        if (figures[i].unit == FIGURE_COUNT)
            json_set_int(object, figures[i].name, (int64_t)value);
        else
            json_set_double(object, figures[i].name, value);
    }
    if (options->jobs) {
        struct json_object *jobs = json_object_new_array();

        for (size_t i = 0; i < workload->count; i++) {
            struct json_object *job = json_object_new_object();

            json_set_int(job, "line", (int64_t)workload->jobs[i].line);
            json_set_double(job, "completion_hours", completions[i] / 3600);
            json_object_array_add(jobs, job);
        }
        json_set(object, "completions", jobs);
    }
    json_print(object, stdout);
}

static void print_text(const struct sim_options *options, const struct workload *workload,
                       const double *completions, const struct simulation_result *result)
{
    static const char *const units[] = {[FIGURE_HOURS] = " h",
                                        [FIGURE_RATIO] = "",
                                        [FIGURE_COUNT] = "",
                                        [FIGURE_MICROSECONDS] = " µs"};

    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (figures[i].unit != FIGURE_MICROSECONDS || options->timing)
            printf("%-40s %.*f%s\n", figures[i].words, figures[i].unit == FIGURE_COUNT ? 0 : 2,
                   figure_value(&figures[i], result), units[figures[i].unit]);
    for (size_t i = 0; options->jobs && i < workload->count; i++)
        printf("%zu\t%.6f\n", workload->jobs[i].line, completions[i] / 3600);
}

static int replay(const struct sim_options *options, struct error *error)
{
    struct cluster cluster;
    struct workload workload = {0};
    struct simulation_result result;
    AUTO_FREE double *completions = NULL;
    int status = cluster_parse(options->cluster, &cluster, error);

    if (status == 0)
        status = workload_load(options->trace, options->throughputs, &cluster, &workload, error);
    if (status == 0) {
        completions = calloc(workload.count, sizeof *completions);
        status = completions ? simulate(&workload, &cluster, &options->simulation, completions,
                                        &result, error)
                             : error_set(error, -ENOMEM, "out of memory");
    }
    if (status == 0) {
        (options->json ? print_json : print_text)(options, &workload, completions, &result);
        fprintf(stderr, "traind-sim: %zu decisions, 99%% of them within %.0f µs\n",
                result.decisions, result.decision_p99 * 1e6);
    }
    workload_free(&workload);
    cluster_free(&cluster);
    return status;
}

int main(int argc, char **argv)
{
    struct sim_options options;
    struct error error;

    file_fill_standard();
    if (sim_options_parse(argc, argv, &options, &error) < 0) {
        fprintf(stderr, "traind-sim: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (options.help) {
        sim_options_help();
        return EXIT_SUCCESS;
    }
    if (options.version) {
        printf("traind-sim " TRAIND_VERSION "\n");
        return EXIT_SUCCESS;
    }
    if (replay(&options, &error) < 0) {
        fprintf(stderr, "traind-sim: %s\n", error.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
