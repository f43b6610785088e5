/* test_metrics.c: metrics of classes and errors of values compared with scikit-learn
 * (tests/reference/README.md), the losses of heads, and which metrics a task has. */
#include "engine/graph/loss_head.h"
#include "engine/train/metrics.h"
#include "tests/support/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const metric_set all = (metric_set)-1;

static struct dataset classes_dataset(int32_t classes)
{
    return (struct dataset){.format = DATASET_CSV,
                            .target = DATASET_TARGET_CLASS,
                            .classes = classes,
                            .target_width = 1};
}

static struct metrics *create(const struct dataset *dataset, int64_t count)
{
    const struct metrics_config config = {
        .dataset = dataset, .kinds = all, .batch = 8, .count = count};
    struct metrics *metrics = NULL;
    struct error error;

    assert_int_equal(metrics_create(&config, &metrics, &error), 0);
    assert_non_null(metrics);
    return metrics;
}

static void assert_near(const char *file, const char *what, double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12))
        fail_msg("%s: %s is %.17g instead of %.17g", file, what, value, expected);
}

static void check_case(const char *file, const struct dump *dump)
{
    static const struct step_metrics sums = {.samples = 1, .labels = 1};
    const struct dump_tensor *logits = dump_find(dump, "logits");
    const int32_t *labels = dump_find(dump, "labels")->values;
    int64_t count = logits->shape.extent[0], width = logits->shape.extent[1];
    struct dataset dataset = classes_dataset((int32_t)width);
    struct metrics *metrics = create(&dataset, count);
    int compared = 0;

    for (int pass = 0; pass < 2; pass++) { /* the second pass must not see anything of the first */
        metrics_begin(metrics, all);
        for (int64_t i = 0; i < count; i++)
            metrics_add_class(metrics, (const float *)logits->values + i * width, labels[i]);
    }
    for (int kind = 0; kind < METRIC_COUNT; kind++) {
        const char *name = metric_kind_to_string(kind);
        const struct dump_tensor *expected = dump_find(dump, "expected/%s", name);

        if (!metric_has(kind, METRIC_OF_CLASSES) || kind == METRIC_LOSS || kind == METRIC_ACCURACY)
            continue;
        compared++;
        if (expected)
            assert_near(file, name, metrics_value(metrics, kind, &sums),
                        *(const double *)expected->values);
        else
            assert_true(kind == METRIC_AUC && isnan(metrics_value(metrics, kind, &sums)));
    }
    assert_int_equal(compared, 20);
    metrics_free(metrics);
}

static void classes_are_measured_as_by_scikit_learn(void **state)
{
    (void)state;
    assert_int_equal(dump_for_each("metrics", check_case), 10);
}

static void check_values(const char *file, const struct dump *dump)
{
    static const char *const names[] = {"expected/mse", "expected/rmse", "expected/mae",
                                        "expected/r2"};
    static const enum metric_kind kinds[] = {METRIC_MSE, METRIC_RMSE, METRIC_MAE, METRIC_R2};
    static const struct step_metrics sums = {.samples = 1, .labels = 1};
    const struct dump_tensor *outputs = dump_find(dump, "outputs");
    const float *targets = dump_find(dump, "targets")->values;
    const float *given = dump_find(dump, "units")->values;
    int64_t count = outputs->shape.extent[0], width = outputs->shape.extent[1];
    double units[4] = {0};
    struct dataset dataset = {.format = DATASET_TABLE,
                              .target = DATASET_TARGET_VALUE,
                              .target_width = (int32_t)width,
                              .target_units = units};
    struct metrics *metrics = create(&dataset, count);

    for (int64_t i = 0; i < width; i++)
        units[i] = (double)given[i];
    for (int pass = 0; pass < 2; pass++) { /* the second pass must not see anything of the first */
        metrics_begin(metrics, all);
        for (int64_t i = 0; i < count; i++)
            metrics_add_values(metrics, (const float *)outputs->values + i * width,
                               targets + i * width);
    }
    for (int i = 0; i < 4; i++) {
        double expected = *(const double *)dump_find(dump, "%s", names[i])->values;
        double scale = fmax(1, fabs(expected)); /* assert_near() is absolute */

        assert_near(file, names[i], metrics_value(metrics, kinds[i], &sums) / scale,
                    expected / scale);
    }
    metrics_free(metrics);
}

