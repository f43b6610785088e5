/* worker_startup.h: where the time of a start goes, from the kernel's start of the process to the
 * end of the first step. What is told before the first step ends is told of the phases so far. */
#pragma once

#include "base/string_table.h"
#include "engine/backends/backend.h"
#include "proto/json.h"

#include <stdbool.h>

enum startup_phase {
    STARTUP_EXEC, /* the kernel, the dynamic linker: the process's start is known to 10 ms */
    STARTUP_SPECIFICATION,
    STARTUP_DATA,
    STARTUP_DEVICE, /* waiting for it: a thread may have opened it meanwhile */
    STARTUP_PLAN,
    STARTUP_MEMORY,     /* allocated, programs bound, weights drawn */
    STARTUP_CHECKPOINT, /* that the run goes on from */
    STARTUP_FIRST_STEP, /* its batch included */
    STARTUP_PHASES
};
DECLARE_STRING_TABLE(startup_phase, enum startup_phase);

struct worker_startup {
    double begin, mark; /* seconds of CLOCK_MONOTONIC: of the process, of the present phase */
    enum startup_phase phase;
    double seconds[STARTUP_PHASES];
    bool finished; /* the first step has ended */
};

/* Within a process that began as the kernel says, or was given its job at `taken_at` (of
 * CLOCK_MONOTONIC; 0: the former), in the phase of the specification. */
void worker_startup_begin(struct worker_startup *startup, double taken_at);
/* The present phase ends, this one begins; it may be entered again. */
void worker_startup_enter(struct worker_startup *startup, enum startup_phase phase);
/* The first step has ended; later calls do nothing. True: this was the first. */
bool worker_startup_finish(struct worker_startup *startup);

/* {phase: seconds, …, "total"} of the phases that have ended, and {"device_opening": {part:
 * seconds}} of a device that says so. */
struct json_object *worker_startup_json(const struct worker_startup *startup,
                                        const struct backend_device_info *info);
/* A line for a person on standard error. */
void worker_startup_print(const struct worker_startup *startup,
                          const struct backend_device_info *info);
