/* verification.h: trains small models on a device for a few steps, to see whether it calculates as
 * the CPU does in float32, and how fast. The models are small ones of the built-in kinds. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

#include <stddef.h>

enum { VERIFICATION_STEPS = 5 };

struct verification_run {
    double losses[VERIFICATION_STEPS]; /* of each step, of the same batch */
    double step_seconds;               /* of the fastest step but the first */
    double flops;                      /* of a step */
};

size_t verification_count(void);
/* "resnet18" */
const char *verification_name(size_t index);

/* Trains model number `index` with products of `type`, from the same weights on the same batch each
 * time. -ERROR_UNSUPPORTED with a sentence: the device cannot do an operator or the type; other
 * negative codes as session_step() has them. */
int verification_run(size_t index, const struct backend *backend, struct backend_device *device,
                     enum tensor_type type, struct verification_run *run, struct error *error);

/* The largest difference of a loss from that of the reference, as a part of it; NAN if a loss is
 * none. */
double verification_deviation(const struct verification_run *run,
                              const struct verification_run *reference);
/* The largest deviation from the CPU's float32 that rounding explains. */
double verification_limit(enum tensor_type type);
