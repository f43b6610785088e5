/* command_spec.h: makes a specification of a command line, for `run` and `plan`. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
/* The options of a command line. */
#define COMMAND_SPEC_OPTIONS \
    {"name", 'n', "NAME", "Name of the job (default: the command's)", COMPLETE_NOTHING}, \
    {"directory", 'C', "PATH", "Directory to run in (default: the current one)", COMPLETE_FILES}, \
    {"device", 'd', "NAME[,NAME…]", "Devices that it may run on: cuda:0, cpu, gpu, any, …; repeatable (default: where such commands belong)", COMPLETE_DEVICES}, \
    {"gpu", 0, NULL, "On a GPU (short for --gpus 1)", COMPLETE_NOTHING}, \
    {"gpus", 0, "N", "On N GPUs at once, of one type", COMPLETE_NOTHING}, \
    {"devices", 0, "N", "How many of them it uses at once (default: 1)", COMPLETE_NOTHING}, \
    {"cores", 'c', "N", "CPU cores that it uses (default: its share of the machine's)", COMPLETE_NOTHING}, \
    {"memory", 'm', "SIZE", "Memory that it may use, such as 4G (default: learnt)", COMPLETE_NOTHING}, \
    {"device-memory", 0, "SIZE", "Memory of the device that it may use (default: learnt)", COMPLETE_NOTHING}, \
    {"gpu-memory", 0, "SIZE", "The same: memory of a GPU, such as 8G", COMPLETE_NOTHING}, \
    {"time", 't', "DURATION", "How long it will run, about, such as \"2 h\" (default: learnt)", COMPLETE_NOTHING}, \
    {"time-limit", 0, "DURATION", "Longest run of one attempt", COMPLETE_NOTHING}, \
    {"priority", 'p', "N", "Higher ones start first (default: 0)", COMPLETE_NOTHING}, \
    {"preemptible", 0, NULL, "It saves its state at SIGTERM and goes on from there", COMPLETE_NOTHING}, \
    {"checkpoint-signal", 0, "SIGNAL", "… at this signal, such as SIGUSR1", COMPLETE_NOTHING}, \
    {"checkpoint-grace", 0, "DURATION", "… within this time", COMPLETE_NOTHING}, \
    {"no-env", 0, NULL, "Pass only PATH, LANG, VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, LD_LIBRARY_PATH", COMPLETE_NOTHING}
/* clang-format on */

/* Makes the specification of the command that the arguments are, by the options, and completes it.
 * `spec` is an empty object. -EINVAL: the sentence says why, or was printed if there is none. */
int command_spec_make(const struct invocation *invocation, struct json_object *spec,
                      struct error *error);
