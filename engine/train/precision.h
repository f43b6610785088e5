/* precision.h: chooses the type of a run's products (graph_lower_precision()), by its specification
 * and the types that the device offers. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/train/session.h"

struct precision {
    enum tensor_type type;
    char reason[192]; /* the reason, for a person: "set in the specification" */
    /* With "auto": the set (1 << enum tensor_type) of types that may be faster here;
     * precision_compare() decides by their measured times. 0: the type is decided. */
    unsigned candidates;
};

/* Seconds of a step of the model on the device, by type. */
struct precision_times {
    int64_t batch;                /* samples of the step */
    double seconds[TENSOR_INT32]; /* 0: not measured */
};

/* `wanted` is "auto" or the name of a floating-point type. `pure`: the weights are rounded to it,
 * too. "auto" chooses float32 for a model that
 * predicts values, since a smaller type would limit its error, and on a device without a faster
 * type for all of the model's products; otherwise it leaves candidates. tf32 becomes float32 on a
 * device that lacks it, because a run may move between kinds of devices. -EINVAL with a sentence
 * that lists what the device offers. */
int precision_choose(const char *wanted, bool pure, const struct graph *model,
                     const struct backend_device_info *device, struct precision *precision,
                     struct error *error);

/* The next type to measure; -1 if none is left that could be chosen. float32 comes first. */
int precision_next(const struct precision *precision, const struct precision_times *times,
                   double samples);

/* Decides by the times. Chooses a smaller type if it is clearly faster and makes the whole run
 * (`samples` samples over all epochs) noticeably shorter. */
void precision_compare(const struct backend_device_info *device,
                       const struct precision_times *times, double samples,
                       struct precision *precision);

/* Measures the seconds of a step (forward, backward, update) in the type, on `batch` samples of
 * zeros: the fastest of several runs. */
int precision_measure(const struct session_config *config, int64_t batch, enum tensor_type type,
                      double *seconds, struct error *error);
