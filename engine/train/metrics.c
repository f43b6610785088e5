/* metrics.c: see metrics.h. */
#include "engine/train/metrics.h"

#include "engine/data/gather.h"
#include "engine/graph/loss_head.h"
#include "engine/train/embedding_metrics.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums over the outputs ---- */

struct metrics {
    metric_set kinds;      /* to be computed now */
    int64_t classes;       /* 0: the targets are values */
    int64_t width;         /* how many numbers an output has */
    int64_t targets;       /* VALUE: how many values a sample has */
    int quantiles, median; /* struct metric_heads; 1 and 0 without quantiles */
    bool soft;             /* the outputs' softmax predicts the values */
    float *outputs;        /* owned: the outputs of one batch */

    /* owned: for each class, how many samples were predicted as it, have its label, and both; one
     * block */
    int64_t *predicted, *labelled, *matching;
    /* METRIC_SCORES, owned: probabilities [ranked][capacity], labels, and the sorted scores of one
     * class */
    int64_t ranked, capacity;
    double *probabilities;
    int32_t *labels;
    struct class_score *scores;
    double *sample; /* owned: the probabilities of one sample */
    long double log_loss;
    struct class_bins bins;
    int64_t within[2];  /* samples whose class is among the likeliest TOP_RANKS */
    int64_t *confusion; /* owned: [classes of labels][predicted classes]; NULL: not wanted */

    /* heads: sums of the losses and of their squares */
    struct loss_head heads[GRAPH_HEADS_MAX];
    int head_count;
    double head_sum[GRAPH_HEADS_MAX], head_squares[GRAPH_HEADS_MAX];
    char head_names[GRAPH_HEADS_MAX][METRIC_SUBSETS][2][METRIC_HEAD_NAME_MAX];
    int32_t *sample_labels; /* owned: all labels of one sample */

    struct label_metrics *labels_each;    /* owned; NULL: samples have no labels of 0 and 1 */
    struct embedding_metrics *embeddings; /* owned; NULL: the outputs are no embeddings */

    int64_t count; /* the samples so far */
    /* An output that tells a class or label was no finite number: then no metric of them is. */
    bool undefined;

    /* VALUE: of each value, owned, [width]; one block */
    const double *units; /* the training set's target_units, or NULL */
    struct value_sums {
        double absolute, squares; /* of the errors */
        /* of the targets, and the sum of squares of their differences; of values that are close
         * together far from 0, a double would lose digits that scikit-learn's two passes keep */
        long double mean, spread;
    } * values;
};

static const int64_t top_ranks[] = {3, 5};

static bool wants_scores(const struct metrics_config *config)
{
    return config->kinds & metrics_of_trait(METRIC_SCORES);
}

/* Of two classes, only the second is ranked. */
static int64_t ranked_classes(const struct metrics_config *config)
{
    if (!wants_scores(config))
        return 0;
    return config->dataset->classes == 2 ? 1 : config->dataset->classes;
}

static int64_t output_width(const struct metrics_config *config)
{
    const struct dataset *dataset = config->dataset;
    int64_t width = 0;

    for (int i = 0; i < config->heads.count; i++)
        width += config->heads.heads[i].classes;
    if (width || config->heads.embedding)
        return width ? width : config->heads.embedding;
    if (dataset->target == DATASET_TARGET_CLASS)
        return dataset->classes;
    return dataset->target_width * (config->heads.quantiles ? (int64_t)config->heads.quantiles : 1);
}

static bool reads_outputs(const struct metrics_config *config)
{
    unsigned task = metric_task(config->dataset, &config->heads);

    return config->heads.count || config->confusion || config->kinds & ~metrics_of_sums(task);
}

static bool has_labels(const struct metrics_config *config)
{
    return metric_task(config->dataset, &config->heads) == METRIC_OF_LABELS;
}

size_t metrics_host_bytes(const struct metrics_config *config)
{
    size_t ranked = (size_t)ranked_classes(config), width = (size_t)output_width(config);
    size_t bytes = sizeof(struct metrics);

    if (!reads_outputs(config))
        return 0;
    if (has_labels(config))
        bytes += label_metrics_bytes((int64_t)width, config->count, wants_scores(config));
    if (config->heads.embedding)
        bytes += embedding_metrics_bytes((int64_t)width, config->count);
    bytes += (size_t)config->batch * width * sizeof(float);
    bytes += width * sizeof(struct value_sums);
    bytes += (size_t)config->dataset->classes * (3 * sizeof(int64_t) + sizeof(double));
    if (config->confusion)
        bytes +=
            (size_t)config->dataset->classes * (size_t)config->dataset->classes * sizeof(int64_t);
    if (ranked)
        bytes += (size_t)config->count *
                 (ranked * sizeof(double) + sizeof(int32_t) + 2 * sizeof(struct class_score));
    return bytes;
}

