/* candidates.h: shows the devices that a job could run on (type Candidate of io.traind): predicted
 * time and its source, memory, verdict. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* Prints a table with a row for each element of the JSON array; prints nothing if it is empty or
 * NULL. */
void candidates_print(struct json_object *candidates, const struct display *display);

/* The name of the chosen device among them; NULL: there is none. */
const char *candidates_chosen(struct json_object *candidates);

/* The source of a predicted time in words: "measured here", "calibration". */
const char *candidates_basis(const char *basis);
