/* embedding_metrics.h: metrics of a set whose samples become embeddings that are near each other
 * where their classes are the same. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct embedding_metrics;

/* Host memory of a set of at most `capacity` samples with embeddings of `width` numbers. */
size_t embedding_metrics_bytes(int64_t width, int64_t capacity);
/* -ENOMEM. */
int embedding_metrics_create(int64_t width, int64_t capacity, struct embedding_metrics **metrics,
                             struct error *error);
void embedding_metrics_free(struct embedding_metrics *metrics); /* NULL allowed */

/* Begins another set. */
void embedding_metrics_begin(struct embedding_metrics *metrics);
void embedding_metrics_add(struct embedding_metrics *metrics, const float *embedding,
                           int32_t label);

/* Of the samples whose class another one of the set has: the share whose nearest other sample, by
 * the Euclidean distance, has their class; of equal distances the first sample counts. It is
 * precision_at_1 of Musgrave, Belongie and Lim 2020, "A metric learning reality check",
 * arXiv:2003.08505. The time grows with the square of the samples. NAN: there are none, or an
 * embedding is not finite. */
double embedding_metrics_precision_at_1(const struct embedding_metrics *metrics);
