/* spec_options.h: the options of `trainctl run` that set one key of the specification. `trainctl
 * edit` takes the same names for these keys. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct spec_option {
    const char *option, *section, *key; /* section NULL: a top-level key; option NULL: the end */
    bool integer;                       /* else the daemon reads the text */
    int64_t minimum;                    /* of an integer */
};

extern const struct spec_option spec_options[];
