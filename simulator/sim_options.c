/* sim_options.c: see sim_options.h. */
#include "simulator/sim_options.h"

#include "base/options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIMULATION(member) offsetof(struct sim_options, simulation.member)
#define SETTING(member) offsetof(struct sim_options, simulation.settings.member)

static const struct option_row option_rows[] = {
    {"throughputs", OPTION_TEXT, offsetof(struct sim_options, throughputs), "FILE",
     "how fast each model runs on each type of device (JSON)"},
    {"trace", OPTION_TEXT, offsetof(struct sim_options, trace), "FILE",
     "the jobs: one per line, ten columns separated by tabs"},
    {"cluster", OPTION_TEXT, offsetof(struct sim_options, cluster), "TYPE:N,...",
     "the devices, such as v100:4,p100:4,k80:4"},
    {"objective", OPTION_NAME, offsetof(struct sim_options, objective),
     "completion|makespan|fairness", "what to optimise, default completion"},
    {"policy", OPTION_NAME, offsetof(struct sim_options, policy),
     "value|fifo|shortest|remaining|attained",
     "value: traind's, the default; the others for comparison"},
    {"restart-cost", OPTION_NUMBER, SIMULATION(restart_seconds), "SECONDS",
     "time that a move or a resumption costs, default 30"},
    {"speed-noise", OPTION_NUMBER, SIMULATION(speed_noise), "DEVIATION",
     "of the logarithm of each predicted speed, until it is measured"},
    {"length-noise", OPTION_NUMBER, SIMULATION(length_noise), "DEVIATION",
     "of the logarithm of each job's declared length"},
    {"left-noise", OPTION_NUMBER, SIMULATION(left_noise), "DEVIATION",
     "of the logarithm of each job's remaining length, instead of --length-noise"},
    {"hide-lengths", OPTION_FLAG, SIMULATION(hide_lengths), NULL,
     "the policy does not know how long jobs are"},
    {"no-learning", OPTION_FLAG, SIMULATION(no_learning), NULL, "speeds are never measured"},
    {"measure-steps", OPTION_NUMBER, SIMULATION(measure_steps), "N",
     "steps after which a model's speed on a type is known, default 30"},
    {"round", OPTION_NUMBER, SIMULATION(round_seconds), "SECONDS",
     "between decisions with hidden lengths, and length of a round of attained, default 360"},
    {"seed", OPTION_SEED, SIMULATION(seed), "N", "of the noise, default 1"},
    {"congestion", OPTION_NUMBER, SETTING(congestion), "C",
     "weight of the delay of others "
     "(docs/placement.md); 0: use "
     "--length-exponent"},
    {"length-exponent", OPTION_SIGNED_NUMBER, SETTING(length_exponent), "A",
     "exponent of a power law of the length, if the congestion is 0"},
    {"age-exponent", OPTION_NUMBER, SETTING(age_exponent), "B", "exponent of the waiting time"},
    {"hysteresis", OPTION_NUMBER, SETTING(hysteresis), "H", "restarts that a move must be worth"},
    {"optimism", OPTION_NUMBER, SETTING(optimism), "D",
     "deviations by which an unmeasured speed is assumed higher, so that it is tried"},
    {"starvation-factor", OPTION_NUMBER, SETTING(starvation_factor), "F",
     "a job that has waited this many times its run time goes first; 0: no bound"},
    {"starvation-seconds", OPTION_NUMBER, SETTING(starvation_seconds), "SECONDS",
     "but only after it has waited at least this long"},
    {"json", OPTION_FLAG, offsetof(struct sim_options, json), NULL, "print one JSON object"},
    {"jobs", OPTION_FLAG, offsetof(struct sim_options, jobs), NULL,
     "print a line for each job too: line of the trace, completion time in hours"},
    {"timing", OPTION_FLAG, offsetof(struct sim_options, timing), NULL,
     "include decision times, which differ from run to run"},
    {"help", OPTION_FLAG, offsetof(struct sim_options, help), NULL, "this text"},
    {"version", OPTION_FLAG, offsetof(struct sim_options, version), NULL, "the version"},
};
enum { OPTION_ROWS = sizeof option_rows / sizeof option_rows[0] };

