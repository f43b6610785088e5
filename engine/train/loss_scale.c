/* loss_scale.c: see loss_scale.h. */
#include "engine/train/loss_scale.h"

#include <errno.h>
#include <float.h>

/* torch.amp.GradScaler's init_scale, growth_factor, backoff_factor */
static const double initial_scale = 65536, growth_factor = 2, backoff_factor = 0.5;

void loss_scale_begin(struct loss_scale *loss_scale, bool wanted)
{
    if (wanted == (loss_scale->scale > 0))
        return;
    loss_scale->scale = wanted ? initial_scale : 0;
    loss_scale->good_steps = 0;
}

int loss_scale_check(const struct loss_scale *loss_scale, struct error *error)
{
    if (!(loss_scale->scale > 0) || loss_scale->scale >= FLT_MIN)
        return 0;
    return error_set(error, -EDOM,
                     "the gradients stay infinite in float16 whatever the loss is scaled "
                     "by: set train.precision to bfloat16 or float32, or lower "
                     "train.optimizer.lr");
}

int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error)
{
    if (!(loss_scale->scale > 0))
        return 0;
    if (skipped) {
        loss_scale->skipped++;
        loss_scale->scale *= backoff_factor;
        loss_scale->good_steps = 0;
        return loss_scale_check(loss_scale, error);
    }
    if (++loss_scale->good_steps == LOSS_SCALE_GROWTH_INTERVAL) {
        if (loss_scale->scale * growth_factor <= (double)FLT_MAX)
            loss_scale->scale *= growth_factor;
        loss_scale->good_steps = 0;
    }
    return 0;
}
