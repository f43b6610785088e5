/* advice_variants.c: see advice_variants.h. */
#include "worker/trainee/advice_variants.h"

#include "base/memory.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    struct advice_variant *variants;
    int count;
};

/* Appends a change; takes `changes`. */
static void add(struct list *list, enum advice_kind kind, struct json_object *changes)
{
    if (list->count == ADVICE_VARIANTS_MAX)
        json_object_put(changes);
    else
        list->variants[list->count++] = (struct advice_variant){kind, changes};
}

static struct json_object *change_new(const char *key, struct json_object *value)
{
    struct json_object *changes = json_object_new_object();

    json_set(changes, key, value);
    return changes;
}

static struct json_object *integer(int64_t value)
{
    return json_object_new_int64(value);
}

/* ---- batches ---- */

bool advice_variant_of_batch(struct json_object *normalised, const struct measurement *base,
                             const struct advice_place *place, int64_t factor,
                             struct advice_variant *variant)
{
    struct json_object *train = json_get(normalised, "train");
    int64_t batch = json_get_int(train, "batch_size", 0);

    /* with a carried state the batch is the number of streams that a text is read in */
    if (batch < 1 || base->accumulate > 1 || json_get(train, "effective_batch_size") ||
        json_get_bool(json_get(normalised, "model"), "carry_state", false) ||
        batch * factor * ADVICE_STEPS_MIN > place->samples)
        return false;
    *variant = (struct advice_variant){ADVICE_BATCH,
                                       change_new("train.batch_size", integer(batch * factor))};
    return true;
}

/* The same updates of fewer and larger batches. */
static void add_merged_batches(struct json_object *normalised, const struct measurement *base,
                               const struct advice_place *place, struct list *list)
{
    struct json_object *train = json_get(normalised, "train");
    bool effective = json_get(train, "effective_batch_size") != NULL;

    if (json_get_int(train, "batch_size", 0) < 1)
        return;
    for (int64_t factor = 2; factor <= base->accumulate; factor++) {
        struct json_object *changes;
        bool power = (factor & (factor - 1)) == 0;

        if (base->accumulate % factor || (!power && factor != base->accumulate) ||
            base->batch * factor > place->samples)
            continue;
        changes = change_new("train.batch_size", integer(base->batch * factor));
        if (!effective)
            json_set_int(changes, "train.accumulate", base->accumulate / factor);
        add(list, ADVICE_ACCUMULATE, changes);
    }
}

/* ---- what the device does ---- */

static void add_precisions(struct json_object *normalised, const struct measurement *base,
                           struct list *list)
{
    static const enum tensor_type types[] = {TENSOR_TF32, TENSOR_BFLOAT16, TENSOR_FLOAT16};
    struct json_object *train = json_get(normalised, "train");
    const char *wanted = json_get_string(train, "precision", "auto");

    if (strncmp(wanted, "pure_", 5) == 0 || json_get_bool(train, "quantization_aware", false))
        return;
    if (strcmp(base->precision, "float32") != 0)
        add(list, ADVICE_PRECISION,
            change_new("train.precision", json_object_new_string("float32")));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = tensor_type_to_string(types[i]);

        if (base->fast_types >> types[i] & 1 && strcmp(base->precision, name) != 0)
            add(list, ADVICE_PRECISION,
                change_new("train.precision", json_object_new_string(name)));
    }
}

static void add_threads(const struct measurement *base, const struct advice_place *place,
                        struct list *list)
{
    if (base->owns_memory || place->threads_are_given)
        return;
    if (base->threads < place->cores)
        add(list, ADVICE_THREADS, change_new("device.threads", integer(0)));
    for (int threads = base->threads / 2; threads >= 1; threads /= 2)
        add(list, ADVICE_THREADS, change_new("device.threads", integer(threads)));
}

static void add_loader_threads(const struct measurement *base, const struct advice_place *place,
                               struct list *list)
{
    if (base->data_on_device)
        return;
    for (int threads = 0; threads <= place->cores && threads <= LOADER_THREADS_MAX;
         threads = threads ? 2 * threads : 1)
        if (threads != base->loader_threads)
            add(list, ADVICE_LOADER_THREADS, change_new("data.loader_threads", integer(threads)));
}

/* ---- data ---- */

static void add_length_buckets(struct json_object *normalised, struct list *list)
{
    struct json_object *data = json_get(normalised, "data"), *train = json_get(data, "train");
    const char *format = json_get_string(train, "format", "");
    bool lengths = strcmp(format, "csv_sequences") == 0 || strcmp(format, "fasta") == 0 ||
                   json_get(train, "lengths");

    if (!lengths || json_get_int(data, "length_buckets", 1) > 1)
        return;
    for (int count = 4; count <= 8; count *= 2)
        add(list, ADVICE_LENGTH_BUCKETS, change_new("data.length_buckets", integer(count)));
}

