/* transformer.h: what gpt and vit share. */
#pragma once

#include "engine/models/convnet.h"

/* 0, or -EINVAL with a sentence where heads and embedding do not fit. */
int transformer_check(const struct model_config *config, struct error *error);
/* Features between the two linear layers of a block. */
int64_t transformer_features(const struct model_config *config);
/* Norm of x, or of x + *residual where there is one (*residual >= 0); *residual becomes what was
 * normalised. */
int32_t transformer_norm(struct graph *graph, int32_t x, int32_t *residual, const char *name,
                         float epsilon);
/* linear, GELU, [dropout], linear, [dropout]: with the names of the two layers. */
int32_t transformer_network(struct graph *graph, int32_t x, const struct model_config *config,
                            const char *first, const char *second, bool drops_hidden);
