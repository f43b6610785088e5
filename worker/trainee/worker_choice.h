/* worker_choice.h: decides before the run what the specification leaves open: batch size,
 * accumulation and recomputation. The checkpoint that the run continues from decides, or an earlier
 * plan (--choices), or a search over plans under the memory limit. */
#pragma once

#include "engine/train/checkpoint.h"
#include "engine/train/choice.h"
#include "worker/trainee/worker_setup.h"

enum { WORKER_REASONS_MAX = 3, WORKER_REASON_BYTES = 320 };

struct worker_choice {
    size_t memory_limit;    /* bytes */
    const char *limit_name; /* where the limit comes from, for a person */
    bool limit_is_given;    /* by the specification */
    bool limit_is_booked;   /* by an option: the device memory that the daemon booked */
    /* device memory that the run will hold; 0 with --choices, because the plan knew it */
    size_t memory_bytes;
    /* memory that the process will hold; 0 if the device has its own memory */
    size_t process_bytes;
    struct training_choice found;
    char reasons[WORKER_REASONS_MAX][WORKER_REASON_BYTES]; /* sentences that explain the choice */
    int reason_count;
};

/* Decides, writes the decisions into setup->spec.training and prepares the training, which the
 * caller releases with training_free(). `resumed`: the state of the checkpoint that the run
 * continues from, or NULL. -ERROR_DEVICE_MEMORY with a sentence if no choice fits into a limit. */
int worker_choice_prepare(struct worker_setup *setup, const struct worker_options *options,
                          const struct checkpoint_state *resumed, struct worker_choice *choice,
                          struct training **training, struct error *error);

/* The batch size of an evaluation of a checkpoint. */
int64_t worker_choice_evaluation_batch(const struct worker_setup *setup,
                                       const struct checkpoint_state *checkpoint);

/* Makes {"batch_size", "accumulate", "recompute", "direct_convolutions" unless empty}, which
 * --choices accepts. */
struct json_object *worker_choices_json(const struct worker_setup *setup);