void sim_options_help(void)
{
    printf(
        "Usage: traind-sim --throughputs FILE --trace FILE --cluster TYPE:N,... [OPTION...]\n\n"
        "Replays a trace of training jobs through the scheduler of traind and prints completion\n"
        "times. The same input gives the same output, to the byte. Formats: Gavel's, see\n"
        "traind-sim(1).\n\n");
    options_print_help(option_rows, OPTION_ROWS, 29);
    printf("\nDecision times go to standard error. Exit status: 0; 1 files that cannot be used; "
           "2 usage.\n");
}

/* An objective is a set of settings. Options of single settings override it, whatever their
 * order. */
static void set_objective(struct policy_settings *settings, int objective)
{
    *settings = policy_settings_default();
    if (objective == 1) {
        settings->makespan = true;
        settings->age_exponent = 0;
        settings->starvation_factor = 0; /* the bound lengthened long makespans by a sixth */
    } else if (objective == 2) {
        settings->age_exponent = 1;
        settings->share_exponent = 1;
    }
}

static int parse_words(int argc, char **argv, int objective, struct sim_options *options,
                       struct error *error)
{
    const struct option_table table = {"traind-sim", option_rows, OPTION_ROWS, NULL};

    *options = (struct sim_options){
        .simulation = {
            .restart_seconds = 30, .round_seconds = 360, .measure_steps = 30, .seed = 1}};
    set_objective(&options->simulation.settings, objective);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            return error_set(error, -EINVAL, "\"%.64s\" is not an option; see traind-sim --help",
                             argv[i]);
        if (option_parse(&table, argc, argv, &i, options, NULL, error) < 0)
            return error->code;
    }
    options->simulation.policy = (enum simulation_policy)options->policy;
    return 0;
}

/* The largest noise. With more, predictions are no longer finite. */
#define NOISE_MAX 5.0

/* The longest restart. Every preemption costs one, and a schedule ends at SCHEDULE_SECONDS_MAX. */
#define RESTART_SECONDS_MAX 1e7

static int check_noise(const struct simulation_options *simulation, struct error *error)
{
    const struct {
        const char *name;
        double deviation;
    } noises[] = {{"speed-noise", simulation->speed_noise},
                  {"length-noise", simulation->length_noise},
                  {"left-noise", simulation->left_noise}};

    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++)
        if (noises[i].deviation > NOISE_MAX)
            return error_set(error, -EINVAL,
                             "--%s must be at most %g: that is wrong by a factor of %.0f as a rule",
                             noises[i].name, NOISE_MAX, exp(NOISE_MAX));
    return 0;
}

int sim_options_parse(int argc, char **argv, struct sim_options *options, struct error *error)
{
    int r = parse_words(argc, argv, 0, options, error);

    if (r == 0)
        r = parse_words(argc, argv, options->objective, options, error);
    if (r < 0)
        return r;
    if (options->help || options->version)
        return 0;
    if (!options->throughputs || !options->trace || !options->cluster)
        return error_set(error, -EINVAL, "--%s is missing; see traind-sim --help",
                         !options->throughputs ? "throughputs"
                         : !options->trace     ? "trace"
                                               : "cluster");
    if (options->simulation.restart_seconds > RESTART_SECONDS_MAX)
        return error_set(error, -EINVAL,
                         "--restart-cost must be at most %.0f seconds: that is four months",
                         RESTART_SECONDS_MAX);
    if (options->simulation.round_seconds < 1)
        return error_set(error, -EINVAL, "--round must be at least 1 second");
    return check_noise(&options->simulation, error);
}
