/* test_choice.c: the choices of a plan where the specification leaves them open: the largest batch
 * that fits, how many batches make an update, and what is recomputed. */
#include "engine/models/models.h"
#include "engine/train/choice.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 206, SIDE = 12 };

struct fixture {
    struct dataset *dataset;
    struct training_data data;
    const struct backend *backend;
    struct backend_device *device;
    bool batch_norm;
    struct training_config config;
    struct training_wishes wishes;
    struct training_choice choice;
    struct error error;
    int64_t *asked; /* which batch sizes were planned, or NULL */
    int asked_count;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    static const int64_t channels[] = {8, 16}, hidden[] = {16};
    const struct fixture *f = context;
    struct model_config model = {.kind = MODEL_CNN,
                                 .channels = channels,
                                 .channel_count = 2,
                                 .kernel = 3,
                                 .hidden = hidden,
                                 .hidden_count = 1,
                                 .batch_norm = f->batch_norm};
    struct model_data data = {.rank = 3, .sample_shape = {1, SIDE, SIDE}, .outputs = 2};

    return model_build(&model, &data, graph, error);
}

static size_t arena_bytes(void *context, struct training *training)
{
    struct fixture *f = context;
    const struct session *session = training_session(training);

    if (f->asked)
        f->asked[f->asked_count++] = session_graph(session)->batch;
    return session_memory(session)->arena_bytes;
}

/* Pretends 1000 bytes for each sample, and two million more without recomputation. */
static size_t pretended_bytes(void *context, struct training *training)
{
    const struct graph *graph = session_graph(training_session(training));
    bool recomputes = false;

    (void)context;
    for (int32_t i = 0; i < graph->node_count; i++)
        recomputes |= graph->nodes[i].recomputed;
    return (size_t)graph->batch * 1000 + (recomputes ? 0 : 2000000);
}

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    char *rows = malloc(SAMPLES * (SIDE * SIDE * 2 + 8)), *end = rows;
    struct dataset_config config = {
        .format = DATASET_CSV, .path_count = 1, .rank = 3, .shape = {1, SIDE, SIDE}};
    const char *path;

    *f = (struct fixture){.batch_norm = true, .backend = backend_cpu()};
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < SIDE * SIDE; k++)
            end += sprintf(end, "%d,", (i + k) % 7);
        end += sprintf(end, "%d\n", i % 2);
    }
    path = data_file_write_text("choice.csv", rows);
    free(rows);
    config.paths = &path;
    f->dataset = data_open(&config, NULL);
    f->data.train = dataset_view_all(f->dataset);
    assert_int_equal(backend_cpu()->device_open(&(struct backend_device_config){.threads = 1},
                                                &f->device, &f->error),
                     0);
    f->config = (struct training_config){.epochs = 1,
                                         .batch = 32,
                                         .evaluation_batch = 32,
                                         .accumulate = 1,
                                         .optimizer = {.kind = OPTIMIZER_SGD},
                                         .schedule = {.learning_rate = 0.1}};
    f->wishes = (struct training_wishes){
        .memory_limit = SIZE_MAX, .memory_bytes = arena_bytes, .context = f};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    backend_cpu()->device_close(f->device);
    dataset_close(f->dataset);
    return 0;
}

static int choose(struct fixture *f)
{
    struct training_config config = f->config;
    int r;

    f->error = (struct error){0};
    r = training_choose(&config, &f->wishes, &f->data, f->backend, f->device, build, f, &f->choice,
                        &f->error);
    if (r == 0) {
        assert_int_equal(config.batch, f->choice.batch);
        assert_int_equal(config.accumulate, f->choice.accumulate);
        assert_int_equal(config.recompute.kind, f->choice.recompute.kind);
        assert_int_equal(config.recompute.segments, f->choice.recompute.segments);
        if (f->wishes.batch)
            assert_int_equal(config.evaluation_batch, config.batch);
    }
    return r;
}

static void expect_choice(struct fixture *f)
{
    if (choose(f))
        fail_msg("%s", f->error.text);
}

/* The bytes of one plan without a search. */
static size_t plan_bytes(struct fixture *f, int64_t batch, struct recompute_config recompute)
{
    struct training_config config = f->config;
    struct training *training;
    size_t bytes;

    config.batch = config.evaluation_batch = batch;
    config.recompute = recompute;
    if (training_prepare(&config, &f->data, backend_cpu(), f->device, build, f, &training,
                         &f->error))
        fail_msg("%s", f->error.text);
    bytes = arena_bytes(f, training);
    training_free(training);
    return bytes;
}

