/* operator_rates.h: how long a device took for the calls of operators in models that were run on
 * it, and what follows for others that resemble them. */
#pragma once

#include "base/error.h"
#include "engine/train/operator_call.h"
#include "engine/train/profile.h"

struct operator_rate {
    struct operator_call call;
    double seconds;
};

struct operator_rates {
    struct operator_rate *entries; /* owned */
    int count, capacity;
};

void operator_rates_release(struct operator_rates *rates);

/* Adds a call, unless one like it is there. -ENOMEM. */
int operator_rates_add(struct operator_rates *rates, const struct operator_rate *entry,
                       struct error *error);
/* Adds the nodes of what was profiled, and what its runs took beside them. */
int operator_rates_add_profile(struct operator_rates *rates, const struct profile *profile,
                               struct error *error);

/* The seconds of the call by those that resemble it; -1 when nothing of this operator is known. */
double operator_rates_seconds(const struct operator_rates *rates, const struct operator_call *call);

/* What a run of `nodes` nodes, `seconds` of work on each of `lanes` lanes, takes beside that:
 * waiting for each other, beginning and ending. As a call of its own kind. */
struct operator_call operator_call_beside(double seconds, double nodes, int lanes);
extern const char operator_kind_beside[];
