/* plain_targets.c: values to predict that are labels of 0 or 1, or probabilities of classes.
 * Readers of tables check each value, and name its line and column; what others read is checked as
 * a whole. */
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <strings.h>

/* How far from 1 the sum of probabilities may be that were written with three digits each. */
static const double sum_tolerance = 1e-3;

bool plain_label_parse(enum dataset_plain plain, const char *text, size_t length, double *value)
{
    bool is_true = length == 4 && strncasecmp(text, "true", 4) == 0;

    if (plain != DATASET_PLAIN_LABELS ||
        (!is_true && (length != 5 || strncasecmp(text, "false", 5) != 0)))
        return false;
    *value = is_true;
    return true;
}

const char *plain_target_fault(enum dataset_plain plain, double value)
{
    if (plain == DATASET_PLAIN_LABELS && (float)value != 0.0f && (float)value != 1.0f)
        return "but the loss binary_cross_entropy has labels that are 0 or 1";
    if (plain == DATASET_PLAIN_PROBABILITIES && !(value >= 0))
        return "but the loss soft_cross_entropy has probabilities, which are at least 0";
    return NULL;
}

bool plain_targets_add_up(enum dataset_plain plain, const float *values, int64_t count, double *sum)
{
    *sum = 0;
    for (int64_t k = 0; k < count; k++)
        *sum += (double)values[k];
    return plain != DATASET_PLAIN_PROBABILITIES || fabs(*sum - 1) <= sum_tolerance * (double)count;
}

int plain_targets_check_row(enum dataset_plain plain, const float *values, int64_t count,
                            const char *path, int64_t line, struct error *error)
{
    double sum;

    if (plain_targets_add_up(plain, values, count, &sum))
        return 0;
    return error_set(error, -EINVAL,
                     "%s:%lld: the %lld values to predict add up to %g, but the loss "
                     "soft_cross_entropy has probabilities of classes, whose sum is 1",
                     path, (long long)line, (long long)count, sum);
}

static int check_sample(const struct dataset *dataset, int64_t sample, const char *path,
                        struct error *error)
{
    const float *values = dataset_targets(dataset, sample);
    double sum;

    for (int64_t k = 0; k < dataset->target_width; k++) {
        const char *fault = plain_target_fault(dataset->plain_targets, (double)values[k]);

        if (fault)
            return error_set(error, -EINVAL, "%s: %s %lld of sample %lld is %g, %s", path,
                             dataset->plain_targets == DATASET_PLAIN_LABELS ? "label" : "value",
                             (long long)k, (long long)sample, (double)values[k], fault);
    }
    if (plain_targets_add_up(dataset->plain_targets, values, dataset->target_width, &sum))
        return 0;
    return error_set(error, -EINVAL,
                     "%s: the values of sample %lld add up to %g, but the loss "
                     "soft_cross_entropy has probabilities of classes, whose sum is 1",
                     path, (long long)sample, sum);
}

int plain_targets_check(const struct dataset *dataset, const char *path, struct error *error)
{
    int r = 0;

    if (dataset->plain_targets == DATASET_PLAIN_NOT || !dataset->targets)
        return 0;
    for (int64_t i = 0; r == 0 && i < dataset->count; i++)
        r = check_sample(dataset, i, path, error);
    return r;
}
