/* sweep.h: one specification becomes a grid of them. */
#pragma once

#include "client/command.h"

/* Replaces each specification of the array `*specs` by one for every combination of the values of
 * all --sweep options; the last option varies fastest. The sentence names the option. */
int specs_sweep(const struct invocation *invocation, struct json_object **specs,
                struct error *error);