static void take_heads(struct metrics *metrics, const struct metric_heads *heads)
{
    static const char *const prefixes[] = {[METRIC_VALIDATION] = "validation",
                                           [METRIC_TEST] = "test",
                                           [METRIC_LAST_TEST] = "last_test"};

    metrics->head_count = heads->count;
    for (int i = 0; i < heads->count; i++) {
        metrics->heads[i] = heads->heads[i];
        for (int k = 0; k < METRIC_SUBSETS; k++)
            for (int error = 0; error < 2; error++)
                snprintf(metrics->head_names[i][k][error], METRIC_HEAD_NAME_MAX, "%s_%s_loss%s",
                         prefixes[k], heads->names[i], error ? "_error" : "");
    }
}

int metrics_create(const struct metrics_config *config, struct metrics **metrics,
                   struct error *error)
{
    size_t count = (size_t)config->count, classes = (size_t)config->dataset->classes;
    struct metrics *made;

    if (!reads_outputs(config))
        return 0;
    made = *metrics = calloc(1, sizeof *made);
    if (!made)
        return error_set_errno(error, -ENOMEM, "cannot measure the sets");
    made->classes = config->dataset->classes;
    made->width = output_width(config);
    made->quantiles = config->heads.quantiles ? config->heads.quantiles : 1;
    made->median = config->heads.median;
    made->targets = made->width / made->quantiles;
    made->soft = config->dataset->plain_targets == DATASET_PLAIN_PROBABILITIES;
    made->ranked = ranked_classes(config);
    take_heads(made, &config->heads);
    made->sample_labels =
        calloc((size_t)config->dataset->target_width + 1, sizeof *made->sample_labels);
    made->capacity = config->count;
    made->units = config->dataset->target_units;
    made->values = calloc((size_t)made->width, sizeof *made->values);
    made->outputs = calloc((size_t)config->batch, (size_t)made->width * sizeof *made->outputs);
    made->predicted = calloc(3 * classes + 1, sizeof *made->predicted);
    made->sample = calloc(classes + 1, sizeof *made->sample);
    if (config->confusion)
        made->confusion = calloc(classes, classes * sizeof *made->confusion);
    if (made->predicted) {
        made->labelled = made->predicted + classes;
        made->matching = made->labelled + classes;
    }
    if (made->ranked) {
        made->probabilities = calloc(count, (size_t)made->ranked * sizeof *made->probabilities);
        made->labels = calloc(count, sizeof *made->labels);
        made->scores = calloc(count, sizeof *made->scores);
    }
    if (!made->outputs || !made->predicted || !made->sample_labels || !made->values ||
        !made->sample || (config->confusion && !made->confusion) ||
        (made->ranked && (!made->probabilities || !made->labels || !made->scores)))
        return error_set_errno(error, -ENOMEM, "cannot hold the outputs of %lld samples",
                               (long long)config->count);
    if (config->heads.embedding)
        return embedding_metrics_create(made->width, config->count, &made->embeddings, error);
    return has_labels(config)
               ? label_metrics_create(made->width, config->count, wants_scores(config),
                                      &made->labels_each, error)
               : 0;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->outputs);
    free(metrics->values);
    free(metrics->sample_labels);
    free(metrics->predicted);
    free(metrics->probabilities);
    free(metrics->labels);
    free(metrics->scores);
    free(metrics->sample);
    free(metrics->confusion);
    label_metrics_free(metrics->labels_each);
    embedding_metrics_free(metrics->embeddings);
    free(metrics);
}

void metrics_begin(struct metrics *metrics, metric_set kinds)
{
    metrics->kinds = kinds;
    metrics->count = 0;
    metrics->undefined = false;
    memset(metrics->values, 0, (size_t)metrics->width * sizeof *metrics->values);
    memset(metrics->head_sum, 0, sizeof metrics->head_sum);
    memset(metrics->head_squares, 0, sizeof metrics->head_squares);
    metrics->log_loss = 0;
    metrics->bins = (struct class_bins){0};
    memset(metrics->within, 0, sizeof metrics->within);
    if (metrics->labels_each)
        label_metrics_begin(metrics->labels_each);
    if (metrics->embeddings)
        embedding_metrics_begin(metrics->embeddings);
    if (metrics->confusion)
        memset(metrics->confusion, 0,
               (size_t)(metrics->classes * metrics->classes) * sizeof *metrics->confusion);
    memset(metrics->predicted, 0, 3 * (size_t)metrics->classes * sizeof *metrics->predicted);
}

