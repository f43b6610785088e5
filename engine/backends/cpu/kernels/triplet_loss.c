/* triplet_loss.c: the triplet loss (engine/graph/operators/triplet_loss.c), anchor by anchor. An
 * anchor's row of `saved` has first its derivatives, then its distances, then how many triplets it
 * has. */
#include "base/squared_distance.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Sums of this many columns are vectorised. */
enum { LANES = 16 };

/* An anchor and what is known of its batch. */
struct anchor {
    const int32_t *label;
    int64_t batch, index;
    float margin;
    const float *distance;
    const float *negative; /* the same of negatives, and infinity of the others */
    float *derivative;     /* of the sum of losses, by each distance */
    double loss;           /* the sum */
    int64_t triplets;
};

static bool is_positive(const struct anchor *anchor, int64_t i)
{
    return i != anchor->index && anchor->label[i] == anchor->label[anchor->index];
}

static bool is_negative(const struct anchor *anchor, int64_t i)
{
    return anchor->label[i] != anchor->label[anchor->index];
}

/* Adds the triplet's loss; one that is not a number stays. */
static void add_triplet(struct anchor *anchor, int64_t positive, int64_t negative)
{
    float loss = anchor->distance[positive] + anchor->margin - anchor->distance[negative];

    anchor->triplets++;
    if (loss <= 0)
        return;
    anchor->loss += (double)loss;
    anchor->derivative[positive] += 1;
    anchor->derivative[negative] -= 1;
}

/* The farthest sample of the anchor's class, or of the others; -1: there is none. */
static int64_t find_farthest(const struct anchor *anchor, bool own)
{
    int64_t farthest = -1;

    for (int64_t i = 0; i < anchor->batch; i++)
        if ((own ? is_positive(anchor, i) : is_negative(anchor, i)) &&
            (farthest < 0 || anchor->distance[i] > anchor->distance[farthest]))
            farthest = i;
    return farthest;
}

/* The nearest negative that is farther than `limit`, the first of equal ones; -1: none is. */
static int64_t find_beyond(const struct anchor *anchor, float limit)
{
    float lane[LANES], nearest = INFINITY;
    int64_t i = 0;

    for (int64_t k = 0; k < LANES; k++)
        lane[k] = INFINITY;
    for (; i + LANES <= anchor->batch; i += LANES)
        for (int64_t k = 0; k < LANES; k++) {
            float other = anchor->negative[i + k];

            other = other > limit ? other : INFINITY;
            lane[k] = other < lane[k] ? other : lane[k];
        }
    for (; i < anchor->batch; i++)
        if (anchor->negative[i] > limit && anchor->negative[i] < nearest)
            nearest = anchor->negative[i];
    for (int64_t k = 0; k < LANES; k++)
        nearest = lane[k] < nearest ? lane[k] : nearest;
    if (nearest == INFINITY)
        return -1;
    for (i = 0; i + LANES <= anchor->batch; i += LANES) {
        bool here = false;

        for (int64_t k = 0; k < LANES; k++)
            here |= anchor->negative[i + k] == nearest;
        if (here)
            break;
    }
    while (anchor->negative[i] != nearest)
        i++;
    return i;
}

static void mine_hard(struct anchor *anchor)
{
    int64_t positive = find_farthest(anchor, true), negative = -1;

    for (int64_t i = 0; i < anchor->batch; i++)
        if (is_negative(anchor, i) &&
            (negative < 0 || anchor->distance[i] < anchor->distance[negative]))
            negative = i;
    if (positive >= 0 && negative >= 0)
        add_triplet(anchor, positive, negative);
}

static void mine_semi_hard(struct anchor *anchor)
{
    int64_t farthest = find_farthest(anchor, false);

    for (int64_t i = 0; farthest >= 0 && i < anchor->batch; i++) {
        int64_t beyond = is_positive(anchor, i) ? find_beyond(anchor, anchor->distance[i]) : -1;

        if (is_positive(anchor, i))
            add_triplet(anchor, i, beyond >= 0 ? beyond : farthest);
    }
}

