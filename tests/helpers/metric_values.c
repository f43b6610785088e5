/* metric_values.c: prints every metric of outputs that come through standard input, for
 * tests/reference/check-metrics. A case is three little-endian int32, the outputs, and labels or
 * targets. The integers are 1 for classes, 2 for labels of 0 and 1, 3 for embeddings, else 0;
 * samples; numbers of an output. A line "NAME VALUE" for each metric follows, and an empty one. */
#include "engine/train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS_MAX = 1 << 24 };

static void print_case(const int32_t head[3], const float *outputs, const void *targets)
{
    bool classes = head[0] == 1 || head[0] == 3;
    int64_t count = head[1], width = head[2];
    struct dataset dataset = {.format = DATASET_CSV,
                              .target = classes ? DATASET_TARGET_CLASS : DATASET_TARGET_VALUE,
                              .plain_targets = head[0] == 2,
                              .classes = classes ? head[2] : 0,
                              .target_width = classes ? 1 : head[2]};
    struct metrics_config config = {
        .dataset = &dataset, .kinds = (metric_set)-1, .batch = 1, .count = count};
    static const struct step_metrics sums = {.samples = 1, .labels = 1};
    metric_set task;
    struct metrics *metrics = NULL;
    struct error error;

    config.heads.embedding = head[0] == 3 ? head[2] : 0;
    task = metrics_of_trait(metric_task(&dataset, &config.heads));
    if (metrics_create(&config, &metrics, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(EXIT_FAILURE);
    }
    metrics_begin(metrics, config.kinds);
    for (int64_t i = 0; i < count; i++) {
        if (head[0] == 3)
            metrics_add_embedding(metrics, outputs + i * width, ((const int32_t *)targets)[i]);
        else if (classes)
            metrics_add_class(metrics, outputs + i * width, ((const int32_t *)targets)[i]);
        else
            metrics_add_values(metrics, outputs + i * width, (const float *)targets + i * width);
    }
    for (int k = 0; k < METRIC_COUNT; k++)
        if (task >> k & 1 && k != METRIC_LOSS && k != METRIC_ACCURACY) /* of the device's sums */
            printf("%s %.17g\n", metric_kind_to_string(k), metrics_value(metrics, k, &sums));
    putchar('\n');
    metrics_free(metrics);
}

int main(void)
{
    int32_t head[3];

    while (fread(head, sizeof head, 1, stdin) == 1) {
        int64_t outputs = (int64_t)head[1] * head[2], targets = head[0] % 2 ? head[1] : outputs;
        void *memory;

        if (head[1] < 1 || head[2] < 1 || outputs > ELEMENTS_MAX)
            return EXIT_FAILURE;
        memory = malloc((size_t)(outputs + targets) * sizeof(float));
        if (!memory || fread(memory, sizeof(float), (size_t)(outputs + targets), stdin) !=
                           (size_t)(outputs + targets))
            return EXIT_FAILURE;
        print_case(head, memory, (const float *)memory + outputs);
        free(memory);
    }
    return EXIT_SUCCESS;
}
