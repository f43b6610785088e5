/* worker_run.h: runs the traind-worker beside this program as the calling user, and reads the JSON
 * that it prints. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Where a worker finds the specification that it is handed. */
#define WORKER_RUN_SPEC "/dev/fd/3"

/* `arguments`: those behind the program's name, the command first; they end with NULL. `spec`: what
 * WORKER_RUN_SPEC holds, NULL: nothing. The caller owns `*output`. On failure the sentence is
 * traind-worker's own. A report of something that is wrong (verify) is no failure. */
int worker_run(const char *const *arguments, struct json_object *spec, struct json_object **output,
               struct error *error);