static int64_t largest_of(const float *logits, int64_t classes)
{
    int64_t largest = 0;

    for (int64_t c = 1; c < classes; c++)
        largest = logits[c] > logits[largest] ? c : largest;
    return largest;
}

/* Softmax in double precision. */
static void find_probabilities(struct metrics *metrics, const float *logits, int64_t largest)
{
    double sum = 0;

    for (int64_t c = 0; c < metrics->classes; c++) {
        metrics->sample[c] = exp((double)logits[c] - (double)logits[largest]);
        sum += metrics->sample[c];
    }
    for (int64_t c = 0; c < metrics->classes; c++)
        metrics->sample[c] /= sum;
}

static void add_probabilities(struct metrics *metrics, const float *logits, int64_t predicted,
                              int32_t label)
{
    double own;

    find_probabilities(metrics, logits, predicted);
    own = metrics->sample[label];
    /* scikit-learn's log_loss clips probabilities so */
    metrics->log_loss -= log(isnan(own) ? own : fmin(fmax(own, DBL_EPSILON), 1 - DBL_EPSILON));
    class_bins_add(&metrics->bins, metrics->sample[predicted], predicted == label);
    for (int64_t c = 0; c < metrics->ranked; c++)
        metrics->probabilities[c * metrics->capacity + metrics->count] =
            metrics->sample[metrics->ranked == 1 ? 1 : c];
    if (metrics->ranked)
        metrics->labels[metrics->count] = label;
}

void metrics_add_class(struct metrics *metrics, const float *logits, int32_t label)
{
    metric_set probable = metrics_of_trait(METRIC_SCORES) | metric_bit(METRIC_LOG_LOSS) |
                          metric_bit(METRIC_CALIBRATION_ERROR);
    metric_set ranked = metric_bit(METRIC_TOP_3_ACCURACY) | metric_bit(METRIC_TOP_5_ACCURACY);
    int64_t predicted = largest_of(logits, metrics->classes);

    metrics->undefined |= class_outputs_are_undefined(logits, metrics->classes);
    metrics->predicted[predicted]++;
    metrics->labelled[label]++;
    metrics->matching[label] += predicted == label;
    if (metrics->confusion)
        metrics->confusion[label * metrics->classes + predicted]++;
    if (metrics->kinds & probable)
        add_probabilities(metrics, logits, predicted, label);
    if (metrics->kinds & ranked) {
        int64_t rank = class_rank(logits, metrics->classes, label);

        for (int i = 0; i < 2; i++)
            metrics->within[i] += rank < top_ranks[i];
    }
    metrics->count++;
}

/* What each logit of the row is of the softmax: exp(logit - largest) / sum. */
struct softmax {
    double largest, sum;
};

static struct softmax softmax_of(const float *logits, int64_t count)
{
    struct softmax softmax = {.largest = (double)logits[largest_of(logits, count)]};

    for (int64_t i = 0; i < count; i++)
        softmax.sum += exp((double)logits[i] - softmax.largest);
    return softmax;
}

/* The targets' mean and spread are updated sample by sample: Welford 1962, "Note on a method for
 * calculating corrected sums of squares and products", Technometrics 4(3). */
void metrics_add_values(struct metrics *metrics, const float *output, const float *target)
{
    struct softmax softmax = {0, 0};

    metrics->count++;
    if (metrics->labels_each) {
        metrics->undefined |= class_outputs_are_undefined(output, metrics->width);
        label_metrics_add(metrics->labels_each, output, target);
        return;
    }
    if (metrics->soft)
        softmax = softmax_of(output, metrics->width);
    for (int64_t i = 0; i < metrics->targets; i++) {
        struct value_sums *sums = &metrics->values[i];
        double unit = metrics->units ? metrics->units[i] : 1;
        double predicted = (double)output[i * metrics->quantiles + metrics->median];
        double error;
        long double value = (double)target[i] * unit, difference = value - sums->mean;

        if (metrics->soft)
            predicted = exp(predicted - softmax.largest) / softmax.sum;
        error = (predicted - (double)target[i]) * unit;
        sums->absolute += fabs(error);
        sums->squares += error * error;
        sums->mean += difference / (long double)metrics->count;
        sums->spread += difference * (value - sums->mean);
    }
}

void metrics_add_heads(struct metrics *metrics, const float *logits, const int32_t *labels)
{
    for (int i = 0; i < metrics->head_count; i++) {
        double loss = loss_head_value(&metrics->heads[i], logits, labels);

        metrics->head_sum[i] += loss;
        metrics->head_squares[i] += loss * loss;
        logits += metrics->heads[i].classes;
        labels += metrics->heads[i].labels;
    }
    metrics->count++;
}

