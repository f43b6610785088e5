/* precision.h: the type that a run's products are calculated in (graph_lower_precision()), out of
 * what its specification wants and what the device offers. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

struct precision {
    enum tensor_type type;
    char reason[192]; /* why this one, for a person: "set in the specification" */
};

/* `wanted`: "auto", or the name of a floating-point type. auto takes bfloat16 where the device
 * calculates the model's products faster in it than in float32, else float16, else tf32 where it
 * does so, else float32. tf32 becomes float32 on a device that does not have it: a run may go from
 * one kind of device to the other. -EINVAL with a sentence that lists what the device offers. */
int precision_choose(const char *wanted, const struct graph *model,
                     const struct backend_device_info *device, struct precision *precision,
                     struct error *error);
