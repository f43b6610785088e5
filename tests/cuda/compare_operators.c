/* compare_operators: every operator of the CUDA backend against the CPU backend, over many shapes
 * and all types of products (tests/cuda/cases.h).
 *
 *     compare_operators [--type TYPE] [--only PATTERN] [--backend cpu] [--limit ERROR]
 *                       [--cache FOLDER] [--list] [PLUGIN]
 *
 * PATTERN is a shell pattern for names of cases. `--backend cpu` compares the CPU with itself,
 * where the other types are emulated: what the cases are worth can be seen on any machine. ERROR
 * takes the place of the largest error that agrees. What the device measures (which algorithms of
 * convolutions are the fastest) is kept in FOLDER, and taken from there. `--list`: the names of the
 * cases alone. One line for a case: status, type, tensors compared, the largest normalised mean
 * squared error and whose it is, the case. Exit status 0: all that the backend has agree (what it
 * has not is listed as missing); 1: not; 77: there is no GPU. */
#include "tests/cuda/cases.h"
#include "worker/trainee/worker_plugin.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    int type;     /* enum tensor_type, -1: all */
    double limit; /* 0: as case_limit() has it */
    const char *pattern, *backend, *plugin, *cache;
    bool list;
};

struct count {
    int agree, differ, missing;
};

static const char *const status_names[] = {"agrees", "DIFFERS", "missing", "BROKEN"};

static void report(const struct test_case *test, enum tensor_type type,
                   const struct case_outcome *outcome, struct count *count)
{
    bool compared = outcome->status == CASE_AGREES || outcome->status == CASE_DIFFERS;

    if (compared)
        printf("%-8s %-9s %3d %8.1e  %-38s %s\n", status_names[outcome->status],
               tensor_type_to_string(type), outcome->compared, outcome->worst, test->name,
               outcome->what);
    else
        printf("%-8s %-9s   -        -  %-38s %s\n", status_names[outcome->status],
               tensor_type_to_string(type), test->name, outcome->what);
    fflush(stdout); /* so that the result is written even if the next case crashes */
    count->agree += outcome->status == CASE_AGREES;
    count->missing += outcome->status == CASE_MISSING;
    count->differ += outcome->status == CASE_DIFFERS || outcome->status == CASE_BROKEN;
}

static bool is_wanted(const struct test_case *test, enum tensor_type type,
                      const struct options *options)
{
    return (!options->pattern || fnmatch(options->pattern, test->name, 0) == 0) &&
           (!test->types || test->types & 1u << type) &&
           (options->type < 0 || options->type == (int)type);
}

static void list_table(const struct case_table *table, const struct options *options)
{
    for (int i = 0; i < table->count; i++)
        for (enum tensor_type type = TENSOR_FLOAT32; type <= TENSOR_TF32; type++)
            if (is_wanted(&table->cases[i], type, options)) {
                puts(table->cases[i].name);
                break;
            }
}

static void run_table(const struct case_table *table, const struct options *options,
                      struct backend_device *cpu, const struct backend *backend,
                      struct backend_device *device, struct count *count)
{
    for (int i = 0; i < table->count; i++) {
        const struct test_case *test = &table->cases[i];

        for (enum tensor_type type = TENSOR_FLOAT32; type <= TENSOR_TF32; type++) {
            struct case_outcome outcome;

            if (!is_wanted(test, type, options))
                continue;
            case_run(test, type, cpu, backend, device,
                     options->limit > 0 ? options->limit : case_limit(type), &outcome);
            report(test, type, &outcome, count);
        }
    }
}

static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"type", required_argument, NULL, 't'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"backend", required_argument, NULL, 'b'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"cache", required_argument, NULL, 'c'},
                                          {"list", no_argument, NULL, 'n'},
                                          {NULL, 0, NULL, 0}};
    int option;

    *options = (struct options){.type = -1, .backend = "cuda"};
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 't')
            options->type = tensor_type_from_string(optarg);
        else if (option == 'o')
            options->pattern = optarg;
        else if (option == 'b')
            options->backend = optarg;
        else if (option == 'l')
            options->limit = strtod(optarg, NULL);
        else if (option == 'c')
            options->cache = optarg;
        else if (option == 'n')
            options->list = true;
        else
            return -EINVAL;
        if (option == 't' && options->type < 0)
            return -EINVAL;
    }
    options->plugin = argv[optind];
    return 0;
}

static const struct case_table *const tables[] = {
    &linear_cases,    &operator_cases, &transformer_cases, &sequence_cases,
    &optimizer_cases, &image_cases,    &convolution_cases, &general_cases};
enum { TABLES = sizeof tables / sizeof *tables };

static int run_tables(const struct options *options, struct backend_device *cpu,
                      const struct backend *backend, struct backend_device *device)
{
    struct backend_device_info info;
    struct count count = {0};

    backend->device_describe(device, &info);
    printf("%s, %s, %s\n", info.model, info.features, info.versions);
    for (int i = 0; i < TABLES; i++)
        run_table(tables[i], options, cpu, backend, device, &count);
    printf("%d cases agree, %d do not, %d are missing\n", count.agree, count.differ, count.missing);
    return count.differ > 0 || count.agree == 0;
}

int main(int argc, char **argv)
{
    struct backend_device_config config = {.threads = 0}, other = {.emulate_precision = true};
    struct backend_device *cpu, *device;
    const struct backend *backend = backend_cpu();
    struct error error = {0};
    struct options options;
    int result;

    if (read_options(argc, argv, &options) < 0)
        return 2;
    other.cache_folder = options.cache;
    for (int i = 0; options.list && i < TABLES; i++)
        list_table(tables[i], &options);
    if (options.list)
        return 0;
    if ((strcmp(options.backend, "cpu") != 0 &&
         worker_plugin_load(options.backend, options.plugin, &backend, &error) < 0) ||
        backend_cpu()->device_open(&config, &cpu, &error) < 0 ||
        /* computes convolutions directly, without Winograd's rounding errors */
        backend_cpu()->device_choose_convolutions(cpu, "777777", &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (backend->device_open(&other, &device, &error) < 0) {
        puts(error.text);
        return error.code == -ERROR_DEVICE_LOST ? 77 : 1;
    }
    result = run_tables(&options, cpu, backend, device);
    backend->device_close(device);
    backend_cpu()->device_close(cpu);
    return result;
}
