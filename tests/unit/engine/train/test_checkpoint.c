/* test_checkpoint.c: tensors are read back bit for bit, invalid files are refused with a sentence,
 * and retention keeps the last checkpoints and the best one. */
#include "engine/graph/forward.h"
#include "engine/train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct backend_device *device;
    struct session *session, *other; /* the same model with other weights */
    char path[128], output[128];
    struct error error;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    const int64_t *width = context;
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3}, 1);

    x = graph_linear(graph, x, "0", *width, true);
    x = graph_batch_norm(graph, x, "1", 1e-5f, 0.1f);
    x = graph_linear(graph, x, "2", 2, true);
    graph_cross_entropy(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

static struct session *make_session(struct fixture *f, uint64_t seed, int64_t *width)
{
    struct session_config config = {
        .backend = backend_cpu(),
        .device = f->device,
        .build = build,
        .build_context = width,
        .optimizer = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .accumulate = true,
        .training_batches = {4},
        .seed = seed};
    struct session *session = NULL;

    if (session_prepare(&config, &session, &f->error) < 0 ||
        session_allocate(session, &f->error) < 0)
        fail_msg("%s", f->error.text);
    return session;
}

static int64_t usual_width = 5;

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    const char *folder = getenv("TMPDIR");
    struct backend_device_config config = {.threads = 1};

    *f = (struct fixture){0};
    snprintf(f->path, sizeof f->path, "%s/checkpoint", folder ? folder : "/tmp");
    snprintf(f->output, sizeof f->output, "%s/exported", folder ? folder : "/tmp");
    assert_int_equal(backend_cpu()->device_open(&config, &f->device, &f->error), 0);
    f->session = make_session(f, 1, &usual_width);
    f->other = make_session(f, 2, &usual_width);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    session_free(f->session);
    session_free(f->other);
    backend_cpu()->device_close(f->device);
    unlink(f->path);
    unlink(f->output);
    return 0;
}

/* Gives every persistent tensor values of its own. */
static void fill(struct session *session)
{
    struct session_tensor tensor;
    float values[64];

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        for (size_t k = 0; k < tensor.bytes / sizeof *values; k++)
            values[k] = (float)i + (float)k / 64;
        assert_int_equal(session_write(session, i, values, NULL), 0);
    }
}

/* How many tensors of these roles differ. */
static int count_different(struct session *a, struct session *b, bool weights)
{
    struct session_tensor tensor;
    int different = 0;

    for (int i = 0; session_tensor(a, i, &tensor) == 0; i++) {
        float left[64], right[64];

        assert_int_equal(session_read(a, i, left, NULL), 0);
        assert_int_equal(session_read(b, i, right, NULL), 0);
        if (weights == (tensor.role == TENSOR_PARAMETER || tensor.role == TENSOR_STATISTIC))
            different += memcmp(left, right, tensor.bytes) != 0;
    }
    return different;
}

static struct checkpoint_state sample_state(int64_t micro_step)
{
    struct checkpoint_state state = {
        .step = 123456789012345,
        .micro_step = micro_step,
        .epoch = 3,
        .position = 40,
        .batches = 99,
        .seed = UINT64_MAX,
        .seconds = 0.1,
        .epoch_seconds = 0x1.123456789abcdp-700,
        .sums = {
            .loss_sum = 1.0 / 3, .samples = 40, .labels = 40, .correct = 17, .last_loss = 5e-324}};

    tracker_init(&state.best, "validation_loss", 0, 0);
    tracker_init(&state.early, NULL, 0, 0);
    tracker_update(&state.best, 2.0 / 3, 77, 2.5);
    tracker_update(&state.best, 1, 78, 3);
    return state;
}

static const struct checkpoint_texts sample_texts = {.specification = "digest",
                                                     .normalisation = "standard 1 0 1"};

static void write_sample(struct fixture *f, int64_t micro_step, const struct weights_copy *best)
{
    struct checkpoint_state state = sample_state(micro_step);
    char digest[SAFETENSORS_DIGEST_SIZE];
    uint64_t bytes;

    if (checkpoint_write(f->session, &state, &sample_texts, best, f->path, digest, &bytes,
                         &f->error) < 0)
        fail_msg("%s", f->error.text);
    assert_int_equal(strlen(digest), 64);
}

