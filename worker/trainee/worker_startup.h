/* worker_startup.h: measures the phases of a start, from the kernel's start of the process to the
 * end of the first step. Until the first step ends, reports cover the phases so far. */
#pragma once

#include "base/string_table.h"
#include "engine/backends/backend.h"
#include "proto/json.h"

#include <stdbool.h>

enum startup_phase {
    STARTUP_EXEC, /* kernel and dynamic linker; the process's start is known to 10 ms */
    STARTUP_SPECIFICATION,
    STARTUP_DATA,
    STARTUP_DEVICE, /* waiting for the device, which a thread may have opened meanwhile */
    STARTUP_PLAN,
    STARTUP_MEMORY,     /* allocating it, binding programs, drawing weights */
    STARTUP_CHECKPOINT, /* reading the checkpoint that the run continues from */
    STARTUP_FIRST_STEP, /* including its batch */
    STARTUP_PHASES
};
DECLARE_STRING_TABLE(startup_phase, enum startup_phase);

struct worker_startup {
    double begin, mark; /* CLOCK_MONOTONIC seconds: start of the process, and of the phase */
    enum startup_phase phase;
    double seconds[STARTUP_PHASES];
    bool finished; /* the first step has ended */
};

/* Begins in the phase of the specification. The start is the kernel's start of the process, or
 * `taken_at` (CLOCK_MONOTONIC; 0: not given), when a warm worker got its job. */
void worker_startup_begin(struct worker_startup *startup, double taken_at);
/* Ends the present phase and begins this one. A phase may be entered several times. */
void worker_startup_enter(struct worker_startup *startup, enum startup_phase phase);
/* Call it when a step has ended. Returns true at the first call; later calls do nothing. */
bool worker_startup_finish(struct worker_startup *startup);

/* Makes {phase: seconds, …, "total"} of the ended phases, and {"device_opening": {part: seconds}}
 * if the device reports these. */
struct json_object *worker_startup_json(const struct worker_startup *startup,
                                        const struct backend_device_info *info);
/* Prints a line for a person on standard error. */
void worker_startup_print(const struct worker_startup *startup,
                          const struct backend_device_info *info);
