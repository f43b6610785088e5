/* test_session_memory.c: compares the memory plan of a session with what the process does, for 50
 * random models. The session allocates only the arena on the device. The arena has the planned size
 * to the byte, and all of it is resident. The process grows by the arena and little else. Running
 * steps calls no allocator, and leaves no memory behind. */
#include "base/philox.h"
#include "engine/backends/cpu/call_pool.h"
#include "engine/backends/cpu/onednn.h"
#include "engine/data/loader.h"
#include "engine/models/models.h"
#include "engine/train/session.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS_MAX = 2 };

static atomic_long allocations; /* counts the whole process */
static atomic_long outstanding; /* allocations that were not freed */

#if defined(__SANITIZE_ADDRESS__)
/* The sanitizer has its own allocator and shadow memory. */
static const bool observes_process = false;
#else
static const bool observes_process = true;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);
#define EXPORTED __attribute__((visibility("default")))

static void count_allocation(void)
{
    outstanding++;
    allocations++;
}

EXPORTED void *malloc(size_t bytes)
{
    count_allocation();
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    count_allocation();
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *old, size_t bytes)
{
    count_allocation();
    outstanding -= old != NULL;
    return __libc_realloc(old, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_allocation();
    return __libc_memalign(alignment, bytes);
}

/* call_pool.c defines posix_memalign(), which calls aligned_alloc(). */
EXPORTED void free(void *memory)
{
    if (call_pool_take_back(memory))
        return;
    outstanding -= memory != NULL;
    __libc_free(memory);
}
#endif

/* ---- random models --------------------------------------------------------------------------- */

struct random {
    uint64_t seed, index;
};

static int draw(struct random *random, int low, int high)
{
    uint32_t word =
        philox_draw(random->seed, philox_stream(PHILOX_TEST, 1), random->index++).word[0];

    return low + (int)(word % (uint32_t)(high - low + 1));
}

struct case_model {
    struct model_config config;
    struct model_data data;
    int64_t hidden[3], channels[3];
};

static void draw_model(struct random *random, struct case_model *model)
{
    struct model_config *config = &model->config;
    struct model_data *data = &model->data;

    memset(model, 0, sizeof *model);
    config->kind = (enum model_kind)draw(random, MODEL_MLP, MODEL_CHAR_MLP);
    config->hidden_count = draw(random, 0, 3);
    config->channel_count = draw(random, 1, 3);
    for (int i = 0; i < 3; i++) {
        model->hidden[i] = draw(random, 1, 300);
        model->channels[i] = draw(random, 1, 24);
    }
    config->hidden = model->hidden;
    config->channels = model->channels;
    config->kernel = draw(random, 1, 5);
    config->activation = (enum activation_kind)draw(random, 0, 4);
    config->batch_norm = draw(random, 0, 1);
    config->dropout = draw(random, 0, 1) ? 0.3f : 0.0f;
    config->embedding = draw(random, 1, 20);
    data->outputs = draw(random, 2, 40);
    data->loss = draw(random, 0, 3) ? LOSS_CROSS_ENTROPY : LOSS_MSE;
    if (config->kind == MODEL_CNN) {
        data->rank = 3;
        data->sample_shape[0] = draw(random, 1, 4);
        data->sample_shape[1] = draw(random, 8, 30);
        data->sample_shape[2] = draw(random, 8, 30);
    } else {
        data->rank = 1;
        data->sample_shape[0] = draw(random, 1, config->kind == MODEL_MLP ? 800 : 12);
    }
    if (config->kind == MODEL_CHAR_MLP) {
        data->type = TENSOR_INT32;
        data->vocabulary = data->outputs;
        data->loss = LOSS_CROSS_ENTROPY;
    }
}

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct case_model *model = context;

    return model_build(&model->config, &model->data, graph, error);
}

/* ---- observation ----------------------------------------------------------------------------- */

/* Wraps the backend to observe its buffers. */
static size_t buffer_bytes;
static void *buffer_start;
static int buffer_count;

static int watch_buffer_create(struct backend_device *device, size_t bytes,
                               struct backend_buffer **buffer, struct error *error)
{
    int result = backend_cpu()->buffer_create(device, bytes, buffer, error);

    buffer_bytes = bytes;
    buffer_start = result ? NULL : backend_cpu()->buffer_host(*buffer);
    buffer_count++;
    return result;
}

/* The private memory of the process in bytes (smaps_rollup's "Anonymous"); 0 if that means
 * nothing. */
