/* advice_variants.h: which changes of a specification are worth measuring. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/measurement.h"

enum { ADVICE_VARIANTS_MAX = 48 };

/* A change: keys with dots and their values, such as {"train.batch_size": 128}. */
struct advice_variant {
    enum advice_kind kind;
    struct json_object *changes; /* owned */
};

/* Where the specification is measured. */
struct advice_place {
    int cores;              /* that this process may use */
    bool threads_are_given; /* on the command line, so that device.threads says nothing */
    int64_t samples;        /* of the training part */
};

/* Appends to `variants`, which has room for ADVICE_VARIANTS_MAX, the changes to measure, of each
 * kind in ascending order; not those of the batch alone. `normalised`: the specification. Returns
 * how many there are. */
int advice_variants_list(struct json_object *normalised, const struct measurement *base,
                         const struct advice_place *place,
                         struct advice_variant variants[ADVICE_VARIANTS_MAX]);
/* A batch `factor` times as large; false: the specification leaves none open, or an epoch would
 * have fewer than ADVICE_STEPS_MIN updates. */
enum { ADVICE_STEPS_MIN = 8 };
bool advice_variant_of_batch(struct json_object *normalised, const struct measurement *base,
                             const struct advice_place *place, int64_t factor,
                             struct advice_variant *variant);
void advice_variant_release(struct advice_variant *variant);

/* {"train.evaluate_every": "5 epochs"} and the like, as the rhythm says. */
struct json_object *advice_evaluate_changes(const struct advice_rhythm *rhythm);
struct json_object *advice_checkpoint_changes(const struct advice_rhythm *rhythm);

/* The text of the specification with the changes; the caller frees it. NULL with a sentence. */
char *advice_variant_text(struct json_object *specification, struct json_object *changes,
                          struct error *error);
