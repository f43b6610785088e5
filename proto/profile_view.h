/* profile_view.h: a profile (docs/profile.md), as a table for a person and as a file of Chrome's
 * trace format, for the worker that made it and for the client that gets it from the daemon. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

/* What is recorded where nobody says how much. */
enum { PROFILE_STEPS_DEFAULT = 20 };

/* Phases of the run, operators of the recorded steps and the five hottest layers; `layers`: all of
 * them. */
void profile_print(struct json_object *profile, bool layers, FILE *output);

/* The recorded steps in the Trace Event Format (complete events, one lane a thread), which
 * chrome://tracing and https://ui.perfetto.dev open; "otherData" holds the profile's tables.
 * -EINVAL when the profile's trace is not well formed, -EIO when writing fails. */
int profile_write_trace(struct json_object *profile, FILE *output, struct error *error);
/* The same into the file at `path`, made anew. */
int profile_write_trace_file(struct json_object *profile, const char *path, struct error *error);
