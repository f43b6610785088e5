/* loss_scale.c: see loss_scale.h. */
#include "engine/train/loss_scale.h"

static const double initial_scale = 65536; /* torch.amp.GradScaler's init_scale */

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
    return error_set(error, -ERROR_NONFINITE_LOSS,
                     "the gradients stay infinite in float16 whatever the loss is scaled "
                     "by: set train.precision to bfloat16 or float32, or lower "
                     "train.optimizer.lr");
}

int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error)
{
    if (!(loss_scale->scale > 0))
        return 0;
    loss_scale_follow(loss_scale, skipped);
    return loss_scale_check(loss_scale, error);
}
