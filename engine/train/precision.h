/* precision.h: the type that a run's products are calculated in (graph_lower_precision()), out of
 * what its specification wants and what the device offers. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/train/session.h"

struct precision {
    enum tensor_type type;
    char reason[192]; /* why this one, for a person: "set in the specification" */
    /* auto: bits of the types that may be faster here, which precision_compare() decides about by
     * their measured times; 0: it is decided. */
    unsigned candidates;
};

/* How long a step of the model takes on the device in each type. */
struct precision_times {
    int64_t batch;                /* samples of the step */
    double seconds[TENSOR_INT32]; /* 0: not measured */
};

/* `wanted`: "auto", or the name of a floating-point type. auto stays with float32 for a model that
 * predicts values, whose error smaller types would set, and where the device has no faster type for
 * all of the model's products; else it leaves candidates. tf32 becomes float32 on a device that
 * does not have it: a run may go from one kind of device to the other. -EINVAL with a sentence that
 * lists what the device offers. */
int precision_choose(const char *wanted, const struct graph *model,
                     const struct backend_device_info *device, struct precision *precision,
                     struct error *error);

/* The candidate to measure next; -1 when none is left that could be chosen. float32 comes first. */
int precision_next(const struct precision *precision, const struct precision_times *times,
                   double samples);

/* Decides by the times: a smaller type where it is clearly faster and the whole run of `samples`
 * samples, over all epochs, gets noticeably shorter. */
void precision_compare(const struct backend_device_info *device,
                       const struct precision_times *times, double samples,
                       struct precision *precision);

/* The seconds of a step (forward, backward, update) in the type, for `batch` samples of zeros: the
 * least of some runs. */
int precision_measure(const struct session_config *config, int64_t batch, enum tensor_type type,
                      double *seconds, struct error *error);
