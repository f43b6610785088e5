/* operator_rates.h: a table of operator calls with the seconds that a device took for them in
 * models that it ran. The times of similar calls are estimated from it. */
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

/* Adds a call, unless the table has an equal one. -ENOMEM. */
int operator_rates_add(struct operator_rates *rates, const struct operator_rate *entry,
                       struct error *error);
/* Adds the nodes of a profile, and the time that its runs took in addition to their nodes. */
int operator_rates_add_profile(struct operator_rates *rates, const struct profile *profile,
                               struct error *error);

/* Estimates the seconds of a call from similar ones; -1 if the table has none of its operator. */
double operator_rates_seconds(const struct operator_rates *rates, const struct operator_call *call);

/* A call of a special kind that stands for the time which a run takes in addition to its nodes: to
 * begin, to end and to wait at barriers. The run has `nodes` nodes and `seconds` of work on each of
 * `lanes` lanes. */
struct operator_call operator_call_beside(double seconds, double nodes, int lanes);
extern const char operator_kind_beside[];
