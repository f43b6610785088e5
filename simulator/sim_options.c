/* sim_options.c: see sim_options.h. */
#include "simulator/sim_options.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_SEED, OPTION_NAME };

static const char *const policy_names[] = {"value",     "fifo",     "shortest",
                                           "remaining", "attained", NULL};
static const char *const objective_names[] = {"completion", "makespan", "fairness", NULL};

#define SIMULATION(member) offsetof(struct sim_options, simulation.member)
#define SETTING(member) offsetof(struct sim_options, simulation.settings.member)

static const struct option_row {
    const char *name;
    enum option_type type;
    size_t offset;
    const char *value, *help;
} option_rows[] = {
    {"throughputs", OPTION_TEXT, offsetof(struct sim_options, throughputs), "FILE",
     "how fast each model runs on each type of device (JSON)"},
    {"trace", OPTION_TEXT, offsetof(struct sim_options, trace), "FILE",
     "the jobs: one a line, ten columns separated by tabs"},
    {"cluster", OPTION_TEXT, offsetof(struct sim_options, cluster), "TYPE:N,...",
     "the devices, such as v100:4,p100:4,k80:4"},
    {"objective", OPTION_NAME, 0, "NAME", "completion (default), makespan or fairness"},
    {"policy", OPTION_NAME, 1, "NAME",
     "value (traind's, default), or for comparison fifo, shortest, remaining, attained"},
    {"restart-cost", OPTION_NUMBER, SIMULATION(restart_seconds), "SECONDS",
     "lost by a job that moves or resumes, default 30"},
    {"speed-noise", OPTION_NUMBER, SIMULATION(speed_noise), "DEVIATION",
     "of the logarithm of each speed, until it is measured"},
    {"length-noise", OPTION_NUMBER, SIMULATION(length_noise), "DEVIATION",
     "of the logarithm of each job's declared length"},
    {"hide-lengths", OPTION_FLAG, SIMULATION(hide_lengths), NULL, "nobody knows how long jobs are"},
    {"no-learning", OPTION_FLAG, SIMULATION(no_learning), NULL, "speeds are never measured"},
    {"measure-steps", OPTION_NUMBER, SIMULATION(measure_steps), "N",
     "after so many steps on a type a model's speed there is known, default 30"},
    {"round", OPTION_NUMBER, SIMULATION(round_seconds), "SECONDS",
     "between reviews where lengths are hidden, and rounds of attained, default 360"},
    {"seed", OPTION_SEED, SIMULATION(seed), "N", "of the noise, default 1"},
    {"congestion", OPTION_NUMBER, SETTING(congestion), "C", "see docs/placement.md; 0: use"},
    {"length-exponent", OPTION_NUMBER, SETTING(length_exponent), "A", "this power law instead"},
    {"age-exponent", OPTION_NUMBER, SETTING(age_exponent), "B", "of the waiting time"},
    {"hysteresis", OPTION_NUMBER, SETTING(hysteresis), "H", "restarts that a move must be worth"},
    {"optimism", OPTION_NUMBER, SETTING(optimism), "D",
     "deviations by which a speed not measured is overrated, so that it gets tried"},
    {"starvation-factor", OPTION_NUMBER, SETTING(starvation_factor), "F",
     "who has waited so many times its run time goes first; 0: no bound"},
    {"starvation-seconds", OPTION_NUMBER, SETTING(starvation_seconds), "SECONDS",
     "but not before so long a wait"},
    {"json", OPTION_FLAG, offsetof(struct sim_options, json), NULL, "print one JSON object"},
    {"jobs", OPTION_FLAG, offsetof(struct sim_options, jobs), NULL,
     "print a line for each job too: line of the trace, completion time in hours"},
    {"timing", OPTION_FLAG, offsetof(struct sim_options, timing), NULL,
     "decision times in the output, which else goes without what differs from run to run"},
    {"help", OPTION_FLAG, offsetof(struct sim_options, help), NULL, "this text"},
    {"version", OPTION_FLAG, offsetof(struct sim_options, version), NULL, "the version"},
};
enum { OPTION_ROWS = sizeof option_rows / sizeof option_rows[0], NAMES_MAX = 8 };

void sim_options_help(void)
{
    printf(
        "Usage: traind-sim --throughputs FILE --trace FILE --cluster TYPE:N,... [OPTION...]\n\n"
        "Replays a trace of training jobs through the scheduler of traind and prints completion\n"
        "times. The same input gives the same output, to the byte. Formats: Gavel's, see\n"
        "traind-sim(1).\n\n");
    for (int i = 0; i < OPTION_ROWS; i++) {
        char option[64];

        snprintf(option, sizeof option, "--%s%s%s", option_rows[i].name,
                 option_rows[i].value ? " " : "", option_rows[i].value ? option_rows[i].value : "");
        printf("  %-29s %s\n", option, option_rows[i].help);
    }
    printf("\nDecision times go to standard error. Exit status: 0; 1 files that cannot be used; "
           "2 usage.\n");
}

