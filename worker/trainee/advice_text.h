/* advice_text.h: the sentences of advice: why something costs time, and what a remedy changes. */
#pragma once

#include "worker/trainee/measurement.h"

enum { ADVICE_TEXT_BYTES = 512 };

/* What the sentences speak of. */
struct advice_facts {
    const struct measurement *base;
    const struct measured_parts *parts;
    struct advice_cost cost; /* of the specification as it is */
    struct advice_rhythm rhythm;
    struct advice_time time; /* shares of all time */
    int cores;
    const char *optimizer;
    double learning_rate;
};

/* Why the option would be faster. Returns `text`. */
char *advice_cause(const struct advice_facts *facts, const struct advice_option *option,
                   const struct measurement *measured, char text[ADVICE_TEXT_BYTES]);
/* What it does to the result of the training. */
char *advice_result(const struct advice_facts *facts, const struct advice_option *option,
                    const struct measurement *measured, char text[ADVICE_TEXT_BYTES]);
/* What bounds the training where no change pays. */
char *advice_bound(const struct advice_facts *facts, char text[ADVICE_TEXT_BYTES]);