void metrics_add_embedding(struct metrics *metrics, const float *embedding, int32_t label)
{
    embedding_metrics_add(metrics->embeddings, embedding, label);
    metrics->count++;
}

static int add_sample(struct metrics *metrics, const struct dataset *dataset, int64_t index,
                      const float *output, struct error *error)
{
    int r;

    if (dataset->target == DATASET_TARGET_VALUE) {
        metrics_add_values(metrics, output, dataset_targets(dataset, index));
        return 0;
    }
    r = gather_labels(dataset, index, metrics->sample_labels, error);
    if (r == 0 && metrics->head_count)
        metrics_add_heads(metrics, output, metrics->sample_labels);
    else if (r == 0 && metrics->embeddings)
        metrics_add_embedding(metrics, output, metrics->sample_labels[0]);
    else if (r == 0)
        metrics_add_class(metrics, output, metrics->sample_labels[0]);
    return r;
}

int metrics_add(struct metrics *metrics, struct session *session, const struct dataset_view *view,
                const struct loader_batch *batch, struct error *error)
{
    int r = session_read_output(session, metrics->outputs, error);

    for (int64_t i = 0; r == 0 && i < batch->count; i++)
        r = add_sample(metrics, view->dataset,
                       batch->indices ? batch->indices[i]
                                      : dataset_view_index(view, batch->position + i),
                       metrics->outputs + i * metrics->width, error);
    return r;
}

/* ---- results ---- */

struct class_counts metrics_counts(const struct metrics *metrics)
{
    return (struct class_counts){.classes = metrics->classes,
                                 .count = metrics->count,
                                 .predicted = metrics->predicted,
                                 .labelled = metrics->labelled,
                                 .matching = metrics->matching};
}

struct label_metrics *metrics_labels(const struct metrics *metrics)
{
    return metrics ? metrics->labels_each : NULL;
}

const int64_t *metrics_confusion(const struct metrics *metrics)
{
    return metrics ? metrics->confusion : NULL;
}

/* A metric of the sorted scores of a class. */
typedef double score_metric(const struct class_score *scores, int64_t count, int64_t positives);

static double measure_class(const struct metrics *metrics, int64_t row, int32_t class,
                            score_metric *measure)
{
    const double *probabilities = metrics->probabilities + row * metrics->capacity;
    struct class_score *scores = metrics->scores;

    for (int64_t i = 0; i < metrics->count; i++) {
        scores[i] = (struct class_score){probabilities[i], metrics->labels[i] == class};
        if (isnan(probabilities[i]))
            return NAN;
    }
    class_scores_sort(scores, metrics->count);
    return measure(scores, metrics->count, metrics->labelled[class]);
}

static double measure_scores(const struct metrics *metrics, score_metric *measure)
{
    double sum = 0;

    if (metrics->ranked == 1)
        return measure_class(metrics, 0, 1, measure);
    for (int64_t c = 0; c < metrics->ranked; c++)
        sum += measure_class(metrics, c, (int32_t)c, measure);
    return sum / (double)metrics->ranked;
}