static int unknown_option(const char *name, struct error *error)
{
    const char *names[OPTION_ROWS], *nearest;

    for (int i = 0; i < OPTION_ROWS; i++)
        names[i] = option_rows[i].name;
    nearest = text_nearest(name, names, OPTION_ROWS);
    return error_set(error, -EINVAL, "there is no option --%.64s%s%s%s; see traind-sim --help",
                     name, nearest ? ", did you mean --" : "", nearest ? nearest : "",
                     nearest ? "?" : "");
}

/* The objectives are settings; an option that comes later may still change one. */
static void set_objective(struct policy_settings *settings, int objective)
{
    *settings = policy_settings_default();
    if (objective == 1) {
        settings->congestion = 0;
        settings->length_exponent = -1;
        settings->age_exponent = 0;
        settings->starvation_seconds = 7 * 86400;
    } else if (objective == 2) {
        settings->age_exponent = 1;
        settings->share_exponent = 1;
    }
}

static int set_name(const struct option_row *row, const char *value, struct sim_options *options,
                    struct error *error)
{
    const char *const *names = row->offset ? policy_names : objective_names;

    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], value) != 0)
            continue;
        if (row->offset)
            options->simulation.policy = (enum simulation_policy)i;
        else
            set_objective(&options->simulation.settings, i);
        return 0;
    }
    return error_set(error, -EINVAL, "--%s is %s, not \"%s\"", row->name,
                     row->offset ? "value, fifo, shortest, remaining or attained"
                                 : "completion, makespan or fairness",
                     value);
}

static int set_option(const struct option_row *row, const char *value, struct sim_options *options,
                      struct error *error)
{
    void *member = (char *)options + row->offset;
    bool negative = strcmp(row->name, "length-exponent") == 0;
    char *end = NULL;

    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)member = value;
        return 0;
    case OPTION_NAME:
        return set_name(row, value, options, error);
    case OPTION_NUMBER:
        *(double *)member = strtod(value, &end);
        if (end == value || *end || !isfinite(*(double *)member) ||
            (*(double *)member < 0 && !negative))
            return error_set(error, -EINVAL, "--%s must be a number%s, not \"%s\"", row->name,
                             negative ? "" : " from 0", value);
        return 0;
    case OPTION_SEED:
        errno = 0;
        *(uint64_t *)member = strtoull(value, &end, 10);
        if (errno || end == value || *end || *value == '-')
            return error_set(error, -EINVAL, "--%s must be a whole number from 0, not \"%s\"",
                             row->name, value);
        return 0;
    }
    return 0;
}

/* "--name", "--name=value" or "--name value"; `*index` moves past what it took. */
static int parse_option(int argc, char **argv, int *index, struct sim_options *options,
                        struct error *error)
{
    const char *word = argv[*index] + 2, *value = strchr(word, '=');
    size_t length = value ? (size_t)(value - word) : strlen(word);
    const struct option_row *row = NULL;
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)length, word);
    for (int i = 0; i < OPTION_ROWS; i++)
        if (strcmp(option_rows[i].name, name) == 0)
            row = &option_rows[i];
    if (!row)
        return unknown_option(name, error);
    if (row->type == OPTION_FLAG) {
        if (value)
            return error_set(error, -EINVAL, "--%s takes no value", name);
    } else if (value) {
        value++;
    } else if (*index + 1 < argc) {
        value = argv[++*index];
    } else {
        return error_set(error, -EINVAL, "--%s needs a value: --%s %s", name, name, row->value);
    }
    return set_option(row, value, options, error);
}

int sim_options_parse(int argc, char **argv, struct sim_options *options, struct error *error)
{
    *options = (struct sim_options){
        .simulation = {
            .restart_seconds = 30, .round_seconds = 360, .measure_steps = 30, .seed = 1}};
    set_objective(&options->simulation.settings, 0);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            return error_set(error, -EINVAL, "\"%.64s\" is not an option; see traind-sim --help",
                             argv[i]);
        if (parse_option(argc, argv, &i, options, error) < 0)
            return error->code;
    }
    if (options->help || options->version)
        return 0;
    if (!options->throughputs || !options->trace || !options->cluster)
        return error_set(error, -EINVAL, "--%s is missing; see traind-sim --help",
                         !options->throughputs ? "throughputs"
                         : !options->trace     ? "trace"
                                               : "cluster");
    if (options->simulation.round_seconds < 1)
        return error_set(error, -EINVAL, "--round must be at least 1 second");
    return 0;
}
