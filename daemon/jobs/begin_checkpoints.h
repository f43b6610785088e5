/* begin_checkpoints.h: fetches the checkpoints that an attempt begins with, out of the store into
 * files: of a retry its own last one and the best before it; else that of the job which `weights`
 * of the specification names. */
#pragma once

#include "daemon/attempts/launch.h"
#include "proto/json.h"

struct job;
struct jobs;

void begin_checkpoints_open(struct jobs *jobs);

/* Calls `launch` with the files, now or once they are fetched, unless the job's attempt has ended
 * meanwhile. `launch` takes the paths over that it wants and clears them. If they cannot be
 * fetched, the launch of the attempt is refused. */
typedef void (*begin_checkpoints_launch)(struct jobs *jobs, struct job *job,
                                         struct json_object *spec,
                                         struct launch_checkpoints *files);
void begin_checkpoints_fetch(struct jobs *jobs, struct job *job, struct json_object *spec,
                             begin_checkpoints_launch launch);
