/* checkpoint_metadata.c: see checkpoint_metadata.h. One table describes the fields for writing and
 * for reading. */
#include "engine/train/checkpoint_metadata.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char format_key[] = "traind.checkpoint", format_value[] = "1";

enum field_type {
    FIELD_INTEGER,
    FIELD_UNSIGNED,
    FIELD_DOUBLE,
    FIELD_NAME,
    FIELD_CONVOLUTIONS,
    FIELD_LOSSES
};

#define FIELD(key, type, member) LATER_FIELD(key, type, member, NULL)
/* A field that early files of this format lack. `absent` is the value that it had then. */
#define LATER_FIELD(key, type, member, absent)                                 \
    {                                                                          \
        "traind." key, type, offsetof(struct checkpoint_state, member), absent \
    }
#define TRACKER_FIELDS(key, member)                                                             \
    FIELD(key ".metric", FIELD_NAME, member.metric),                                            \
        FIELD(key ".value", FIELD_DOUBLE, member.best),                                         \
        FIELD(key ".step", FIELD_INTEGER, member.best_step),                                    \
        FIELD(key ".epoch", FIELD_DOUBLE, member.best_epoch),                                   \
        FIELD(key ".epochs_without_improvement", FIELD_INTEGER, /* what this key meant first */ \
              member.measurements_without_improvement)

static const struct checkpoint_field {
    const char *key;
    enum field_type type;
    size_t offset;
    const char *absent; /* NULL: every file has the field */
} fields[] = {FIELD("step", FIELD_INTEGER, step),
              FIELD("micro_step", FIELD_INTEGER, micro_step),
              FIELD("epoch", FIELD_INTEGER, epoch),
              FIELD("position", FIELD_INTEGER, position),
              FIELD("batches", FIELD_INTEGER, batches),
              FIELD("seed", FIELD_UNSIGNED, seed),
              FIELD("seconds", FIELD_DOUBLE, seconds),
              FIELD("epoch_seconds", FIELD_DOUBLE, epoch_seconds),
              FIELD("epoch_loss_sum", FIELD_DOUBLE, sums.loss_sum),
              FIELD("epoch_samples", FIELD_INTEGER, sums.samples),
              FIELD("epoch_correct", FIELD_INTEGER, sums.correct),
              FIELD("last_loss", FIELD_DOUBLE, sums.last_loss),
              TRACKER_FIELDS("best", best),
              TRACKER_FIELDS("early_stop", early),
              LATER_FIELD("epoch_labels", FIELD_INTEGER, sums.labels, "0"),
              LATER_FIELD("momentum_product", FIELD_DOUBLE, momentum_product, "1"),
              LATER_FIELD("measured_step", FIELD_INTEGER, measured_step, "0"),
              LATER_FIELD("plateau.metric", FIELD_NAME, plateau.metric, ""),
              LATER_FIELD("plateau.learning_rate", FIELD_DOUBLE, plateau.learning_rate, "0"),
              LATER_FIELD("plateau.value", FIELD_DOUBLE, plateau.best, "nan"),
              LATER_FIELD("plateau.bad", FIELD_INTEGER, plateau.bad, "0"),
              LATER_FIELD("plateau.cooldown", FIELD_INTEGER, plateau.cooldown, "0"),
              LATER_FIELD("loss_scale", FIELD_DOUBLE, loss_scale.scale, "0"),
              LATER_FIELD("loss_scale.good_steps", FIELD_INTEGER, loss_scale.good_steps, "0"),
              LATER_FIELD("loss_scale.skipped", FIELD_INTEGER, loss_scale.skipped, "0"),
              LATER_FIELD("batch_size", FIELD_INTEGER, batch, "0"),
              LATER_FIELD("accumulate", FIELD_INTEGER, accumulate, "0"),
              LATER_FIELD("direct_convolutions", FIELD_CONVOLUTIONS, direct_convolutions, ""),
              LATER_FIELD("precision", FIELD_NAME, precision, ""),
              LATER_FIELD("precision.model", FIELD_NAME, precision_model, ""),
              LATER_FIELD("epoch_loss_sums", FIELD_LOSSES, losses, ""),
              LATER_FIELD("agreement.device", FIELD_NAME, agreement.device, ""),
              LATER_FIELD("agreement.model", FIELD_NAME, agreement.model, ""),
              LATER_FIELD("agreement.precision", FIELD_NAME, agreement.precision, ""),
              LATER_FIELD("agreement.epoch", FIELD_INTEGER, agreement.epoch, "0"),
              LATER_FIELD("agreement.position", FIELD_INTEGER, agreement.position, "0"),
              LATER_FIELD("agreement.loss", FIELD_DOUBLE, agreement.loss, "nan"),
              LATER_FIELD("agreement.gradient_norm", FIELD_DOUBLE, agreement.gradient_norm, "nan")};

