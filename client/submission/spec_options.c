/* spec_options.c: see spec_options.h. */
#include "client/submission/spec_options.h"

#include <stddef.h>

const struct spec_option spec_options[] = {
    {"memory", "resources", "memory", false, 0},
    {"device-memory", "resources", "device_memory", false, 0},
    {"gpu-memory", "resources", "device_memory", false, 0},
    {"time", "resources", "time", false, 0},
    {"time-limit", NULL, "time_limit", false, 0},
    {"checkpoint-signal", NULL, "checkpoint_signal", false, 0},
    {"checkpoint-grace", NULL, "checkpoint_grace", false, 0},
    {"cores", "resources", "cores", true, 1},
    {"devices", "resources", "devices", true, 1},
    {"priority", NULL, "priority", true, -1000},
    {NULL, NULL, NULL, false, 0},
};
