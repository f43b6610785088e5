/* loss_scale.h: dynamic loss scaling, which keeps gradients within float16's range: the loss is
 * multiplied by a scale before it is differentiated, and the update divides the gradients by it. An
 * update whose gradients overflowed is skipped (Micikevicius et al. 2018, arXiv:1710.03740). The
 * rule that adapts the scale, and its constants, are those of torch.amp.GradScaler. The code is C
 * and CUDA C++, because either the host or the device applies the rule. */
#pragma once

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LOSS_SCALE_FUNCTION __host__ __device__ static inline
#else
#define LOSS_SCALE_FUNCTION static inline
#endif

/* The state of a run's loss scale, part of a checkpoint. */
struct loss_scale {
    double scale;       /* scale of the next update; 0: the run does not scale its loss */
    int64_t good_steps; /* updates in a row that were not skipped, since the scale last changed */
    int64_t skipped;    /* updates skipped since the run began */
};

enum { LOSS_SCALE_GROWTH_INTERVAL = 2000 };

/* Call after each update. Halves the scale if the update was skipped; doubles it after
 * LOSS_SCALE_GROWTH_INTERVAL updates in a row that were not. */
LOSS_SCALE_FUNCTION void loss_scale_follow(struct loss_scale *loss_scale, bool skipped)
{
    const double growth_factor = 2, backoff_factor = 0.5;

    if (skipped) {
        loss_scale->skipped++;
        loss_scale->scale *= backoff_factor;
        loss_scale->good_steps = 0;
    } else if (++loss_scale->good_steps == LOSS_SCALE_GROWTH_INTERVAL) {
        if (loss_scale->scale * growth_factor <= (double)FLT_MAX)
            loss_scale->scale *= growth_factor;
        loss_scale->good_steps = 0;
    }
}
