/* data_files.h: checks that a native job's data files exist, before the job is submitted. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* -ENOENT with the key and the path if a file of `data` does not exist: the job would fail as soon
 * as it is planned. Accepts a job that first waits for other jobs, a release or its group, because
 * the file may appear meanwhile. Also accepts one whose directory does not exist here: the daemon
 * may see other folders, for example from outside a container. */
int data_files_check(struct json_object *spec, struct error *error);
