/* devices.h: the table of devices, which `devices` and `top` show. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* A line for each Device of the JSON array; nothing for none. */
void devices_print(struct json_object *devices, const struct display *display, FILE *output);

/* Everything about one, on standard output: labelled lines, and tables of who holds its memory. */
void devices_print_one(struct json_object *device, const struct display *display);