static void open_sample(struct fixture *f, struct checkpoint *checkpoint)
{
    if (checkpoint_open(f->path, checkpoint, &f->error) < 0)
        fail_msg("%s", f->error.text);
}

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct checkpoint_state written = sample_state(1);
    struct checkpoint checkpoint;

    fill(f->session);
    write_sample(f, 1, NULL);
    open_sample(f, &checkpoint);
    assert_int_equal(checkpoint.state.step, written.step);
    assert_int_equal(checkpoint.state.micro_step, 1);
    assert_int_equal(checkpoint.state.position, 40);
    assert_true(checkpoint.state.seed == UINT64_MAX);
    assert_memory_equal(&checkpoint.state.sums, &written.sums, sizeof written.sums);
    assert_memory_equal(&checkpoint.state.epoch_seconds, &written.epoch_seconds, sizeof(double));
    assert_string_equal(checkpoint.state.best.metric, "validation_loss");
    assert_true(checkpoint.state.best.best == 2.0 / 3 && checkpoint.state.best.best_epoch == 2.5);
    assert_int_equal(checkpoint.state.best.measurements_without_improvement, 1);
    assert_true(isnan(checkpoint.state.early.best));
    assert_string_equal(checkpoint.texts.normalisation, "standard 1 0 1");
    assert_null(checkpoint.texts.vocabulary);

    assert_int_equal(checkpoint_restore(&checkpoint, f->other, true, NULL, &f->error), 0);
    assert_int_equal(count_different(f->session, f->other, true), 0);
    assert_int_equal(count_different(f->session, f->other, false), 0);
    checkpoint_close(&checkpoint);
}

static void test_weights_alone(void **state)
{
    struct fixture *f = *state;
    struct checkpoint checkpoint;

    fill(f->session);
    write_sample(f, 0, NULL);
    open_sample(f, &checkpoint);
    assert_null(safetensors_find(&checkpoint.file, "gradient.0.weight"));
    assert_non_null(safetensors_find(&checkpoint.file, "1.running_mean"));
    assert_int_equal(checkpoint_restore(&checkpoint, f->other, false, NULL, &f->error), 0);
    assert_int_equal(count_different(f->session, f->other, true), 0);
    assert_true(count_different(f->session, f->other, false) > 0);
    checkpoint_close(&checkpoint);
}

static void test_best_weights_travel_along(void **state)
{
    struct fixture *f = *state;
    struct weights_copy best, restored;
    struct checkpoint checkpoint;

    assert_int_equal(weights_copy_init(&best, f->session, &f->error), 0);
    assert_int_equal(weights_copy_init(&restored, f->other, &f->error), 0);
    assert_int_equal(weights_copy_save(&best, f->session, &f->error), 0);
    fill(f->session);
    write_sample(f, 0, &best);
    open_sample(f, &checkpoint);
    checkpoint.state.early.best = 1; /* the tracker of early stopping has seen an epoch */
    assert_int_equal(checkpoint_restore(&checkpoint, f->other, true, &restored, &f->error), 0);
    assert_true(restored.filled);
    assert_memory_equal(restored.values, best.values, best.bytes);
    assert_int_equal(weights_copy_restore(&restored, f->session, &f->error), 0);
    assert_true(count_different(f->session, f->other, true) > 0);
    checkpoint_close(&checkpoint);
    weights_copy_release(&best);
    weights_copy_release(&restored);
}

static void test_export(void **state)
{
    struct fixture *f = *state;
    struct safetensors file;
    struct weights_copy best;
    uint64_t bytes;
    char digest[SAFETENSORS_DIGEST_SIZE];

    assert_int_equal(weights_copy_init(&best, f->session, &f->error), 0);
    assert_int_equal(weights_copy_save(&best, f->session, &f->error), 0);
    write_sample(f, 1, &best);
    weights_copy_release(&best);
    assert_int_equal(
        checkpoint_export(f->path, f->output, CHECKPOINT_EVALUATED, digest, &bytes, &f->error), 0);
    assert_int_equal(safetensors_open(f->output, &file, &f->error), 0);
    /* two linear layers, and the four tensors of batch norm */
    assert_int_equal(file.tensor_count, 4 + 4);
    assert_string_equal(safetensors_metadata(&file, "step"), "123456789012345");
    assert_null(safetensors_metadata(&file, "traind.seed"));
    safetensors_close(&file);
}

