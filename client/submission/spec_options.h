/* spec_options.h: the options that set keys of a specification, for every command that makes or
 * submits one. `trainctl edit` takes the same names for these keys. */
#pragma once

#include "client/command_line/invocation.h"

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define SPEC_OPTIONS \
    {"name", 'n', "NAME", "Name of the job (default of a command: its program's)", COMPLETE_NOTHING}, \
    {"device", 'd', "NAME[,NAME…]", "Devices that it may run on: cuda:0, cpu, gpu, any, …; repeatable (default: where such jobs belong)", COMPLETE_DEVICES}, \
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
    {"checkpoint-grace", 0, "DURATION", "… within this time", COMPLETE_NOTHING}
/* clang-format on */

/* An option whose text or integer is the value of one key. */
struct spec_option {
    const char *option, *section, *key; /* section NULL: a top-level key; option NULL: the end */
    bool integer;                       /* else the daemon reads the text */
    int64_t minimum;                    /* of an integer */
};

extern const struct spec_option spec_options[];

/* Sets the keys that options of SPEC_OPTIONS name, whatever `spec` said of them before. --device
 * and --gpu replace the whole of `device`. On failure prints a sentence and returns
 * EXIT_STATUS_USAGE. */
enum exit_status spec_options_apply(const struct invocation *invocation, struct json_object *spec);

/* Whether an option is given that spec_options_apply() would apply. */
bool spec_options_are_given(const struct invocation *invocation);
