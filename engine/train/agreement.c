/* agreement.c: see agreement.h. */
#include "engine/train/agreement.h"

#include "base/cleanup.h"
#include "engine/train/training_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bounds are at least ten times the differences that tests/helpers/agreement_spread measured
 * between correct ways of computing. It compared an MLP, a CNN, ResNet-18 and MobileNetV3-small
 * with their first weights and after 20 steps. Relative differences of loss and gradient norm:
 * float32 by Winograd's algorithm and directly 2.7e-7 and 7.8e-5; bfloat16 against float32 1.7e-3
 * and 1.4e-2; float16 against float32 3.6e-4 and 6.9e-3. TF32 has as many bits as float16. A device
 * that leaves out a layer's bias, or draws other masks, differs by percents. */
struct agreement_bounds agreement_bounds_of(enum tensor_type compute_type)
{
    switch (compute_type) {
    case TENSOR_FLOAT16:
    case TENSOR_TF32:
        return (struct agreement_bounds){5e-3, 0.07};
    case TENSOR_BFLOAT16:
        return (struct agreement_bounds){2e-2, 0.15};
    default:
        return (struct agreement_bounds){1e-5, 2e-3};
    }
}

/* ---- what a forward and a backward pass change ---- */

/* Copies in host memory of the tensors that the passes change. */
struct kept_tensors {
    uint8_t *values; /* owned */
    bool gradients;  /* within an accumulation the gradients are kept, too */
};

static bool is_changed(const struct kept_tensors *kept, const struct session_tensor *tensor)
{
    return tensor->role == TENSOR_STATISTIC || tensor->role == TENSOR_STATE ||
           (tensor->role == TENSOR_GRADIENT && kept->gradients);
}

static int keep(struct kept_tensors *kept, struct session *session, struct error *error)
{
    struct session_tensor tensor;
    size_t bytes = 0;
    int r = 0;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
        bytes += is_changed(kept, &tensor) ? tensor.bytes : 0;
    kept->values = malloc(bytes + 1);
    if (!kept->values)
        return error_set_errno(error, -ENOMEM, "cannot keep the run's state");
    bytes = 0;
    for (int i = 0; r == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        if (!is_changed(kept, &tensor))
            continue;
        r = session_read(session, i, kept->values + bytes, error);
        bytes += tensor.bytes;
    }
    return r;
}

static int put_back(const struct kept_tensors *kept, struct session *session, struct error *error)
{
    struct session_tensor tensor;
    size_t at = 0;
    int r = 0;

    for (int i = 0; r == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        if (!is_changed(kept, &tensor))
            continue;
        r = session_write(session, i, kept->values + at, error);
        at += tensor.bytes;
    }
    return r;
}

/* ---- measuring ---- */

static int compute(struct training *training, struct checkpoint_agreement *agreement,
                   struct error *error)
{
    const struct checkpoint_state *state = &training->state;
    double scale = state->loss_scale.scale > 0 ? state->loss_scale.scale : 1;
    struct backend_step step = {.scalars = {.step = state->step + 1,
                                            .batch = state->batches + 1,
                                            .seed = training->config.seed,
                                            .gradient_scale = 1,
                                            .momentum_product = 1,
                                            .loss_scale = (float)state->loss_scale.scale},
                                .phases = PROGRAM_FORWARD | PROGRAM_BACKWARD};
    struct step_metrics metrics;
    int r;

    session_reset_metrics(training->session, true);
    r = feed_run(training->train, true, &step, 1, error);
    if (r == 0)
        r = session_gradient_norm(training->session, &agreement->gradient_norm, error);
    if (r < 0)
        return r;
    session_read_metrics(training->session, true, &metrics);
    agreement->loss = metrics.last_loss;
    agreement->gradient_norm /= scale;
    return 0;
}

/* Measures loss and gradient norm over the batch that begins at agreement's epoch and position. */
static int measure_at(struct training *training, struct checkpoint_agreement *agreement,
                      struct error *error)
{
    struct kept_tensors kept = {.gradients = training->state.micro_step > 0};
    struct step_metrics sums;
    struct session_losses losses;
    int64_t samples;
    int r =
        feed_begin_epoch(training->train, (uint32_t)agreement->epoch, agreement->position, error);

