/* sim_options.h: the command line of traind-sim. */
#pragma once

#include "simulator/simulation.h"

struct sim_options {
    const char *throughputs, *trace, *cluster;
    int objective, policy; /* as indices of their names; the settings below follow them */
    bool json, timing, jobs, help, version;
    struct simulation_options simulation;
};

/* Words as main() has them. 0, or -EINVAL with a sentence. */
int sim_options_parse(int argc, char **argv, struct sim_options *options, struct error *error);
void sim_options_help(void);
