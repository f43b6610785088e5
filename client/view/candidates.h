/* candidates.h: the devices that a job could run on as people see them: predicted time and what it
 * rests on, memory, verdict (type Candidate of io.traind). */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* A table, a row for each of the JSON array; nothing for an empty one or NULL. */
void candidates_print(struct json_object *candidates, const struct display *display);

/* The name of the device that was chosen among them, NULL when there is none. */
const char *candidates_chosen(struct json_object *candidates);

/* What a predicted time rests on, in words: "measured here", "calibration". */
const char *candidates_basis(const char *basis);