    if (r == 0)
        r = feed_fetch(training->train, &samples, error);
    if (r == 0 && samples == 0)
        r = error_set(error, -EINVAL, "there is no batch to compare devices with");
    if (r < 0)
        return r;
    session_read_metrics(training->session, true, &sums);
    session_read_losses(training->session, &losses);
    r = keep(&kept, training->session, error);
    if (r == 0) {
        struct error ignored;
        int computed =
            agreement->position ? 0 : session_clear_states(training->session, true, error);

        if (computed == 0)
            computed = compute(training, agreement, error);

        r = put_back(&kept, training->session, computed < 0 ? &ignored : error);
        r = computed < 0 ? computed : r;
    }
    session_restore_metrics(training->session, &sums, &losses);
    feed_end_epoch(training->train);
    free(kept.values);
    return r;
}

static void name_device(const struct training *training, struct checkpoint_agreement *agreement)
{
    struct backend_device_info info;

    session_describe_device(training->session, &info);
    snprintf(agreement->device, sizeof agreement->device, "%s", info.name);
    snprintf(agreement->model, sizeof agreement->model, "%.*s", (int)sizeof agreement->model - 1,
             info.model);
    snprintf(agreement->precision, sizeof agreement->precision, "%s",
             tensor_type_to_string(training->config.compute_type));
}

int agreement_measure(struct training *training, struct checkpoint_agreement *agreement,
                      struct error *error)
{
    const struct checkpoint_state *state = &training->state;
    bool ended = state->position == training->epoch_samples;
    struct checkpoint_agreement measured = {.epoch = state->epoch + ended,
                                            .position = ended ? 0 : state->position};
    int r = measure_at(training, &measured, error);

    if (r == 0) {
        name_device(training, &measured);
        *agreement = measured;
    }
    return r;
}

int agreement_measure_first(struct training *training, struct checkpoint_agreement *agreement,
                            struct error *error)
{
    *agreement = (struct checkpoint_agreement){.epoch = 0, .position = 0};
    name_device(training, agreement);
    return measure_at(training, agreement, error);
}

/* ---- comparing ---- */

/* Bounds are relative to the values, but at least to these sizes: near a loss of 0, rounding
 * differences do not become smaller. */
static const double loss_floor = 1, norm_floor = 1e-2;

static bool is_near(double a, double b, double bound, double floor)
{
    double size = fmax(fmax(fabs(a), fabs(b)), floor);

    /* a run that diverges on one device diverges on every one */
    return !isfinite(a) || !isfinite(b) ? isfinite(a) == isfinite(b) : fabs(a - b) <= bound * size;
}

/* The bounds of the coarser of the two precisions. */
static struct agreement_bounds bounds_of(const struct checkpoint_agreement *a,
                                         const struct checkpoint_agreement *b)
{
    int types[] = {tensor_type_from_string(a->precision), tensor_type_from_string(b->precision)};
    struct agreement_bounds bounds = {0, 0};

    for (int i = 0; i < 2; i++) {
        struct agreement_bounds own =
            agreement_bounds_of(types[i] < 0 ? TENSOR_FLOAT32 : (enum tensor_type)types[i]);

        bounds.loss = fmax(bounds.loss, own.loss);
        bounds.gradient_norm = fmax(bounds.gradient_norm, own.gradient_norm);
    }
    return bounds;
}

static int compare(const struct checkpoint_agreement *left, const struct checkpoint_agreement *here,
                   struct error *error)
{
    struct agreement_bounds bounds = bounds_of(left, here);
    bool loss = is_near(left->loss, here->loss, bounds.loss, loss_floor);

    if (loss && is_near(left->gradient_norm, here->gradient_norm, bounds.gradient_norm, norm_floor))
        return 0;
    return error_set(
        error, -ERROR_DISAGREEMENT,
        "%s does not agree with %s, where the run was: for the batch at sample %lld of "
        "epoch %lld the %s is %.9g here and was %.9g there, and may differ by %g of it",
        here->device, left->device, (long long)left->position, (long long)left->epoch,
        loss ? "gradient's norm" : "loss", loss ? here->gradient_norm : here->loss,
        loss ? left->gradient_norm : left->loss, loss ? bounds.gradient_norm : bounds.loss);
}

int agreement_check(struct training *training, const struct checkpoint *checkpoint, bool *compared,
                    struct error *error)
{
    const struct checkpoint_agreement *left = &checkpoint->state.agreement;
    struct checkpoint_agreement here = {.epoch = left->epoch, .position = left->position};
    int r;

    name_device(training, &here);
    *compared = left->device[0] &&
                (strcmp(left->device, here.device) != 0 || strcmp(left->model, here.model) != 0);
    if (!*compared)
        return 0;
    r = measure_at(training, &here, error);
    return r < 0 ? r : compare(left, &here, error);
}
