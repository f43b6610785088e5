/* device_guess.h: guesses where a command that names no device belongs, by what it is. */
#pragma once

#include "proto/json.h"

#include <stdbool.h>

/* Writes device.guess and device.guess_reason of a specification of a command that names no device.
 * Where nothing is seen they stay as they are. Reads files as the calling user; see command_look.h.
 * A CUDA_VISIBLE_DEVICES of the shell that hides all GPUs is handed on to such a command. */
void device_guess_add(struct json_object *spec);

/* Whether the changes of a job that is edited change what its device.guess rests on, and do not say
 * it themselves. */
bool device_guess_rests_on(struct json_object *changes);
/* Adds device.guess to such changes if the job names no device. `spec` is the job's, and gets the
 * changes. */
void device_guess_edit(struct json_object *spec, struct json_object *changes);
