/* checkpoint_metadata.h: the fields of a checkpoint's state as texts in the file's metadata.
 * Internal to the checkpoint. */
#pragma once

#include "engine/train/checkpoint.h"

enum { CHECKPOINT_PAIRS_MAX = 56, CHECKPOINT_VALUE_MAX = 48, CHECKPOINT_EXPORT_PAIRS = 7 };

struct checkpoint_metadata {
    struct safetensors_pair pairs[CHECKPOINT_PAIRS_MAX];
    int count;
    char values[CHECKPOINT_PAIRS_MAX]
               [CHECKPOINT_VALUE_MAX]; /* what the pairs point to, or into the state */
};

void checkpoint_metadata_format(const struct checkpoint_state *state,
                                const struct checkpoint_texts *texts,
                                struct checkpoint_metadata *metadata);

/* -EINVAL with a sentence naming the key that is missing or no number. The texts point into the
 * file. */
int checkpoint_metadata_parse(const struct safetensors *file, struct checkpoint_state *state,
                              struct checkpoint_texts *texts, struct error *error);

/* The pairs that go along with exported weights; their number. */
int checkpoint_metadata_export(const struct safetensors *file,
                               struct safetensors_pair pairs[CHECKPOINT_EXPORT_PAIRS]);
