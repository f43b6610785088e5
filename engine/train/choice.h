/* choice.h: chooses what a specification leaves open: the batch size, the number of batches per
 * update, and which activations are recomputed. It searches over plans under a memory limit and
 * runs nothing on the device. For a given batch size the choice changes no result. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

#include <stddef.h>
#include <stdint.h>

enum recompute_wish {
    RECOMPUTE_WISH_GIVEN, /* the configuration decides */
    /* only if the batch, or a larger batch where that is chosen, does not fit otherwise; then with
     * the least additional work */
    RECOMPUTE_WISH_AUTO,
    RECOMPUTE_WISH_FULL /* the setting that needs the least memory */
};

struct training_wishes {
    /* choose the largest batch that fits, of 1, 2, 4, the multiples of 8 and the whole training
     * set; evaluation uses the same batch */
    bool batch;
    /* samples per update: the batch divides it, and `accumulate` is the quotient. 0: the
     * configuration's `accumulate` holds */
    int64_t effective_batch;
    enum recompute_wish recompute;
    size_t memory_limit;   /* bytes; SIZE_MAX: none */
    size_t memory_reserve; /* bytes of the limit that stay free */
    /* Bytes that the process will hold once the run is allocated; called after
     * training_rehearse(). */
    size_t (*memory_bytes)(void *context, struct training *training);
    void *context;
};

struct training_choice {
    int64_t batch, accumulate;
    struct recompute_config recompute;
    size_t bytes;       /* memory of the chosen plan */
    int64_t next_batch; /* the next larger batch, which does not fit; 0: there is none */
    size_t next_bytes;  /* memory of its plan */
    size_t kept_bytes;  /* memory of the plan that keeps all activations */
    int plans;          /* number of plans that the search made */
};

/* Also writes the choice into `config`, for training_prepare(). -ERROR_DEVICE_MEMORY with a
 * sentence if nothing fits; the errors of training_prepare(). The search assumes that larger
 * batches need more memory, which holds except for a few kilobytes. The assumption only guides it:
 * the plans of `batch` and `next_batch` have both been made. */
int training_choose(struct training_config *config, const struct training_wishes *wishes,
                    const struct training_data *data, const struct backend *backend,
                    struct backend_device *device, session_build_function build,
                    void *build_context, struct training_choice *choice, struct error *error);