static void values_are_measured_as_by_scikit_learn(void **state)
{
    (void)state;
    assert_int_equal(dump_for_each("value_metrics", check_values), 4);
}

static void one_sample_has_no_r2(void **state)
{
    static const struct step_metrics sums = {.loss_sum = 1, .samples = 1, .labels = 1};
    struct dataset dataset = {
        .format = DATASET_CSV, .target = DATASET_TARGET_VALUE, .target_width = 1};
    struct metrics *metrics = create(&dataset, 1);

    (void)state;
    metrics_begin(metrics, all);
    metrics_add_values(metrics, (float[]){3}, (float[]){1});
    assert_near("one", "mse", metrics_value(metrics, METRIC_MSE, &sums), 4);
    assert_true(isnan(metrics_value(metrics, METRIC_R2, &sums)));
    assert_true(isnan(metrics_value(NULL, METRIC_MSE, &sums)));
    metrics_free(metrics);
}

/* The chance losses, and the mean and standard error over samples whose losses are known: logits
 * that are all equal are a uniform guess. */
static void heads_have_a_loss_each(void **state)
{
    static const struct loss_head heads[] = {
        {.classes = 33, .labels = 6, .binary = true, .weight = 1},
        {.classes = 2, .labels = 1, .weight = 3}};
    static const char *const names[] = {"red", "blue"};
    static const int32_t labels[][7] = {{0, 1, 2, 3, 4, 32, 0}, {5, 6, 7, 8, 9, 10, 1}};
    struct dataset dataset = classes_dataset(33);
    const struct metrics_config config = {
        .dataset = &dataset, .heads = {heads, names, 2}, .batch = 8, .count = 2};
    float logits[35] = {0};
    struct metrics *metrics = NULL;
    struct metric_mean red, blue;
    struct error error;

    (void)state;
    dataset.target_width = 7;
    assert_int_equal(metric_task(&dataset, &config.heads), METRIC_OF_HEADS);
    assert_int_equal(metrics_create(&config, &metrics, &error), 0);
    metrics_begin(metrics, 0);
    logits[33] = (float)log(3); /* blue is 0 with a probability of 3/4 */
    for (int i = 0; i < 2; i++)
        metrics_add_heads(metrics, logits, labels[i]);
    assert_int_equal(metrics_head_count(metrics), 2);
    red = metrics_head_loss(metrics, METRIC_TEST, 0);
    blue = metrics_head_loss(metrics, METRIC_VALIDATION, 1);
    assert_string_equal(red.name, "test_red_loss");
    assert_int_equal(metric_head_of_name(&config.heads, blue.name), 1);
    assert_int_equal(metric_head_of_name(&config.heads, red.name), -1);
    assert_string_equal(blue.error_name, "validation_blue_loss_error");
    assert_near("heads", "red", red.mean, log(2));
    assert_true(fabs(red.error) < 1e-7);
    assert_true(fabs(blue.mean - (log(4.0 / 3) + log(4)) / 2) < 1e-7);
    assert_true(fabs(blue.error - (log(4) - log(4.0 / 3)) / 2) < 1e-7);
    assert_near("heads", "chance of red", loss_head_chance(&heads[0]),
                -(6.0 / 33) * log(6.0 / 33) - (27.0 / 33) * log(27.0 / 33));
    assert_near("heads", "chance of blue", loss_head_chance(&heads[1]), log(2));
    metrics_free(metrics);
}

