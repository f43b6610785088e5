/* data_files.h: whether a native job's data is there, asked before the job is submitted. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* -ENOENT with the key and the path where a file of `data` does not exist. The job would fail when
 * it is planned, at once. So a specification is let through that waits for something before: for
 * other jobs, for a release, for its group. So is one whose directory is not there: the caller sees
 * other folders than the daemon, as in a container. */
int data_files_check(struct json_object *spec, struct error *error);