static void test_refusals(void **state)
{
    static int64_t other_width = 6;
    struct fixture *f = *state;
    struct session *narrow = make_session(f, 1, &other_width);
    struct checkpoint checkpoint;
    uint64_t bytes;
    char digest[SAFETENSORS_DIGEST_SIZE];

    write_sample(f, 0, NULL);
    open_sample(f, &checkpoint);
    assert_int_equal(checkpoint_restore(&checkpoint, narrow, true, NULL, &f->error), -EINVAL);
    assert_non_null(strstr(f->error.text, "tensor 0.weight is 5x3 in the checkpoint, but 6x3"));
    checkpoint_close(&checkpoint);
    session_free(narrow);

    assert_int_equal(
        checkpoint_export(f->path, f->output, CHECKPOINT_EVALUATED, digest, &bytes, &f->error), 0);
    assert_int_equal(checkpoint_open(f->output, &checkpoint, &f->error), -EINVAL);
    assert_non_null(strstr(f->error.text, "not a checkpoint of traind"));
    assert_int_equal(checkpoint_open("/nowhere/at-all", &checkpoint, &f->error), -ENOENT);
}

/* Damages the value of one metadata key in place. */
static void damage(const char *path, const char *key)
{
    char content[8192];
    FILE *file = fopen(path, "r+b");
    size_t size = fread(content, 1, sizeof content, file);
    char *at = memmem(content, size, key, strlen(key));

    assert_non_null(at);
    at[strlen(key) + 3] = 'x'; /* after "key":" */
    fseek(file, 0, SEEK_SET);
    fwrite(content, 1, size, file);
    fclose(file);
}

static void test_damaged_metadata(void **state)
{
    struct fixture *f = *state;
    struct checkpoint checkpoint;

    write_sample(f, 0, NULL);
    damage(f->path, "traind.position");
    assert_int_equal(checkpoint_open(f->path, &checkpoint, &f->error), -EINVAL);
    assert_non_null(strstr(f->error.text, "traind.position is \"x0\", which is no valid number"));
}

/* Writes one more checkpoint; returns the names of the files that are removed for it. */
static const char *retain(struct checkpoint_folder *folder, int64_t step, bool best)
{
    static char names[CHECKPOINT_REMOVED_MAX * CHECKPOINT_PATH_MAX];
    struct checkpoint_entry removed[CHECKPOINT_REMOVED_MAX];
    struct checkpoint_entry next = checkpoint_folder_next(folder, step, best);
    int count = checkpoint_folder_add(folder, &next, removed);
    size_t used = 0;

    names[0] = '\0';
    for (int i = 0; i < count; i++) {
        char name[CHECKPOINT_PATH_MAX];

        checkpoint_file_name(&removed[i], name);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", i ? " " : "",
                                 (int)(strchr(name, '.') - name), name);
    }
    return names;
}

static void test_retention(void **state)
{
    struct checkpoint_folder folder;

    (void)state;
    assert_int_equal(checkpoint_folder_init(&folder, 2, NULL), 0);
    assert_string_equal(retain(&folder, 1, true), "");
    assert_string_equal(retain(&folder, 2, false), "");
    assert_string_equal(retain(&folder, 3, false), ""); /* 1 is the best */
    assert_string_equal(retain(&folder, 4, false), "step-2");
    assert_string_equal(retain(&folder, 4, false), "step-4"); /* it is written again */
    assert_string_equal(retain(&folder, 4, false), "step-4-2");
    assert_string_equal(retain(&folder, 5, true), "step-1 step-3");
    assert_int_equal(folder.count, 2);
    /* within the accumulation behind the best step, then the end of that step once more */
    assert_string_equal(retain(&folder, 5, false), "step-4-3");
    assert_string_equal(retain(&folder, 5, false), "step-5-2");
    assert_string_equal(retain(&folder, 5, true), "step-5 step-5-3");
    assert_int_equal(folder.count, 1);
    checkpoint_folder_release(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_weights_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_best_weights_travel_along, setup, teardown),
        cmocka_unit_test_setup_teardown(test_export, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_metadata, setup, teardown),
        cmocka_unit_test(test_retention)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
