/* spec.h: prints specifications and plans for people. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* Prints labelled lines: the command or the model, and the directory. */
void spec_print(const struct display *display, struct json_object *spec);
/* Prints the keys that a sweep varies, each with its values. */
void spec_print_axes(const struct display *display, struct json_object *axes);
/* Prints the plan; with `ahead` also the prediction of the run. `plan` NULL: prints nothing. */
void spec_print_plan(const struct display *display, struct json_object *plan, bool ahead);
