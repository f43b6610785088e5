/* embedding_metrics.c: see embedding_metrics.h. */
#include "engine/train/embedding_metrics.h"

#include "base/squared_distance.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct embedding_metrics {
    int64_t width, count;
    float *embeddings;
    int32_t *labels;
    /* of each sample: the nearest other one so far */
    struct neighbour {
        float squares; /* of the distance */
        bool known, same, class_is_shared;
    } * nearest;
};

size_t embedding_metrics_bytes(int64_t width, int64_t capacity)
{
    return sizeof(struct embedding_metrics) +
           (size_t)capacity *
               ((size_t)width * sizeof(float) + sizeof(int32_t) + sizeof(struct neighbour));
}

int embedding_metrics_create(int64_t width, int64_t capacity, struct embedding_metrics **metrics,
                             struct error *error)
{
    struct embedding_metrics *made = calloc(1, sizeof *made);

    *metrics = made;
    if (!made)
        return error_no_memory(error, "the embeddings");
    made->width = width;
    made->embeddings = calloc((size_t)capacity + 1, (size_t)width * sizeof *made->embeddings);
    made->labels = calloc((size_t)capacity + 1, sizeof *made->labels);
    made->nearest = calloc((size_t)capacity + 1, sizeof *made->nearest);
    return made->embeddings && made->labels && made->nearest
               ? 0
               : error_no_memory(error, "the embeddings of %lld samples", (long long)capacity);
}

void embedding_metrics_free(struct embedding_metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->embeddings);
    free(metrics->labels);
    free(metrics->nearest);
    free(metrics);
}

void embedding_metrics_begin(struct embedding_metrics *metrics)
{
    metrics->count = 0;
}

void embedding_metrics_add(struct embedding_metrics *metrics, const float *embedding, int32_t label)
{
    memcpy(metrics->embeddings + metrics->count * metrics->width, embedding,
           (size_t)metrics->width * sizeof *embedding);
    metrics->labels[metrics->count++] = label;
}

static void meet(struct neighbour *sample, float squares, bool same)
{
    sample->class_is_shared |= same;
    if (sample->known && !(squares < sample->squares))
        return;
    sample->known = true;
    sample->squares = squares;
    sample->same = same;
}

double embedding_metrics_precision_at_1(const struct embedding_metrics *metrics)
{
    const int64_t count = metrics->count, width = metrics->width;
    struct neighbour *nearest = metrics->nearest;
    int64_t right = 0, asked = 0;

    memset(nearest, 0, (size_t)count * sizeof *nearest);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++) {
            float squares = squared_distance(metrics->embeddings + i * width,
                                             metrics->embeddings + k * width, width);
            bool same = metrics->labels[i] == metrics->labels[k];

            if (!isfinite(squares))
                return NAN;
            meet(&nearest[i], squares, same);
            meet(&nearest[k], squares, same);
        }
    for (int64_t i = 0; i < count; i++) {
        asked += nearest[i].class_is_shared;
        right += nearest[i].class_is_shared && nearest[i].same;
    }
    return asked ? (double)right / (double)asked : NAN;
}
