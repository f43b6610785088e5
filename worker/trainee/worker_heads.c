/* worker_heads.c: see worker_heads.h. */
#include "worker/trainee/worker_heads.h"

#include "base/cleanup.h"
#include "engine/data/gather.h"
#include "engine/graph/loss_head.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct metric_heads worker_heads(const struct worker_setup *setup)
{
    struct metric_heads heads = {.heads = setup->spec.heads,
                                 .names = setup->spec.head_names,
                                 .count = setup->spec.head_count};
    const float *quantiles = setup->spec.loss_numbers;

    if (setup->spec.loss == LOSS_TRIPLET)
        heads.embedding = setup->spec.embedding_size;
    if (setup->spec.loss != LOSS_QUANTILES)
        return heads;
    heads.quantiles = setup->spec.loss_number_count;
    for (int i = 1; i < heads.quantiles; i++)
        if (fabsf(quantiles[i] - 0.5f) < fabsf(quantiles[heads.median] - 0.5f))
            heads.median = i;
    return heads;
}

/* ---- labels ---- */

/* The labels of a sample, and the number of the first label of the head that is looked at. */
struct labelled {
    const struct worker_spec *spec;
    const struct dataset *dataset;
    const char *set; /* "training", "test" */
    int64_t index;
    const int32_t *labels;
    int first;
};

/* "sample 16 of the training set", of a time series with the row of the file. */
static const char *name_place(const struct labelled *sample, int number, char *output, size_t size)
{
    int length =
        snprintf(output, size, "sample %lld of the %s set", (long long)sample->index, sample->set);
    const char *path;
    int64_t row;

    if (sample->dataset->format != DATASET_TIME_SERIES)
        return output;
    path = series_place(sample->dataset, sample->index, number, &row);
    snprintf(output + length, size - (size_t)length, " (%s, row %lld of the data)", path,
             (long long)row);
    return output;
}

/* A binary head says of each class whether it is among the labels, so none may be there twice. */
static int check_distinct(const struct labelled *sample, int head, struct error *error)
{
    const int32_t *labels = sample->labels + sample->first;
    char place[PATH_MAX + 64];

    for (int k = 1; sample->spec->heads[head].binary && k < sample->spec->heads[head].labels; k++)
        for (int other = 0; other < k; other++)
            if (labels[k] == labels[other])
                return error_set(
                    error, -EINVAL,
                    "labels %d and %d of the head \"%s\" in %s are both "
                    "%d, but the labels of a binary head are a set: correct the data, or set the "
                    "head's loss to cross_entropy",
                    other + 1, k + 1, sample->spec->head_names[head],
                    name_place(sample, sample->first + k, place, sizeof place), labels[k]);
    return 0;
}

static int check_sample(struct labelled *sample, struct error *error)
{
    const struct worker_spec *spec = sample->spec;
    char place[PATH_MAX + 64];

    for (int i = 0; i < spec->head_count; i++) {
        const struct loss_head *head = &spec->heads[i];
        const int32_t *labels = sample->labels + sample->first;
        int r = check_distinct(sample, i, error);

        if (r < 0)
            return r;
        for (int k = 0; k < head->labels; k++)
            if (labels[k] < 0 || labels[k] >= head->classes)
                return error_set(
                    error, -EINVAL,
                    "label %d of the head \"%s\" in %s is %d, but the head has the classes 0 to "
                    "%d: check model.output_heads, and which number of the data is class 0",
                    k + 1, spec->head_names[i],
                    name_place(sample, sample->first + k, place, sizeof place), labels[k],
                    head->classes - 1);
        sample->first += head->labels;
    }
    return 0;
}

static int check_set(const struct worker_spec *spec, const struct dataset *dataset, const char *set,
                     struct error *error)
{
    AUTO_FREE int32_t *labels = calloc((size_t)dataset->target_width, sizeof *labels);
    int r = labels ? 0 : error_set_errno(error, -ENOMEM, "cannot check the labels");

    for (int64_t i = 0; r == 0 && !dataset->is_absent && i < dataset->count; i++) {
        struct labelled sample = {spec, dataset, set, i, labels, 0};

        r = gather_labels(dataset, i, labels, error);
        if (r == 0)
            r = check_sample(&sample, error);
    }
    return r;
}

int worker_heads_describe(struct worker_setup *setup, struct error *error)
{
    const struct worker_spec *spec = &setup->spec;
    int labels = 0, r;

    setup->model_data.heads = spec->heads;
    setup->model_data.head_count = spec->head_count;
    for (int i = 0; i < spec->head_count; i++) {
        setup->model_data.outputs += spec->heads[i].classes;
        labels += spec->heads[i].labels;
    }
    if (labels != setup->train->target_width)
        return error_set(
            error, -EINVAL,
            "model.output_heads have %d labels in all, but a sample of the data has %d: set "
            "`labels` of the heads, or the columns to predict",
            labels, setup->train->target_width);
    r = check_set(spec, setup->train, "training", error);
    return r == 0 && setup->test ? check_set(spec, setup->test, "test", error) : r;
}

/* ---- losses ---- */

int worker_heads_report_baselines(const struct worker_setup *setup,
                                  const struct training_events *callbacks, struct error *error)
{
    const struct worker_spec *spec = &setup->spec;
    char names[GRAPH_HEADS_MAX][48];
    struct training_values values = {.count = spec->head_count};

    for (int i = 0; i < spec->head_count; i++) {
        snprintf(names[i], sizeof names[i], "baseline_%s_loss", spec->head_names[i]);
        values.values[i] = (struct training_value){names[i], loss_head_chance(&spec->heads[i])};
    }
    return values.count ? callbacks->metrics(callbacks->context, 0, 0, &values, error) : 0;
}

/* NAN: it was not measured. */
static double find_value(const struct training_values *values, const char *set, const char *head,
                         const char *suffix)
{
    char name[64];

    snprintf(name, sizeof name, "%s_%s_loss%s", set, head, suffix);
    for (int i = 0; i < values->count; i++)
        if (strcmp(values->values[i].name, name) == 0)
            return values->values[i].value;
    return NAN;
}

int worker_heads_report_losses(const struct worker_setup *setup, struct worker_events *events,
                               const struct training_result *result, struct error *error)
{
    const struct worker_spec *spec = &setup->spec;
    const char *set = worker_setup_test(setup).count ? "test" : "validation";
    int r = 0;

    for (int i = 0; r == 0 && i < spec->head_count; i++) {
        double chance = loss_head_chance(&spec->heads[i]);
        double loss = find_value(&result->values, set, spec->head_names[i], "");
        double deviation = find_value(&result->values, set, spec->head_names[i], "_error");
        char message[WORKER_WARNING_BYTES];

        if (isnan(loss) || loss < chance - deviation)
            continue;
        snprintf(message, sizeof message,
                 "the head \"%s\" does not beat chance: its loss on the %s set is %.4f ± %.4f, and "
                 "guessing gives %.4f; what it has learnt does not hold for samples that it has "
                 "not seen",
                 spec->head_names[i], set, loss, deviation, chance);
        r = worker_events_warning(events, message, error);
    }
    return r;
}