static void a_text_is_measured_by_its_loss(void **state)
{
    static const struct step_metrics sums = {
        .loss_sum = 4 * M_LN2, .samples = 1, .labels = 2, .correct = 1};
    const struct metrics_config config = {
        .dataset = &(struct dataset){.format = DATASET_TEXT, .classes = 65, .target_width = 1},
        .kinds = metrics_usual(config.dataset, METRIC_OF_TEXT, METRIC_TEST),
        .batch = 8,
        .count = 100};
    struct metrics *metrics = NULL;
    struct error error;

    (void)state;
    assert_int_equal(metrics_create(&config, &metrics, &error), 0);
    assert_null(metrics);
    assert_int_equal(metrics_host_bytes(&config), 0);
    assert_near("text", "bits", metrics_value(NULL, METRIC_BITS_PER_CHARACTER, &sums), 2);
    assert_near("text", "perplexity", metrics_value(NULL, METRIC_PERPLEXITY, &sums), 4);
    assert_near("text", "accuracy", metrics_value(NULL, METRIC_ACCURACY, &sums), 0.5);
    assert_true(isnan(metrics_value(NULL, METRIC_F1, &sums)));
}

static void evaluations_of_many_classes_read_no_outputs(void **state)
{
    const struct dataset two = classes_dataset(2), ten = classes_dataset(10);

    (void)state;
    assert_int_equal(metrics_usual(&ten, METRIC_OF_CLASSES, METRIC_VALIDATION),
                     metrics_of_sums(METRIC_OF_CLASSES));
    assert_int_equal(metrics_usual(&ten, METRIC_OF_CLASSES, METRIC_TEST) | 1 << METRIC_AUC,
                     metrics_usual(&two, METRIC_OF_CLASSES, METRIC_VALIDATION));
    assert_int_equal(metrics_usual(&two, METRIC_OF_CLASSES, METRIC_VALIDATION),
                     metrics_of_sums(METRIC_OF_CLASSES) | 1 << METRIC_F1 | 1 << METRIC_MCC |
                         1 << METRIC_AUC);
}

