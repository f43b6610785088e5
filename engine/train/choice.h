/* choice.h: what a specification may leave to the plan: the batch size, how many batches make an
 * update, what is recomputed. Found by a search over plans under a limit of memory: nothing is
 * tried out on the device, and nothing of it changes what a given batch size calculates. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

#include <stddef.h>
#include <stdint.h>

enum recompute_wish {
    RECOMPUTE_WISH_GIVEN, /* as the configuration has it */
    RECOMPUTE_WISH_AUTO,  /* only where the batch, or the largest one, does not fit otherwise; then
                           * the least work */
    RECOMPUTE_WISH_FULL   /* whatever needs the least memory */
};

struct training_wishes {
    bool batch; /* the largest that fits, of 1, 2, 4, the multiples of 8 and the whole training set;
                   the evaluation's batch is the same */
    int64_t effective_batch; /* samples of an update: the batch is one of its divisors, and
                                `accumulate` follows. 0: the configuration's `accumulate` holds */
    enum recompute_wish recompute;
    size_t memory_limit;   /* bytes; SIZE_MAX: none */
    size_t memory_reserve; /* of them, that stay free */
    /* What the process will hold once the run is allocated; called after training_rehearse(). */
    size_t (*memory_bytes)(void *context, struct training *training);
    void *context;
};

struct training_choice {
    int64_t batch, accumulate;
    struct recompute_config recompute;
    size_t bytes;       /* of the plan that was chosen */
    int64_t next_batch; /* the next larger batch, which does not fit; 0: there is none */
    size_t next_bytes;  /* that its plan takes */
    size_t kept_bytes;  /* of the plan that keeps all activations; `bytes` when that was chosen */
    int plans;          /* that were made */
};

/* Writes what it chose into `config` as well, for training_prepare(). -ERROR_DEVICE_MEMORY with a
 * sentence when nothing fits; the errors of training_prepare(). That more samples never need less
 * memory is true of plans but for a few kilobytes; the search relies on it only to find its place:
 * the plans of `batch` and `next_batch` have both been made. */
int training_choose(struct training_config *config, const struct training_wishes *wishes,
                    const struct training_data *data, const struct backend *backend,
                    struct backend_device *device, session_build_function build,
                    void *build_context, struct training_choice *choice, struct error *error);