static_assert(sizeof fields / sizeof fields[0] + 10 <= CHECKPOINT_PAIRS_MAX,
              "beside the fields there are two formats and eight texts");

static const char specification_key[] = "traind.specification";
static const char normalisation_key[] = "normalisation", vocabulary_key[] = "vocabulary";
static const char module_key[] = "module", job_key[] = "job", data_key[] = "data";
static const char quantization_key[] = "quantization", layouts_key[] = "layouts";

static void add_pair(struct checkpoint_metadata *metadata, const char *key, const char *value)
{
    if (value)
        metadata->pairs[metadata->count++] = (struct safetensors_pair){key, value};
}

/* "0x1.8p+1 0x1p-3"; the hexadecimal form keeps all bits. */
static const char *format_losses(const struct session_losses *losses,
                                 struct checkpoint_metadata *metadata)
{
    int length = 0;

    metadata->losses[0] = '\0';
    for (int i = 0; i < losses->count; i++)
        length += snprintf(metadata->losses + length, CHECKPOINT_VALUE_MAX, "%s%a", i ? " " : "",
                           losses->sums[i]);
    return metadata->losses;
}

static int parse_losses(const char *key, const char *text, struct session_losses *losses,
                        struct error *error)
{
    char *end;

    *losses = (struct session_losses){0};
    for (; *text; text = end) {
        double sum = strtod(text, &end);

        if (end == text || losses->count == SESSION_TRAINING_MAX)
            return error_set(error, -EINVAL, "the checkpoint's %s is no list of numbers", key);
        losses->sums[losses->count++] = sum;
    }
    return 0;
}

void checkpoint_metadata_format(const struct checkpoint_state *state,
                                const struct checkpoint_texts *texts,
                                struct checkpoint_metadata *metadata)
{
    metadata->count = 0;
    add_pair(metadata, "format", "pt"); /* PyTorch's readers of safetensors expect this */
    add_pair(metadata, format_key, format_value);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const void *member = (const char *)state + fields[i].offset;
        char *value = metadata->values[i];

        switch (fields[i].type) {
        case FIELD_INTEGER:
            snprintf(value, CHECKPOINT_VALUE_MAX, "%" PRId64, *(const int64_t *)member);
            break;
        case FIELD_UNSIGNED:
            snprintf(value, CHECKPOINT_VALUE_MAX, "%" PRIu64, *(const uint64_t *)member);
            break;
        case FIELD_DOUBLE:
            snprintf(value, CHECKPOINT_VALUE_MAX, "%a", *(const double *)member);
            break;
        case FIELD_NAME:
            snprintf(value, CHECKPOINT_VALUE_MAX, "%s", (const char *)member);
            break;
        case FIELD_CONVOLUTIONS:
        case FIELD_LOSSES:
            break;
        }
        add_pair(metadata, fields[i].key,
                 fields[i].type == FIELD_CONVOLUTIONS ? (const char *)member /* the state has it */
                 : fields[i].type == FIELD_LOSSES     ? format_losses(member, metadata)
                                                      : value);
    }
    add_pair(metadata, specification_key, texts->specification);
    add_pair(metadata, normalisation_key, texts->normalisation);
    add_pair(metadata, vocabulary_key, texts->vocabulary);
    add_pair(metadata, module_key, texts->module);
    add_pair(metadata, job_key, texts->job);
    add_pair(metadata, data_key, texts->data);
    add_pair(metadata, quantization_key, texts->quantization);
    add_pair(metadata, layouts_key, texts->layouts);
}

static int parse_field(const struct checkpoint_field *field, const char *text, void *member,
                       struct error *error)
{
    char *end = NULL;

