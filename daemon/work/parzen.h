/* parzen.h: the tree-structured Parzen estimator of J. Bergstra and others, "Algorithms for
 * Hyper-Parameter Optimization" (NeurIPS 2011), one key at a time. The choices that the paper
 * leaves open are the defaults of Optuna's TPESampler: 24 candidates; the best tenth of the
 * trials, 25 at most, are good; a prior of weight 1; of more than 25 trials the older ones count
 * less. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The range of a key. */
struct parzen_axis {
    double from, to; /* both included; unused for choices */
    bool logarithmic, integer;
    size_t choices; /* above 0: values are indices below this number */
};

/* How many of `count` trials are good. */
size_t parzen_good_count(size_t count);

/* The value, among candidates drawn from the density of `good` values, at which that density
 * most exceeds the density of `bad` ones. Values are in the order in which they were tried. The
 * result is a function of them, `seed`, `axis_number` and `draw` alone. */
double parzen_suggest(const struct parzen_axis *axis, const double *good, size_t good_count,
                      const double *bad, size_t bad_count, uint64_t seed, uint32_t axis_number,
                      uint32_t draw);
