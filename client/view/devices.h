/* devices.h: shows devices, for `devices` and `top`. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* Prints a table with a line for each Device of the JSON array; prints nothing if it is empty. */
void devices_print(struct json_object *devices, const struct display *display, FILE *output);

/* Prints everything about one device on standard output: labelled lines, and tables of the jobs and
 * processes that hold its memory. */
void devices_print_one(struct json_object *device, const struct display *display);