/* For every size of the grid, under limits over the whole range: the chosen size fits, the next one
 * does not, and few plans were needed. */
static void test_largest_batch(void **state)
{
    static const int64_t sizes[] = {2,   4,   8,   16,  24,  32,  40,  48,  56,  64,
                                    72,  80,  88,  96,  104, 112, 120, 128, 136, 144,
                                    152, 160, 168, 176, 184, 192, 200, 206};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    struct fixture *f = *state;
    size_t bytes[SIZES];
    int64_t previous = 0;

    for (int i = 0; i < SIZES; i++)
        bytes[i] = plan_bytes(f, sizes[i], (struct recompute_config){0});
    f->wishes.batch = true;
    for (int i = 0; i < SIZES; i += 3) {
        int found = 0;

        f->wishes.memory_limit = bytes[i] + 100;
        expect_choice(f);
        while (sizes[found] != f->choice.batch)
            assert_true(++found < SIZES);
        assert_true(f->choice.bytes == bytes[found]);
        assert_true(bytes[found] <= f->wishes.memory_limit);
        assert_true(f->choice.plans <= 12);
        assert_true(f->choice.batch >= previous);
        previous = f->choice.batch;
        if (found + 1 < SIZES) {
            assert_int_equal(f->choice.next_batch, sizes[found + 1]);
            assert_true(f->choice.next_bytes == bytes[found + 1]);
            assert_true(f->choice.next_bytes > f->wishes.memory_limit);
        }
    }
    /* without a limit, the batch is the whole training set */
    f->wishes.memory_limit = SIZE_MAX;
    expect_choice(f);
    assert_int_equal(f->choice.batch, SAMPLES);
    assert_int_equal(f->choice.next_batch, 0);
}

/* Sizes that would leave a batch of one sample, on which batch norm cannot train, are not tried. */
static void test_single_samples(void **state)
{
    struct fixture *f = *state;
    int64_t asked[64];

    f->wishes.batch = true;
    f->data.train.count = 81; /* 8, 16, 40 and 80 leave a single sample */
    f->asked = asked;
    for (size_t limit = 100000; limit < 2000000; limit += 100000) {
        f->asked_count = 0;
        f->wishes.memory_limit = limit;
        choose(f);
        for (int i = 0; i < f->asked_count; i++)
            assert_true(asked[i] > 1 && f->data.train.count % asked[i] != 1);
    }
    f->batch_norm = false;
    f->wishes.memory_limit = plan_bytes(f, 1, (struct recompute_config){0});
    expect_choice(f);
    assert_int_equal(f->choice.batch, 1);
    f->asked = NULL;
}

static void test_too_little_memory(void **state)
{
    struct fixture *f = *state;

    f->wishes.batch = true;
    f->wishes.memory_limit = 1000;
    assert_int_equal(choose(f), -ERROR_DEVICE_MEMORY);
    assert_non_null(strstr(f->error.text, "batches of 2 need"));
    f->wishes.batch = false;
    assert_int_equal(choose(f), -ERROR_DEVICE_MEMORY);
    assert_non_null(strstr(f->error.text, "batches of 32 need"));
    f->wishes.recompute = RECOMPUTE_WISH_AUTO;
    assert_int_equal(choose(f), -ERROR_DEVICE_MEMORY);
}

static void test_effective_batch(void **state)
{
    struct fixture *f = *state;

    f->wishes.batch = true;
    f->wishes.effective_batch = 96;
    expect_choice(f);
    assert_int_equal(f->choice.batch, 96);
    assert_int_equal(f->choice.accumulate, 1);
    f->config.accumulate = 2; /* gradients that are kept take memory as well */
    f->wishes.memory_limit = plan_bytes(f, 48, (struct recompute_config){0}) - 1;
    f->config.accumulate = 1;
    expect_choice(f);
    assert_int_equal(f->choice.batch, 32);
    assert_int_equal(f->choice.accumulate, 3);
    assert_int_equal(f->choice.next_batch, 48);
    /* an update cannot have more samples than there are */
    f->wishes.memory_limit = SIZE_MAX;
    f->wishes.effective_batch = 1000;
    expect_choice(f);
    assert_int_equal(f->choice.batch, 200);
    assert_int_equal(f->choice.accumulate, 5);
    /* a prime, so batches would have one sample, on which batch norm cannot train */
    f->wishes.effective_batch = 1009;
    assert_int_equal(choose(f), -EINVAL);
    f->batch_norm = false;
    expect_choice(f);
    assert_int_equal(f->choice.batch, 1);
    assert_int_equal(f->choice.accumulate, 1009);
}

