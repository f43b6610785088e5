/* sim_options.h: the command line of traind-sim. */
#pragma once

#include "simulator/simulation.h"

struct sim_options {
    const char *throughputs, *trace, *cluster;
    int objective, policy; /* indices of their names; they decide the settings below */
    bool json, timing, jobs, help, version;
    struct simulation_options simulation;
};

/* Takes main()'s arguments. 0, or -EINVAL with a sentence. */
int sim_options_parse(int argc, char **argv, struct sim_options *options, struct error *error);
void sim_options_help(void);