static int64_t anonymous_bytes(void)
{
    FILE *file = observes_process ? fopen("/proc/self/smaps_rollup", "r") : NULL;
    char line[256];
    long kilobytes = -1;

    if (!observes_process)
        return 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Anonymous: %ld", &kilobytes) == 1)
            break;
    fclose(file);
    assert_true(kilobytes >= 0);
    return (int64_t)kilobytes * 1024;
}

/* Checks that every page of the buffer, which begins a page, is resident. */
static void expect_resident(const void *start, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    unsigned char *resident = calloc(pages, 1);

    assert_non_null(resident);
    assert_int_equal(mincore((void *)start, bytes, resident), 0);
    for (size_t i = 0; i < pages; i++)
        assert_true(resident[i] & 1);
    free(resident);
}

static void expect(int result, const struct error *error)
{
    if (result)
        fail_msg("%s", error->text);
}

/* Runs steps with whole and last batches, and evaluations, on the content of the staging area. */
static void run_steps(struct session *session, const struct session_config *config, int steps)
{
    const void *staging = session_staging(session);
    struct error error = {0};

    for (int step = 1; step <= steps; step++) {
        struct step_scalars scalars = {
            .step = step, .batch = step, .learning_rate = 0.001f, .gradient_scale = 1};
        struct session_batch batch = {.samples = staging, .targets = staging};

        for (int i = 0; i < 2; i++) {
            batch.count = config->training_batches[i];
            expect(session_step(session, &batch, PROGRAM_STEP, &scalars, &error), &error);
        }
        batch.count = config->evaluation_batches[0];
        expect(session_evaluate(session, &batch, &error), &error);
    }
}

/* The largest batch of zeros, which serve as samples, labels and targets. */
static size_t staging_for(const struct case_model *model, int64_t batch)
{
    int64_t sample = model->data.outputs, elements = 1;

    for (int i = 0; i < model->data.rank; i++)
        elements *= model->data.sample_shape[i];
    return (size_t)(batch * (elements > sample ? elements : sample)) * sizeof(float);
}

/* Runs a session with the configuration. Returns by how much the process grew beyond the arena and
 * the scratch for tensors, which plans count as well. */
static int64_t check_session(struct session_config config, int threads)
{
    struct backend backend = *backend_cpu();
    struct session *session;
    struct error error = {0};
    int64_t before, excess;
    long before_steps, left;

    config.backend = &backend;
    backend.buffer_create = watch_buffer_create;
    expect(backend.device_open(
               &(struct backend_device_config){.threads = threads, .emulate_precision = true},
               &config.device, &error),
           &error);
    expect(session_prepare(&config, &session, &error), &error);
    assert_int_equal(buffer_count, 0);
    malloc_trim(0);
    before = anonymous_bytes();
    expect(session_allocate(session, &error), &error);
    assert_int_equal(buffer_count, 1);
    assert_int_equal(buffer_bytes, session_memory(session)->arena_bytes);
    expect_resident(buffer_start, buffer_bytes);
    run_steps(session, &config, 1);
    excess = anonymous_bytes() - before - (int64_t)buffer_bytes -
             (int64_t)session_scratch_bytes(session);
    before_steps = allocations;
    left = outstanding;
    run_steps(session, &config, 5);
    assert_int_equal(allocations - before_steps, 0);
    assert_int_equal(outstanding - left, 0);
    session_free(session);
    backend.device_close(config.device);
    buffer_count = 0;
    return excess;
}

/* By how much the process grows when a session is rehearsed. */
static int64_t rehearse_session(struct session_config config, int threads)
{
    const struct backend *backend = backend_cpu();
    struct session *session;
    struct error error = {0};
    int64_t before, growth;

    config.backend = backend;
    expect(backend->device_open(
               &(struct backend_device_config){.threads = threads, .emulate_precision = true},
               &config.device, &error),
           &error);
    expect(session_prepare(&config, &session, &error), &error);
    malloc_trim(0);
    before = anonymous_bytes();
    expect(session_rehearse(session, &error), &error);
    growth = anonymous_bytes() - before;
    session_free(session);
    backend->device_trim(config.device);
    backend->device_close(config.device);
    return growth;
}

