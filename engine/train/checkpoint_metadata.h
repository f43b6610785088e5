/* checkpoint_metadata.h: converts the fields of a checkpoint's state to and from texts in the
 * file's metadata. Internal to checkpoint.c. */
#pragma once

#include "engine/train/checkpoint.h"

enum { CHECKPOINT_PAIRS_MAX = 60, CHECKPOINT_VALUE_MAX = 48, CHECKPOINT_EXPORT_PAIRS = 14 };

struct checkpoint_metadata {
    struct safetensors_pair pairs[CHECKPOINT_PAIRS_MAX];
    int count;
    char values[CHECKPOINT_PAIRS_MAX]
               [CHECKPOINT_VALUE_MAX]; /* the pairs point to these, or into the state */
    char losses[SESSION_TRAINING_MAX * CHECKPOINT_VALUE_MAX];
};

void checkpoint_metadata_format(const struct checkpoint_state *state,
                                const struct checkpoint_texts *texts,
                                struct checkpoint_metadata *metadata);

/* -EINVAL with a sentence that names the key whose value is missing or not a number. The texts
 * point into the file. */
int checkpoint_metadata_parse(const struct safetensors *file, struct checkpoint_state *state,
                              struct checkpoint_texts *texts, struct error *error);

/* Whether an export wrote the file; and reads it so, with the state that it keeps. */
bool checkpoint_metadata_is_export(const struct safetensors *file);
int checkpoint_metadata_parse_export(const struct safetensors *file, struct checkpoint_state *state,
                                     struct checkpoint_texts *texts, struct error *error);

/* Lists the pairs that an export keeps; returns their number. */
int checkpoint_metadata_export(const struct safetensors *file,
                               struct safetensors_pair pairs[CHECKPOINT_EXPORT_PAIRS]);