/* Without one of the changes to samples each. */
static void add_augmentations(struct json_object *normalised, struct list *list)
{
    struct json_object *augment = json_get(json_get(normalised, "data"), "augment");
    size_t count = augment ? json_object_array_length(augment) : 0;

    for (size_t left = 0; left < count; left++) {
        struct json_object *rest = json_object_new_array();

        for (size_t i = 0; i < count; i++)
            if (i != left)
                json_object_array_add(rest, json_object_get(json_object_array_get_idx(augment, i)));
        add(list, ADVICE_AUGMENT, change_new("data.augment", rest));
    }
}

/* ---- widths ---- */

/* What vector units and units for products of matrices work in: AVX-512 has 16 lanes of 32 bits;
 * NVIDIA's tensor cores are fully used with multiples of 64 (NVIDIA, "Matrix Multiplication
 * Background User's Guide", tile quantisation, and 128 bytes of 16-bit numbers). */
static int64_t width_unit(const struct measurement *base)
{
    return base->owns_memory ? 64 : 16;
}

static int64_t widen(int64_t width, int64_t unit)
{
    return width > unit ? (width + unit - 1) / unit * unit : width;
}

static struct json_object *widen_list(struct json_object *widths, int64_t unit, bool *wider)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(widths); i++) {
        int64_t width = json_object_get_int64(json_object_array_get_idx(widths, i));

        *wider |= widen(width, unit) != width;
        json_object_array_add(list, integer(widen(width, unit)));
    }
    return list;
}

static void add_widths(struct json_object *normalised, const struct measurement *base,
                       struct list *list)
{
    static const char *const keys[] = {"hidden", "channels", "filters", "embedding", "hidden_size"};
    struct json_object *model = json_get(normalised, "model");
    struct json_object *changes = json_object_new_object();
    int64_t unit = width_unit(base);
    bool any = false;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct json_object *value = json_get(model, keys[i]), *wide;
        char key[64];
        bool wider = false;

        if (json_object_is_type(value, json_type_array)) {
            wide = widen_list(value, unit, &wider);
        } else {
            int64_t width = json_get_int(model, keys[i], 0);

            wider = widen(width, unit) != width;
            wide = integer(widen(width, unit));
        }
        snprintf(key, sizeof key, "model.%s", keys[i]);
        if (wider)
            json_set(changes, key, wide);
        else
            json_object_put(wide);
        any |= wider;
    }
    if (any)
        add(list, ADVICE_WIDTH, changes);
    else
        json_object_put(changes);
}

/* ---- all ---- */

int advice_variants_list(struct json_object *normalised, const struct measurement *base,
                         const struct advice_place *place,
                         struct advice_variant variants[ADVICE_VARIANTS_MAX])
{
    struct list list = {variants, 0};
    struct json_object *train = json_get(normalised, "train");

    add_merged_batches(normalised, base, place, &list);
    add_precisions(normalised, base, &list);
    if (strcmp(base->recompute, "none") != 0)
        add(&list, ADVICE_RECOMPUTE, change_new("train.recompute", json_object_new_string("none")));
    if (base->owns_memory && json_get_bool(train, "deterministic", true))
        add(&list, ADVICE_DETERMINISTIC,
            change_new("train.deterministic", json_object_new_boolean(false)));
    add_threads(base, place, &list);
    add_loader_threads(base, place, &list);
    add_length_buckets(normalised, &list);
    add_augmentations(normalised, &list);
    add_widths(normalised, base, &list);
    return list.count;
}

void advice_variant_release(struct advice_variant *variant)
{
    json_object_put(variant->changes);
    variant->changes = NULL;
}

/* ---- as texts ---- */

static struct json_object *interval_change(const char *key, int64_t steps, int64_t epochs)
{
    int64_t number = steps ? steps : epochs;
    char text[64];

    snprintf(text, sizeof text, "%" PRId64 " %s%s", number, steps ? "step" : "epoch",
             number == 1 ? "" : "s");
    return change_new(key, json_object_new_string(text));
}

struct json_object *advice_evaluate_changes(const struct advice_rhythm *rhythm)
{
    return interval_change("train.evaluate_every", rhythm->evaluate_steps, rhythm->evaluate_epochs);
}

struct json_object *advice_checkpoint_changes(const struct advice_rhythm *rhythm)
{
    return interval_change("checkpoint.every", rhythm->checkpoint_steps, rhythm->checkpoint_epochs);
}

char *advice_variant_text(struct json_object *specification, struct json_object *changes,
                          struct error *error)
{
    JSON_AUTO struct json_object *copy = NULL;
    size_t length;
    const char *text = json_text(specification, &length);

    if (json_parse(text, length, &copy, error) < 0)
        return NULL;
    json_object_object_foreach (changes, key, value) {
        AUTO_FREE char *assignment = memory_format("%s=%s", key, json_text(value, NULL));

        if (job_spec_set(copy, assignment, error) < 0)
            return NULL;
    }
    return memory_copy_text(json_text(copy, NULL));
}