/* Three samples of two labels. The values are scikit-learn's of predicted = [[1,0],[1,1],[0,1]]. */
static void labels_of_zero_and_one(void **state)
{
    static const float logits[3][2] = {{2, -1}, {0.5f, 3}, {-1, 1}};
    static const float targets[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    static const struct step_metrics sums = {.samples = 1, .labels = 1};
    const struct dataset dataset = {.format = DATASET_NPY,
                                    .target = DATASET_TARGET_VALUE,
                                    .plain_targets = true,
                                    .target_width = 2};
    const struct {
        enum metric_kind kind;
        double value;
    } wanted[] = {{METRIC_PRECISION, 0.75},    {METRIC_RECALL, 0.75},
                  {METRIC_F1, 0.75},           {METRIC_F1_MICRO, 0.75},
                  {METRIC_F1_WEIGHTED, 0.75},  {METRIC_SUBSET_ACCURACY, 1.0 / 3},
                  {METRIC_AUC, (0.5 + 1) / 2}, {METRIC_AVERAGE_PRECISION, (5.0 / 6 + 1) / 2}};
    struct metrics *metrics = create(&dataset, 3);

    (void)state;
    assert_int_equal(metric_task(&dataset, &(struct metric_heads){0}), METRIC_OF_LABELS);
    for (int again = 0; again < 2; again++) {
        metrics_begin(metrics, (metric_set)-1);
        for (int i = 0; i < 3; i++)
            metrics_add_values(metrics, logits[i], targets[i]);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            assert_near("labels", metric_kind_to_string(wanted[i].kind),
                        metrics_value(metrics, wanted[i].kind, &sums), wanted[i].value);
        assert_true(isnan(metrics_value(metrics, METRIC_MSE, &sums)));
    }
    metrics_free(metrics);
}

/* The nearest of 0 is 1, of 1 and 2 each other, of 3 it is 2; the class of 4 is alone. */
static void embeddings_are_measured_by_their_neighbours(void **state)
{
    static const float embeddings[5][2] = {{0, 0}, {3, 0}, {5, 0}, {5, 3}, {5, 9}};
    static const int32_t labels[] = {7, 7, 2, 2, 9};
    static const struct step_metrics sums = {.samples = 1, .labels = 1}, empty = {.samples = 1};
    struct dataset dataset = classes_dataset(10);
    struct metrics_config config = {
        .dataset = &dataset, .kinds = all, .batch = 8, .count = 5, .heads = {.embedding = 2}};
    struct metrics *metrics = NULL;
    struct error error;

    (void)state;
    assert_int_equal(metric_task(&dataset, &config.heads), METRIC_OF_EMBEDDINGS);
    assert_int_equal(metrics_usual(&dataset, METRIC_OF_EMBEDDINGS, METRIC_VALIDATION),
                     metrics_of_sums(METRIC_OF_EMBEDDINGS));
    assert_int_equal(metrics_usual(&dataset, METRIC_OF_EMBEDDINGS, METRIC_TEST),
                     metrics_of_trait(METRIC_OF_EMBEDDINGS));
    assert_int_equal(metrics_create(&config, &metrics, &error), 0);
    for (int again = 0; again < 2; again++) {
        metrics_begin(metrics, all);
        for (int i = 0; i < 5; i++)
            metrics_add_embedding(metrics, embeddings[i], labels[i]);
        /* 0 and 3 are right; 1 and 2 are not; 4 is not asked */
        assert_near("embeddings", "precision_at_1",
                    metrics_value(metrics, METRIC_PRECISION_AT_1, &sums), 0.5);
    }
    /* without a triplet, the loss is 0 */
    assert_true(metrics_value(metrics, METRIC_LOSS, &empty) == 0);
    metrics_begin(metrics, all);
    metrics_add_embedding(metrics, embeddings[0], 1);
    metrics_add_embedding(metrics, embeddings[1], 2);
    assert_true(isnan(metrics_value(metrics, METRIC_PRECISION_AT_1, &sums)));
    metrics_free(metrics);
}

static void names_say_what_improves(void **state)
{
    (void)state;
    assert_string_equal(metric_name(METRIC_LAST_TEST, METRIC_MCC), "last_test_mcc");
    assert_int_equal(metric_of_name("validation_bits_per_character"), METRIC_BITS_PER_CHARACTER);
    assert_int_equal(metric_of_name("train_loss"), METRIC_LOSS);
    assert_int_equal(metric_of_name("validation_"), -1);
    assert_int_equal(metric_of_name("loss"), -1);
    assert_true(metric_has(METRIC_MAE, METRIC_FALLS) &&
                metric_has(METRIC_PERPLEXITY, METRIC_FALLS));
    assert_false(metric_has(METRIC_AUC, METRIC_FALLS) || metric_has(METRIC_ACCURACY, METRIC_FALLS));
}

/* An output that is no finite number is in no class, and its confidence is not that of a right
 * answer. */
static void metrics_of_undefined_outputs_are_none(void **state)
{
    static const struct step_metrics sums = {.samples = 2, .labels = 2};
    static const float logits[2][3] = {{1, 0, 0}, {INFINITY, 1, 0}};
    struct dataset dataset = classes_dataset(3);
    struct metrics *metrics = create(&dataset, 2);

    (void)state;
    for (int count = 1; count <= 2; count++) {
        metrics_begin(metrics, all);
        for (int i = 0; i < count; i++)
            metrics_add_class(metrics, logits[i], 0);
        assert_int_equal(isnan(metrics_value(metrics, METRIC_CALIBRATION_ERROR, &sums)), count > 1);
        assert_int_equal(isnan(metrics_value(metrics, METRIC_TOP_3_ACCURACY, &sums)), count > 1);
        assert_int_equal(isnan(metrics_value(metrics, METRIC_F1, &sums)), count > 1);
    }
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_measured_as_by_scikit_learn),
        cmocka_unit_test(metrics_of_undefined_outputs_are_none),
        cmocka_unit_test(values_are_measured_as_by_scikit_learn),
        cmocka_unit_test(one_sample_has_no_r2),
        cmocka_unit_test(heads_have_a_loss_each),
        cmocka_unit_test(a_text_is_measured_by_its_loss),
        cmocka_unit_test(evaluations_of_many_classes_read_no_outputs),
        cmocka_unit_test(labels_of_zero_and_one),
        cmocka_unit_test(embeddings_are_measured_by_their_neighbours),
        cmocka_unit_test(names_say_what_improves),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
