/* gather.h: the inner loops that turn raw samples into the rows of a batch, shared by gather.c and
 * augmentation.c. AVX2 without FMA computes the same bits as the baseline, so the machine that
 * prepares a batch does not matter. */
#pragma once

#include "engine/data/dataset.h"

#ifdef __x86_64__
#define CONVERSION __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define CONVERSION
#endif

/* output[i] = (raw[i] - mean) * factor for elements first..first+count of a raw sample. */
void gather_convert(const struct dataset *dataset, const uint8_t *raw, int64_t first, int64_t count,
                    float mean, float factor, float *output);

/* The raw sample `index`, or NULL with a sentence (-ERANGE) beyond the set. */
const uint8_t *gather_sample(const struct dataset *dataset, int64_t index, struct error *error);

/* The row of sample `index`, which is `raw`: normalised float32, or int32 symbols. */
void gather_row(const struct dataset *dataset, const struct dataset_normalisation *normalisation,
                int64_t index, const uint8_t *raw, void *row);

/* The label of a sample whose target is a class. */
int32_t gather_label(const struct dataset *dataset, int64_t index, const uint8_t *raw);
/* All its labels, [target_width]. */
int gather_labels(const struct dataset *dataset, int64_t index, int32_t *labels,
                  struct error *error);