static void check_random_model(uint64_t seed, int64_t *largest_excess)
{
    struct random random = {.seed = seed};
    struct case_model model;
    struct session_config config = {.build = build, .build_context = &model};
    int64_t excess;

    draw_model(&random, &model);
    config.optimizer =
        (struct optimizer_config){.kind = (enum optimizer_kind)draw(&random, 0, OPTIMIZER_NADAM),
                                  .momentum = draw(&random, 0, 1) ? 0.9 : 0.0,
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .epsilon = 1e-8,
                                  .alpha = 0.99};
    config.accumulate = draw(&random, 0, 1);
    config.average = draw(&random, 0, 1);
    config.training_batches[0] = draw(&random, 16, 128);
    config.training_batches[1] = draw(&random, 2, 16);
    config.evaluation_batches[0] = draw(&random, 1, 128);
    config.staging_bytes = staging_for(&model, 128);
    config.recompute.kind = (enum recompute_kind)draw(&random, 0, RECOMPUTE_SEGMENTS);
    config.recompute.segments = draw(&random, 1, 5);
    excess = check_session(config, draw(&random, 1, THREADS_MAX));
    *largest_excess = excess > *largest_excess ? excess : *largest_excess;
}

/* The families of models by name, with and without recomputation. They have many steps: the
 * rehearsal tells how much memory it takes to bind them. */
static void test_named_models(void **state)
{
    static const enum model_kind kinds[] = {MODEL_MLP, MODEL_RESNET18, MODEL_MOBILENET_V3_SMALL,
                                            MODEL_EFFICIENTNET_B0, MODEL_RESNET18};
    enum { TILES = 4 }; /* the one in bfloat16 has enough channels for tiles */
    static const struct recompute_config recompute[] = {
        {.kind = RECOMPUTE_NONE}, {.kind = RECOMPUTE_SEGMENTS, .segments = 4}};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (i == TILES && onednn_bfloat16() != ONEDNN_BFLOAT16_FAST) {
            /* then it computes rounded float32, for checks only; libgomp takes memory in such
             * convolutions */
            print_message("no AMX here: no tiles\n");
            continue;
        }
        for (size_t k = 0; k < sizeof recompute / sizeof *recompute; k++) {
            struct case_model model = {
                .config = {.kind = kinds[i],
                           .hidden_count = 3,
                           .activation = ACTIVATION_SILU,
                           .batch_norm = true,
                           .dropout = 0.2f,
                           .width = i == TILES ? 0.5 : 0.125,
                           .stem_stride = 1},
                .data = {.rank = 3, .sample_shape = {3, 32, 32}, .outputs = 10},
                .hidden = {256, 128, 64}};
            struct session_config config = {.build = build,
                                            .build_context = &model,
                                            .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
                                            .recompute = recompute[k],
                                            .compute_type =
                                                i == TILES ? TENSOR_BFLOAT16 : TENSOR_FLOAT32,
                                            .training_batches = {24, 10},
                                            .evaluation_batches = {24}};
            int64_t rehearsed, excess;

            model.config.hidden = model.hidden;
            config.staging_bytes = staging_for(&model, 24);
            rehearsed = rehearse_session(config, THREADS_MAX);
            excess = check_session(config, THREADS_MAX);
            if (observes_process)
                print_message("%s, recompute %s: %lld KiB beyond the arena, rehearsed %lld\n",
                              model_kind_to_string(kinds[i]),
                              recompute_kind_to_string(recompute[k].kind), (long long)excess / 1024,
                              (long long)rehearsed / 1024);
            assert_true(excess - rehearsed <= 2 << 20);
        }
    }
}

static void test_planned_is_observed(void **state)
{
    int64_t largest_excess = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++)
        check_random_model(seed, &largest_excess);
    if (observes_process)
        print_message("the process grew by at most %lld KiB beyond the arena\n",
                      (long long)largest_excess / 1024);
    assert_true(largest_excess <= 2 << 20);
}

