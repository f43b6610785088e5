/* measurement.h: measures what the training of a specification costs on a device, by real steps of
 * the training loop, in a child process. */
#pragma once

#include "worker/trainee/advice.h"
#include "worker/trainee/worker_setup.h"

enum { MEASUREMENT_REASON_BYTES = 512 };

/* What a child has measured, and what the specification says there. */
struct measurement {
    double step; /* seconds of training for a sample, with waiting for data; NAN: not measured */
    struct advice_rhythm rhythm;
    int64_t batch, accumulate; /* those chosen */
    int loader_threads, threads;
    char precision[16], recompute[16];
    char device[32], model[128]; /* its name, and what it is */
    unsigned fast_types;         /* 1 << enum tensor_type: what it may be faster in than float32 */
    bool owns_memory;            /* it is a GPU */
    bool data_on_device;         /* batches are made there, without loader threads */
    double parameters;
    char reason[MEASUREMENT_REASON_BYTES]; /* why not; "": it was measured */
};

/* Trains for about `seconds`, without evaluations and checkpoints. `specification`: as text; it
 * differs from the one of `setup`, whose data are open, as worker_setup_vary() allows. `chooses`:
 * convolutions that were never measured are measured first, as by a plan, which takes seconds. */
void measurement_take(const struct worker_options *options, struct worker_setup *setup,
                      const char *specification, double seconds, bool chooses,
                      struct measurement *measurement);

/* How the time of steps is divided, and what is done between them. */
struct measured_parts {
    struct advice_time time;   /* evaluation and checkpoints of it: 0 */
    struct advice_costs costs; /* `step`: 0 */
    double update_share;       /* of the steps: what updating the parameters takes */
    double ceiling_share;      /* the least time of arithmetic by the calibration, by that taken */
    bool calibrated;           /* else memory and arithmetic are not told apart, nor launch */
    char reason[MEASUREMENT_REASON_BYTES]; /* as above */
};

/* What is done while time is divided. */
struct division {
    int64_t steps, evaluate_every; /* of these steps */
    int64_t evaluated;             /* samples of an evaluation at most; it is scaled up */
    const char *checkpoints;       /* the folder that they are written to */
};

/* Trains with a profile, in which evaluations and a few checkpoints are made. */
void measurement_divide(const struct worker_options *options, struct worker_setup *setup,
                        const char *specification, const struct division *division,
                        struct measured_parts *parts);