    errno = 0;
    switch (field->type) {
    case FIELD_INTEGER:
        *(int64_t *)member = strtoll(text, &end, 10);
        if (*(int64_t *)member < 0)
            errno = ERANGE;
        break;
    case FIELD_UNSIGNED:
        *(uint64_t *)member = strtoull(text, &end, 10);
        break;
    case FIELD_DOUBLE:
        *(double *)member = strtod(text, &end);
        errno = 0; /* strtod() also sets ERANGE for a subnormal number, which is valid */
        break;
    case FIELD_NAME:
        snprintf(member, TRACKER_NAME_MAX, "%s", text);
        return 0;
    case FIELD_CONVOLUTIONS:
        snprintf(member, CONVOLUTION_CHOICES_MAX, "%s", text);
        return 0;
    case FIELD_LOSSES:
        return parse_losses(field->key, text, member, error);
    }
    if (errno || end == text || *end)
        return error_set(error, -EINVAL, "the checkpoint's %s is \"%s\", which is no valid number",
                         field->key, text);
    return 0;
}

static struct checkpoint_texts parse_texts(const struct safetensors *file)
{
    return (struct checkpoint_texts){.specification = safetensors_metadata(file, specification_key),
                                     .normalisation = safetensors_metadata(file, normalisation_key),
                                     .vocabulary = safetensors_metadata(file, vocabulary_key),
                                     .module = safetensors_metadata(file, module_key),
                                     .job = safetensors_metadata(file, job_key),
                                     .data = safetensors_metadata(file, data_key),
                                     .quantization = safetensors_metadata(file, quantization_key),
                                     .layouts = safetensors_metadata(file, layouts_key)};
}

int checkpoint_metadata_parse(const struct safetensors *file, struct checkpoint_state *state,
                              struct checkpoint_texts *texts, struct error *error)
{
    const char *format = safetensors_metadata(file, format_key);

    if (!format)
        return error_set(error, -EINVAL,
                         "not a checkpoint of traind (an exported model has no "
                         "training state, take a file of the checkpoints folder)");
    if (strcmp(format, format_value) != 0)
        return error_set(error, -EINVAL, "a checkpoint of format %s, this program reads format %s",
                         format, format_value);
    *state = (struct checkpoint_state){0};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *stored = safetensors_metadata(file, fields[i].key);
        const char *text = stored ? stored : fields[i].absent;
        int r = text ? parse_field(&fields[i], text, (char *)state + fields[i].offset, error)
                     : error_set(error, -EINVAL, "the checkpoint lacks %s", fields[i].key);

        if (r < 0)
            return r;
    }
    if (!safetensors_metadata(file, "traind.epoch_labels"))
        state->sums.labels = state->sums.samples; /* in earlier files every sample had one label */
    *texts = parse_texts(file);
    return 0;
}

/* What an export keeps: the key in a checkpoint, and in the export. */
static const char *const exported_keys[][2] = {
    {"format", "format"},
    {"traind.step", "step"},
    {"traind.epoch", "epoch"},
    {"traind.precision", "precision"},
    {"traind.precision.model", "precision.model"},
    {"traind.direct_convolutions", "direct_convolutions"},
    {specification_key, "specification"},
    {normalisation_key, normalisation_key},
    {vocabulary_key, vocabulary_key},
    {module_key, module_key},
    {job_key, job_key},
    {data_key, data_key},
    {quantization_key, quantization_key},
    {layouts_key, layouts_key}};
enum { EXPORTED_KEYS = sizeof exported_keys / sizeof *exported_keys };
static_assert((int)EXPORTED_KEYS == (int)CHECKPOINT_EXPORT_PAIRS, "an export keeps these");

bool checkpoint_metadata_is_export(const struct safetensors *file)
{
    return !safetensors_metadata(file, format_key) && safetensors_metadata(file, "step") &&
           safetensors_metadata(file, module_key);
}

int checkpoint_metadata_parse_export(const struct safetensors *file, struct checkpoint_state *state,
                                     struct checkpoint_texts *texts, struct error *error)
{
    *state = (struct checkpoint_state){0};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t k = 0; k < EXPORTED_KEYS; k++) {
            const char *text = strcmp(fields[i].key, exported_keys[k][0]) == 0
                                   ? safetensors_metadata(file, exported_keys[k][1])
                                   : NULL;
            int r =
                text ? parse_field(&fields[i], text, (char *)state + fields[i].offset, error) : 0;

            if (r < 0)
                return r;
        }
    }
    *texts = parse_texts(file);
    return 0;
}

int checkpoint_metadata_export(const struct safetensors *file,
                               struct safetensors_pair pairs[CHECKPOINT_EXPORT_PAIRS])
{
    int count = 0;

    for (size_t i = 0; i < EXPORTED_KEYS; i++) {
        const char *value = safetensors_metadata(file, exported_keys[i][0]);

        if (value)
            pairs[count++] = (struct safetensors_pair){exported_keys[i][1], value};
    }
    return count;
}