static void test_recompute(void **state)
{
    static const struct recompute_config none = {.kind = RECOMPUTE_NONE},
                                         selective = {.kind = RECOMPUTE_SELECTIVE};
    struct fixture *f = *state;
    size_t kept = plan_bytes(f, 32, none), cheap = plan_bytes(f, 32, selective), least;
    int64_t largest;

    assert_true(cheap < kept);
    f->wishes.recompute = RECOMPUTE_WISH_AUTO;
    f->wishes.memory_limit = kept; /* it fits without recomputation */
    expect_choice(f);
    assert_int_equal(f->choice.recompute.kind, RECOMPUTE_NONE);
    assert_int_equal(f->choice.batch, 32);
    f->wishes.memory_limit = kept - 1; /* the least recomputation that is enough */
    expect_choice(f);
    assert_int_equal(f->choice.recompute.kind, RECOMPUTE_SELECTIVE);
    assert_true(f->choice.bytes == cheap);
    assert_true(f->choice.kept_bytes == kept);
    f->wishes.recompute = RECOMPUTE_WISH_FULL;
    f->wishes.memory_limit = SIZE_MAX;
    expect_choice(f);
    least = f->choice.bytes;
    assert_true(least <= cheap);
    assert_true(least == plan_bytes(f, 32, f->choice.recompute));
    /* an open batch size becomes as large as recomputation allows, with no more recomputation than
     * that needs */
    f->wishes.recompute = RECOMPUTE_WISH_AUTO;
    f->wishes.batch = true;
    f->wishes.memory_limit = plan_bytes(f, 40, selective);
    expect_choice(f);
    largest = f->choice.batch;
    assert_true(largest >= 40);
    assert_int_not_equal(f->choice.recompute.kind, RECOMPUTE_NONE);
    assert_true(f->choice.bytes <= f->wishes.memory_limit);
    assert_true(plan_bytes(f, largest, none) > f->wishes.memory_limit);
    f->wishes.recompute = RECOMPUTE_WISH_FULL;
    expect_choice(f);
    assert_int_equal(f->choice.batch, largest);
    /* no recomputation if the whole set fits without it */
    f->wishes.recompute = RECOMPUTE_WISH_AUTO;
    f->wishes.memory_limit = SIZE_MAX;
    expect_choice(f);
    assert_int_equal(f->choice.recompute.kind, RECOMPUTE_NONE);
    assert_int_equal(f->choice.batch, f->data.train.count);
    f->wishes.recompute = RECOMPUTE_WISH_AUTO;
    f->wishes.memory_bytes = pretended_bytes;
    f->wishes.memory_limit = 45000;
    expect_choice(f);
    assert_int_equal(f->choice.recompute.kind, RECOMPUTE_SELECTIVE);
    assert_int_equal(f->choice.batch, 40);
    assert_int_equal(f->choice.next_batch, 48);
    assert_int_equal(f->choice.kept_bytes, 2000000 + 40000);
}

static int trims;

static void count_trim(struct backend_device *device)
{
    backend_cpu()->device_trim(device);
    trims++;
}

/* The device keeps what it made for the chosen plan, for the run that follows, and for no other. */
static void test_chosen_plan_is_kept(void **state)
{
    struct backend counting = *backend_cpu();
    struct fixture *f = *state;

    counting.device_trim = count_trim;
    f->backend = &counting;
    trims = 0;
    expect_choice(f);
    assert_int_equal(f->choice.plans, 1);
    assert_int_equal(trims, 0);

    f->wishes.batch = true; /* the last plan is that of the whole training set */
    expect_choice(f);
    assert_int_equal(f->choice.batch, SAMPLES);
    assert_int_equal(trims, f->choice.plans - 1);

    trims = 0; /* the last plan does not fit */
    f->wishes.memory_limit = plan_bytes(f, 2, (struct recompute_config){0});
    expect_choice(f);
    assert_int_equal(f->choice.batch, 2);
    assert_int_equal(trims, f->choice.plans);

    trims = 0;
    f->wishes.memory_limit = 1000;
    assert_int_equal(choose(f), -ERROR_DEVICE_MEMORY);
    assert_int_equal(trims, f->choice.plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_largest_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_single_samples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_little_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_effective_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recompute, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chosen_plan_is_kept, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
