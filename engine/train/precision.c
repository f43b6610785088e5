/* precision.c: see precision.h. */
#include "engine/train/precision.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Smaller types, the faster ones first, and of these the one that needs no loss scale. */
static const enum tensor_type low_types[] = {TENSOR_BFLOAT16, TENSOR_FLOAT16, TENSOR_TF32};
enum { LOW_TYPES = sizeof low_types / sizeof low_types[0] };

/* The types in which all kinds of products that the model has are faster than in float32. */
static unsigned fast_types(const struct graph *model, const struct backend_device_info *device)
{
    unsigned types = device->compute_types;
    bool products = false;
    bool convolutions = !device->convolutions_are_fast || device->convolutions_are_fast(model);
    unsigned convolution_types = convolutions ? device->fast_convolution_types : 0;

    for (int32_t i = 0; i < model->node_count; i++) {
        enum graph_op op = model->nodes[i].op;

        types &= op == OP_LINEAR   ? device->fast_linear_types
                 : op == OP_CONV2D ? convolution_types
                                   : types;
        products |= op == OP_LINEAR || op == OP_CONV2D;
    }
    return products ? types : 0;
}

static void choose_fast(const struct graph *model, const struct backend_device_info *device,
                        struct precision *precision)
{
    unsigned fast = fast_types(model, device);

    for (int i = 0; i < LOW_TYPES; i++)
        if (fast & 1u << low_types[i]) {
            precision->type = low_types[i];
            snprintf(precision->reason, sizeof precision->reason,
                     "auto: %s (%.80s) is faster in it with this model", device->name,
                     device->features);
            return;
        }
    precision->type = TENSOR_FLOAT32;
    snprintf(precision->reason, sizeof precision->reason,
             "auto: %s (%.80s) is not faster in a smaller type with this model", device->name,
             device->features);
}

static int refuse(const char *wanted, const struct backend_device_info *device, struct error *error)
{
    char valid[64] = "auto, float32";

    for (int i = 0; i < LOW_TYPES; i++)
        if (device->compute_types & 1u << low_types[i]) {
            size_t length = strlen(valid);

            snprintf(valid + length, sizeof valid - length, ", %s",
                     tensor_type_to_string(low_types[i]));
        }
    return error_set(error, -EINVAL,
                     "train.precision is \"%s\", which %s (%s; %s) does not have; valid here: %s",
                     wanted, device->name, device->model, device->features, valid);
}

int precision_choose(const char *wanted, const struct graph *model,
                     const struct backend_device_info *device, struct precision *precision,
                     struct error *error)
{
    int type = tensor_type_from_string(wanted);

    if (strcmp(wanted, "auto") == 0) {
        choose_fast(model, device, precision);
        return 0;
    }
    if (type == TENSOR_TF32 && !(device->compute_types & 1u << TENSOR_TF32)) {
        precision->type = TENSOR_FLOAT32;
        snprintf(precision->reason, sizeof precision->reason,
                 "%s (%.80s) does not have tf32, of which float32 is the exact form", device->name,
                 device->features);
        return 0;
    }
    if ((type != TENSOR_FLOAT32 && type != TENSOR_BFLOAT16 && type != TENSOR_FLOAT16 &&
         type != TENSOR_TF32) ||
        !(device->compute_types & 1u << type))
        return refuse(wanted, device, error);
    precision->type = (enum tensor_type)type;
    snprintf(precision->reason, sizeof precision->reason, "set in the specification");
    return 0;
}