/* Makes batches with every augmentation, after the first one: in the caller and in threads. */
static void test_loader_allocates_nothing(void **state)
{
    enum { COUNT = 300, CHANNELS = 3, SIDE = 16 };
    static uint8_t images[COUNT * CHANNELS * SIDE * SIDE];
    static int32_t labels[COUNT];
    static float mean[CHANNELS] = {100, 90, 80}, factor[CHANNELS] = {0.1f, 0.2f, 0.3f};
    const uint8_t *samples[] = {images};
    int64_t first[] = {0, COUNT};
    struct dataset dataset = {.rank = 3,
                              .shape = {CHANNELS, SIDE, SIDE},
                              .sample_elements = CHANNELS * SIDE * SIDE,
                              .count = COUNT,
                              .classes = 10,
                              .target_width = 1,
                              .samples = samples,
                              .block_first = first,
                              .block_count = 1,
                              .sample_stride = CHANNELS * SIDE * SIDE,
                              .labels = labels};
    struct dataset_normalisation normalisation = {
        .kind = DATASET_NORMALISE_STANDARD, .groups = CHANNELS, .mean = mean, .factor = factor};
    struct augmentation augmentation = {.label_noise = 0.1,
                                        .crop_padding = 2,
                                        .horizontal_flip = true,
                                        .cutout_side = 4,
                                        .mixup_alpha = 0.2,
                                        .label_smoothing = 0.1};

    (void)state;
    for (int threads = 0; threads <= 2; threads += 2) {
        struct loader_config config = {.view = dataset_view_all(&dataset),
                                       .normalisation = &normalisation,
                                       .batch = 32,
                                       .shuffle = true,
                                       .threads = threads,
                                       .augmentation = &augmentation};
        void *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(&config));
        struct loader *loader;
        struct loader_batch batch;
        struct error error = {0};
        long before = 0;

        expect(loader_create(&config, memory, &loader, &error), &error);
        for (uint32_t epoch = 0; epoch < 4; epoch++) {
            expect(loader_begin_epoch(loader, epoch, 0, &error), &error);
            do {
                expect(loader_next(loader, &batch, &error), &error);
                before = epoch == 0 ? allocations : before;
                loader_release(loader);
            } while (batch.count);
        }
        assert_int_equal(allocations, before);
        loader_free(loader);
        free(memory);
    }
}

/* Nothing in the process calls an allocator after the first step. The model is a multilayer
 * perceptron, or two convolutions with these channels. */
static void check_no_allocation(int64_t first, int64_t second, enum tensor_type compute_type,
                                int threads)
{
    enum model_kind kind = second ? MODEL_CNN : MODEL_MLP;
    struct case_model model = {.config = {.kind = kind,
                                          .hidden_count = 1,
                                          .channel_count = 2,
                                          .kernel = 3,
                                          .activation = ACTIVATION_RELU},
                               .data = {.rank = kind == MODEL_CNN ? 3 : 1, .outputs = 10},
                               .hidden = {256},
                               .channels = {first, second}};
    struct session_config config = {.backend = backend_cpu(),
                                    .build = build,
                                    .build_context = &model,
                                    .optimizer = {.kind = OPTIMIZER_SGD},
                                    .compute_type = compute_type,
                                    .training_batches = {128, 96},
                                    .evaluation_batches = {128}};
    struct backend_device_config device = {.threads = threads, .emulate_precision = true};
    struct session *session;
    struct error error = {0};
    long before;

    model.config.hidden = model.hidden;
    model.config.channels = model.channels;
    model.data.loss = LOSS_CROSS_ENTROPY;
    model.data.sample_shape[0] = kind == MODEL_CNN ? 1 : 784;
    model.data.sample_shape[1] = model.data.sample_shape[2] = 28;
    config.staging_bytes = staging_for(&model, 128);
    expect(config.backend->device_open(&device, &config.device, &error), &error);
    expect(session_prepare(&config, &session, &error), &error);
    expect(session_allocate(session, &error), &error);
    run_steps(session, &config, 1);
    before = allocations;
    run_steps(session, &config, 20);
    assert_int_equal(allocations - before, 0);
    session_free(session);
    config.backend->device_close(config.device);
}

static void test_no_allocation(void **state)
{
    /* 5 and 33 do not fill vectors, so oneDNN has only its general matrix product */
    static const int64_t channels[][2] = {{0, 0}, {32, 64}, {5, 33}};
    static const enum tensor_type types[] = {TENSOR_FLOAT32, TENSOR_BFLOAT16};

    (void)state;
    if (!observes_process) {
        print_message("not counted in a sanitizer's build\n");
        skip();
    }
    for (int threads = 1; threads <= THREADS_MAX; threads++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 2; k++)
                check_no_allocation(channels[i][0], channels[i][1], types[k], threads);
}

/* The same in a process whose oneDNN does not use AVX-512: every product is the general one. */
static void test_no_allocation_avx2(void **state)
{
    pid_t child;
    int status;

    (void)state;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        execl("/proc/self/exe", "test_session_memory", "test_no_allocation", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader_allocates_nothing),
        cmocka_unit_test(test_planned_is_observed),
        cmocka_unit_test(test_named_models),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_no_allocation_avx2),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
