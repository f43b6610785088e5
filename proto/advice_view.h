/* advice_view.h: writes advice (docs/advise.md) for a person. The worker that made it uses it, and
 * the client that asked the worker. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

/* A page of at most 80 columns: where the time goes, and what would save it, the best first. */
void advice_print(struct json_object *advice, FILE *output);
