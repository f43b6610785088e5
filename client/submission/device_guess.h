/* device_guess.h: guesses where a command that names no device belongs, by what it is. */
#pragma once

#include "proto/json.h"

/* Writes device.guess and device.guess_reason of a specification of a command that names no device.
 * Where nothing is seen they stay as they are. Reads files as the calling user; see command_look.h.
 * A CUDA_VISIBLE_DEVICES of the shell that hides all GPUs is handed on to such a command. */
void device_guess_add(struct json_object *spec);

/* Adds device.guess to the changes of a job that is edited, if they change what it rests on and the
 * job names no device. `spec` is the job's, and gets the changes. */
void device_guess_edit(struct json_object *spec, struct json_object *changes);