static double measure_classes(const struct metrics *metrics, enum metric_kind kind)
{
    const struct class_counts counts = metrics_counts(metrics);
    double count = (double)metrics->count;

    switch (kind) {
#define RATES(NAME)                                                    \
    case METRIC_##NAME:                                                \
        return class_rate_average(&counts, CLASS_##NAME, CLASS_USUAL); \
    case METRIC_##NAME##_MACRO:                                        \
        return class_rate_average(&counts, CLASS_##NAME, CLASS_MACRO); \
    case METRIC_##NAME##_MICRO:                                        \
        return class_rate_average(&counts, CLASS_##NAME, CLASS_MICRO); \
    case METRIC_##NAME##_WEIGHTED:                                     \
        return class_rate_average(&counts, CLASS_##NAME, CLASS_WEIGHTED);
        RATES(PRECISION)
        RATES(RECALL)
        RATES(F1)
#undef RATES
    case METRIC_MCC:
        return class_mcc(&counts);
    case METRIC_AUC:
        return measure_scores(metrics, class_auc);
    case METRIC_AVERAGE_PRECISION:
        return measure_scores(metrics, class_average_precision);
    case METRIC_BALANCED_ACCURACY:
        return class_balanced_accuracy(&counts);
    case METRIC_LOG_LOSS:
        return (double)(metrics->log_loss / (long double)metrics->count);
    case METRIC_CALIBRATION_ERROR:
        return class_calibration_error(&metrics->bins, metrics->count);
    case METRIC_TOP_3_ACCURACY:
        return (double)metrics->within[0] / count;
    case METRIC_TOP_5_ACCURACY:
        return (double)metrics->within[1] / count;
    default:
        return NAN;
    }
}

static double measure_labels(struct label_metrics *labels, enum metric_kind kind)
{
    switch (kind) {
#define RATES(NAME)                                                   \
    case METRIC_##NAME:                                               \
    case METRIC_##NAME##_MACRO:                                       \
        return label_metrics_rate(labels, CLASS_##NAME, CLASS_MACRO); \
    case METRIC_##NAME##_MICRO:                                       \
        return label_metrics_rate(labels, CLASS_##NAME, CLASS_MICRO); \
    case METRIC_##NAME##_WEIGHTED:                                    \
        return label_metrics_rate(labels, CLASS_##NAME, CLASS_WEIGHTED);
        RATES(PRECISION)
        RATES(RECALL)
        RATES(F1)
#undef RATES
    case METRIC_AUC:
        return label_metrics_mean(labels, label_metrics_auc);
    case METRIC_AVERAGE_PRECISION:
        return label_metrics_mean(labels, label_metrics_average_precision);
    case METRIC_SUBSET_ACCURACY:
        return label_metrics_subset_accuracy(labels);
    default:
        return NAN;
    }
}

int64_t metrics_value_count(const struct metrics *metrics)
{
    const metric_set kinds = metric_bit(METRIC_MSE) | metric_bit(METRIC_RMSE) |
                             metric_bit(METRIC_MAE) | metric_bit(METRIC_R2);

    return metrics && metrics->count && (metrics->kinds & kinds) && !metrics->labels_each
               ? metrics->targets
               : 0;
}

double metrics_value_of(const struct metrics *metrics, int64_t target, enum metric_kind kind)
{
    const struct value_sums *sums = &metrics->values[target];
    double count = (double)metrics->count;

    switch (kind) {
    case METRIC_MAE:
        return sums->absolute / count;
    case METRIC_MSE:
        return sums->squares / count;
    case METRIC_RMSE:
        return sqrt(sums->squares / count);
    default: /* METRIC_R2; where all targets are the same: r2_score's force_finite */
        if (metrics->count < 2)
            return NAN;
        return sums->spread > 0 ? 1 - sums->squares / (double)sums->spread : sums->squares == 0;
    }
}

/* The mean over the values of what is measured of each: scikit-learn's
 * multioutput="uniform_average". */
static double mean_of_values(const struct metrics *metrics, enum metric_kind kind)
{
    double sum = 0;

    for (int64_t i = 0; i < metrics->targets; i++)
        sum += metrics_value_of(metrics, i, kind);
    return sum / (double)metrics->targets;
}

int metrics_head_count(const struct metrics *metrics)
{
    return metrics ? metrics->head_count : 0;
}

struct metric_mean metrics_head_loss(struct metrics *metrics, enum metric_subset subset, int head)
{
    double count = (double)metrics->count, mean = metrics->head_sum[head] / count;
    double variance = metrics->head_squares[head] / count - mean * mean;

    return (struct metric_mean){.mean = mean,
                                .error = sqrt(fmax(variance, 0) / fmax(count - 1, 1)),
                                .name = metrics->head_names[head][subset][0],
                                .error_name = metrics->head_names[head][subset][1]};
}

double metrics_value(const struct metrics *metrics, enum metric_kind kind,
                     const struct step_metrics *sums)
{
    double loss = step_metrics_loss(sums);

    if (metric_has(kind, METRIC_READS) && (!metrics || metrics->count == 0 || metrics->undefined ||
                                           !(metrics->kinds & metric_bit(kind))))
        return NAN;
    if (metric_has(kind, METRIC_READS) && metrics->labels_each)
        return measure_labels(metrics->labels_each, kind);
    if (metric_has(kind, METRIC_READS) && metric_has(kind, METRIC_OF_CLASSES))
        return measure_classes(metrics, kind);
    switch (kind) {
    case METRIC_ACCURACY:
        return (double)sums->correct / (double)sums->labels;
    case METRIC_MSE:
    case METRIC_RMSE:
    case METRIC_MAE:
    case METRIC_R2:
        return mean_of_values(metrics, kind);
    case METRIC_PRECISION_AT_1:
        return embedding_metrics_precision_at_1(metrics->embeddings);
    case METRIC_BITS_PER_CHARACTER:
        return loss / M_LN2;
    case METRIC_PERPLEXITY:
        return exp(loss);
    default: /* METRIC_LOSS */
        return loss;
    }
}