/* Adds the triplets of a positive whose loss is not 0. */
static void add_triplets(struct anchor *anchor, int64_t positive)
{
    const float limit = anchor->distance[positive] + anchor->margin;
    float loss[LANES] = {0}, triplets[LANES] = {0}, sum = 0, count = 0;
    int64_t i = 0;

    for (; i + LANES <= anchor->batch; i += LANES)
        for (int64_t k = 0; k < LANES; k++) {
            float over = limit - anchor->negative[i + k], counts = over <= 0 ? 0.0f : 1.0f;

            loss[k] += over <= 0 ? 0.0f : over;
            triplets[k] += counts;
            anchor->derivative[i + k] -= counts;
        }
    for (; i < anchor->batch; i++) {
        float over = limit - anchor->negative[i], counts = over <= 0 ? 0.0f : 1.0f;

        sum += over <= 0 ? 0.0f : over;
        count += counts;
        anchor->derivative[i] -= counts;
    }
    for (int64_t k = 0; k < LANES; k++) {
        sum += loss[k];
        count += triplets[k];
    }
    anchor->loss += (double)sum;
    anchor->triplets += (int64_t)count;
    anchor->derivative[positive] += count;
}

static void mine_all(struct anchor *anchor)
{
    for (int64_t i = 0; i < anchor->batch; i++)
        if (is_positive(anchor, i))
            add_triplets(anchor, i);
}

double KERNEL_NAME(triplet_loss_forward)(const struct triplet_loss_config *config, const float *x,
                                         const int32_t *label, int64_t batch, int64_t features,
                                         int64_t first, int64_t end, float *saved, float *scratch,
                                         int64_t *triplets)
{
    double loss = 0;

    for (int64_t i = first; i < end; i++, saved += triplet_row(batch)) {
        float *d = saved + batch;
        struct anchor anchor = {.label = label,
                                .batch = batch,
                                .index = i,
                                .margin = config->margin,
                                .distance = d,
                                .negative = scratch,
                                .derivative = saved};

        memset(saved, 0, (size_t)batch * sizeof *saved);
        for (int64_t k = 0; k < batch; k++) {
            d[k] = sqrtf(squared_distance(x + i * features, x + k * features, features));
            scratch[k] = is_negative(&anchor, k) ? d[k] : INFINITY;
        }
        if (config->mining == TRIPLETS_HARD)
            mine_hard(&anchor);
        else if (config->mining == TRIPLETS_ALL)
            mine_all(&anchor);
        else
            mine_semi_hard(&anchor);
        /* samples at the same place have no direction: 0, as torch.cdist */
        for (int64_t k = 0; k < batch; k++)
            saved[k] = d[k] == 0 ? 0 : saved[k] / d[k];
        saved[2 * batch] = (float)anchor.triplets;
        *triplets += anchor.triplets;
        loss += anchor.loss;
    }
    return loss;
}

/* Each distance of two samples pulls both, and is that of two anchors. */
void KERNEL_NAME(triplet_loss_backward)(const float *x, const float *saved, int64_t batch,
                                        int64_t features, int64_t first, int64_t end, float scale,
                                        float *dx)
{
    const int64_t row = triplet_row(batch);
    double triplets = 0;

    for (int64_t i = 0; i < batch; i++)
        triplets += (double)saved[i * row + 2 * batch];
    scale = triplets > 0 ? (float)((double)scale / triplets) : 0;
    for (int64_t i = first; i < end; i++, dx += features) {
        const float *own = x + i * features;

        memset(dx, 0, (size_t)features * sizeof *dx);
        for (int64_t k = 0; k < batch; k++) {
            const float *other = x + k * features;
            float pull = saved[i * row + k] + saved[k * row + i];

            for (int64_t f = 0; pull != 0 && f < features; f++)
                dx[f] += pull * (own[f] - other[f]);
        }
        for (int64_t f = 0; f < features; f++)
            dx[f] *= scale;
    }
}
