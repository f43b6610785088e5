/* loss_head.h: the loss of one head (struct loss_head) for one sample, and what guessing gives. */
#pragma once

#include "engine/graph/graph.h"

#include <math.h>

/* NAN for a label that is none of the classes. */
static inline double loss_head_logit(const struct loss_head *head, const float *logits,
                                     int32_t label)
{
    return label >= 0 && label < head->classes ? (double)logits[label] : (double)NAN;
}

/* log of the sum of exp(logits). */
static inline double loss_head_total(const struct loss_head *head, const float *logits)
{
    double largest = (double)logits[0], sum = 0;

    for (int c = 1; c < head->classes; c++)
        largest = fmax(largest, (double)logits[c]);
    for (int c = 0; c < head->classes; c++)
        sum += exp((double)logits[c] - largest);
    return largest + log(sum);
}

/* Binary: the mean over the classes of log(1 + exp(z)), less z for each label's logit z. */
static inline double loss_head_value(const struct loss_head *head, const float *logits,
                                     const int32_t *labels)
{
    double total = head->binary ? 0 : loss_head_total(head, logits) * head->labels;

    for (int c = 0; head->binary && c < head->classes; c++) {
        double logit = (double)logits[c];

        total += fmax(logit, 0) + log1p(exp(-fabs(logit)));
    }
    for (int k = 0; k < head->labels; k++)
        total -= loss_head_logit(head, logits, labels[k]);
    return total / (head->binary ? head->classes : head->labels);
}

/* The loss of the best guess that knows nothing of the sample, if all classes are equally
 * likely. */
static inline double loss_head_chance(const struct loss_head *head)
{
    double share = (double)head->labels / head->classes;

    if (!head->binary)
        return log(head->classes);
    return share < 1 ? -share * log(share) - (1 - share) * log(1 - share) : 0;
}
