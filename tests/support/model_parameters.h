/* model_parameters.h: what parameters a model has for some data. */
#pragma once

#include "engine/models/models.h"

#include <stdint.h>

/* Images of digits, vectors of 64 numbers, texts of 8 symbols out of 65; all for ten classes, or
 * the next symbol. */
extern const struct model_data model_digits, model_vectors, model_text;

/* Builds the model for evaluation and for training. It must have just these parameters and
 * statistics, as in "0.weight[64x20] 0.bias[64]"; the parameters have `count` numbers. */
void model_expect(const struct model_config *config, const struct model_data *data,
                  const char *parameters, int64_t count);
/* The model must be refused with this sentence. */
void model_expect_refusal(const struct model_config *config, const struct model_data *data,
                          const char *sentence);
