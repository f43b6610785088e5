/* profile_view.h: writes a profile (docs/profile.md) as tables for a person or in Chrome's trace
 * format. The worker that made the profile uses it, and the client that gets it from the daemon. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

/* How many steps are recorded by default. */
enum { PROFILE_STEPS_DEFAULT = 20 };

/* Prints the run's phases, the operators of the recorded steps and the five layers that took most
 * time; `layers`: all layers. */
void profile_print(struct json_object *profile, bool layers, FILE *output);

/* The recorded steps in the Trace Event Format (complete events, one lane a thread), which
 * chrome://tracing and https://ui.perfetto.dev open; "otherData" holds the profile's tables.
 * -EINVAL: the profile's trace is not well formed. -EIO: writing failed. */
int profile_write_trace(struct json_object *profile, FILE *output, struct error *error);
/* The same into the file at `path`, which is created or replaced. */
int profile_write_trace_file(struct json_object *profile, const char *path, struct error *error);
