/* operator_rates.h: how fast a device runs each kind of operator, by the amount of work: taken from
 * profiles of models that were run on it, and used to predict the time of others. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"
#include "engine/train/profile.h"

#include <stdint.h>

enum { OPERATOR_KIND_MAX = 96 };

/* Calls of one kind whose work lies between two powers of 2. */
struct operator_rate {
    enum tensor_type compute_type;
    char kind[OPERATOR_KIND_MAX];
    double calls, work, seconds; /* sums */
};

struct operator_rates {
    struct operator_rate *entries; /* owned */
    int count, capacity;
};

void operator_rates_release(struct operator_rates *rates);

/* Words, the general ones first: "conv2d 3x3/1", "activation relu batch_norm". Every beginning of
 * it is a kind as well. What an operator stands beside is told of those that may do its work. */
void operator_kind(const struct graph *graph, const struct graph_node *node,
                   char kind[OPERATOR_KIND_MAX]);
/* Floating-point operations of products and convolutions, bytes of others. */
double operator_work(const struct graph *graph, const struct graph_node *node);

/* Adds calls of a kind (of an entry that was stored, too). -ENOMEM. */
int operator_rates_add(struct operator_rates *rates, const struct operator_rate *entry,
                       struct error *error);
/* Adds what a profile says: each node under its kind and all beginnings of it, and what the steps
 * took beside their operators. */
int operator_rates_add_profile(struct operator_rates *rates, const struct profile *profile,
                               struct error *error);

/* The seconds of one call by what was measured of the longest beginning of the kind that there is,
 * in this type or else in float32; -1 when there is none. */
double operator_rates_seconds(const struct operator_rates *rates, enum tensor_type compute_type,
                              const char *kind, double work);

/* The kind that stands for what a run takes beside its operators; its work is their seconds. */
extern const char operator_kind_beside[];
