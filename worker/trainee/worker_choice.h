/* worker_choice.h: what the specification leaves open (batch size, accumulation, recomputation) is
 * decided before the run: by the checkpoint that it goes on from, by a plan that was made before
 * (--choices), or by a search over plans under the memory limit. */
#pragma once

#include "engine/train/checkpoint.h"
#include "engine/train/choice.h"
#include "worker/trainee/worker_setup.h"

enum { WORKER_REASONS_MAX = 3, WORKER_REASON_BYTES = 320 };

struct worker_choice {
    size_t memory_limit;    /* bytes */
    const char *limit_name; /* whose limit it is, for a person */
    bool limit_is_given;    /* by the specification */
    bool limit_is_booked;   /* by an option: what the daemon has booked of a device's memory */
    size_t memory_bytes;    /* what the run will hold of the device's memory; 0 with --choices, as
                               the plan knew it */
    size_t process_bytes;   /* and the process; 0 when the device has memory of its own */
    struct training_choice found;
    char reasons[WORKER_REASONS_MAX][WORKER_REASON_BYTES]; /* why it was chosen so */
    int reason_count;
};

/* Decides, writes the decisions into setup->spec.training and prepares the training, which the
 * caller releases with training_free(). `resumed` is the state of the checkpoint that the run goes
 * on from, or NULL. -ERROR_DEVICE_MEMORY with a sentence when nothing fits into a limit. */
int worker_choice_prepare(struct worker_setup *setup, const struct worker_options *options,
                          const struct checkpoint_state *resumed, struct worker_choice *choice,
                          struct training **training, struct error *error);

/* The batch size of an evaluation of a checkpoint. */
int64_t worker_choice_evaluation_batch(const struct worker_setup *setup,
                                       const struct checkpoint_state *checkpoint);

/* {"batch_size", "accumulate", "recompute", "direct_convolutions" unless empty} of a configuration;
 * what --choices takes. */
struct json_object *worker_choices_json(const struct worker_setup *setup);
