/* spec.h: specifications and plans in words, for people. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* Labelled lines: the command or the model, and the directory. */
void spec_print(const struct display *display, struct json_object *spec);
/* The keys that a sweep varies, each with its values. */
void spec_print_axes(const struct display *display, struct json_object *axes);
/* What was planned; with `ahead` also what is predicted of the run. NULL prints nothing. */
void spec_print_plan(const struct display *display, struct json_object *plan, bool ahead);
