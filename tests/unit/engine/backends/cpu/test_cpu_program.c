/* test_cpu_program.c: promises of the CPU backend's programs: the same bits with any number of
 * threads, gradients that accumulate, clipping, programs that share their weights, metrics, and no
 * allocation in a step. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- counting what this program allocates ---------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTS_ALLOCATIONS = 0 };
static _Atomic int counting, own_allocations;
#else
enum { COUNTS_ALLOCATIONS = 1 };
static _Atomic int counting, own_allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);

/* oneDNN allocates its argument lists, so only calls from this program's own code count. */
static void count_call(const void *caller)
{
    Dl_info own, from;

    if (counting && dladdr(&counting, &own) && dladdr(caller, &from) &&
        own.dli_fbase == from.dli_fbase)
        own_allocations++;
}

void *malloc(size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(pointer, size);
}
#endif

/* ---- models ---------------------------------------------------------------------------------- */

enum { BATCH = 22, CLASSES = 10 };
static enum tensor_type compute_type; /* of the graphs that are built */

static void finish(struct graph *graph, enum optimizer_kind kind)
{
    const struct optimizer_config config = {.kind = kind,
                                            .momentum = 0.9,
                                            .weight_decay = 1e-3,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .epsilon = 1e-8,
                                            .alpha = 0.99};
    struct error error = {0};

    if (graph->training && graph_differentiate(graph, &error))
        fail_msg("%s", error.text);
    if (graph_lower_precision(graph, compute_type, &error))
        fail_msg("%s", error.text);
    if (graph->training && graph_add_optimizer(graph, &config, &error))
        fail_msg("%s", error.text);
    if (graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static void build_mlp(struct graph *graph, int64_t batch, bool training)
{
    int32_t x;

    graph_init(graph, batch, training);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){20}, 1);
    x = graph_linear(graph, x, "0", 129, true);
    x = graph_batch_norm(graph, x, "1", 1e-5f, 0.1f);
    x = graph_activation(graph, x, "2", ACTIVATION_GELU);
    x = graph_dropout(graph, x, "3", 0.25f);
    x = graph_linear(graph, x, "4", 64, true);
    x = graph_activation(graph, x, "5", ACTIVATION_TANH);
    graph_cross_entropy(graph, graph_linear(graph, x, "6", CLASSES, true));
    finish(graph, OPTIMIZER_ADAMW);
}

static const struct conv_attributes three = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
static const struct conv_attributes half = {
    .stride = {2, 2}, .dilation = {1, 1}, .kernel = {2, 2}, .groups = 1};

static void build_cnn(struct graph *graph, int64_t batch, bool training)
{
    int32_t x, skip;

    graph_init(graph, batch, training);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 12, 12}, 3);
    x = graph_conv2d(graph, x, "0", 16, &three, false);
    x = graph_batch_norm(graph, x, "1", 1e-5f, 0.1f);
    skip = x = graph_activation(graph, x, "2", ACTIVATION_RELU);
    x = graph_conv2d(graph, x, "3", 16, &three, true);
    x = graph_activation(graph, x, "4", ACTIVATION_RELU);
    x = graph_add(graph, x, skip, "5");
    x = graph_max_pool2d(graph, x, "6", &half);
    x = graph_dropout(graph, x, "7", 0.1f);
    x = graph_conv2d(graph, x, "8", 20, &three, true);
    x = graph_activation(graph, x, "9", ACTIVATION_SILU);
    x = graph_average_pool2d(graph, x, "10", &half);
    x = graph_flatten(graph, x, "11");
    graph_cross_entropy(graph, graph_linear(graph, x, "12", CLASSES, true));
    finish(graph, OPTIMIZER_SGD);
}

static void build_text(struct graph *graph, int64_t batch, bool training)
{
    int32_t x;

    graph_init(graph, batch, training);
    x = graph_input(graph, TENSOR_INT32, (int64_t[]){6}, 1);
    x = graph_embedding(graph, x, "0", 50, 12);
    x = graph_flatten(graph, x, "1");
    x = graph_linear(graph, x, "2", 70, true);
    x = graph_activation(graph, x, "3", ACTIVATION_SIGMOID);
    graph_cross_entropy(graph, graph_linear(graph, x, "4", CLASSES, false));
    finish(graph, OPTIMIZER_LION);
}

typedef void build_function(struct graph *graph, int64_t batch, bool training);

static uint32_t random_state;

static float draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) * 0x1p-24f - 0.5f;
}

/* Samples and labels of one batch, aligned. */
struct batch {
    float *samples;
    int32_t *labels;
};

static struct batch make_batch(const struct graph *graph, uint32_t seed)
{
    const struct graph_tensor *x = &graph->tensors[graph->input];
    size_t count = (size_t)graph_shape_elements(&x->shape);
    struct batch batch = {aligned_alloc(64, (count * 4 + 63) / 64 * 64),
                          aligned_alloc(64, ((size_t)graph->batch * 4 + 63) / 64 * 64)};

    random_state = seed;
    for (size_t i = 0; i < count; i++)
        if (x->type == TENSOR_INT32)
            ((int32_t *)(void *)batch.samples)[i] = (int32_t)((draw() + 0.5f) * 50);
        else
            batch.samples[i] = draw();
    for (int64_t i = 0; i < graph->batch; i++)
        batch.labels[i] = (int32_t)((draw() + 0.5f) * CLASSES);
    return batch;
}

static void release_batch(struct batch *batch)
{
    free(batch->samples);
    free(batch->labels);
}

static void set_batch(struct test_session *session, const struct batch *batch)
{
    test_session_input(session, session->graph->input, batch->samples);
    test_session_input(session, session->graph->target, batch->labels);
}

static void run_steps(struct test_session *session, int first, int last)
{
    for (int step = first; step <= last; step++) {
        struct step_scalars scalars = {.step = step,
                                       .batch = step,
                                       .seed = 7,
                                       .learning_rate = 0.01f,
                                       .gradient_scale = 1,
                                       .clip_norm = step % 2 ? 1 : 0};
        struct batch batch = make_batch(session->graph, (uint32_t)step);

        set_batch(session, &batch);
        test_session_run(session, PROGRAM_STEP, &scalars);
        release_batch(&batch);
    }
}

static float *read_tensor(struct test_session *session, int32_t tensor)
{
    const struct graph_shape *shape = &session->graph->tensors[tensor].shape;
    float *values = calloc((size_t)graph_shape_elements(shape), sizeof(float));

    test_session_read(session, tensor, values);
    return values;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void expect_equal_sessions(struct test_session *a, struct test_session *b)
{
    struct step_metrics x, y;

    for (int32_t i = 0; i < a->graph->tensor_count; i++) {
        float *own, *other;

        if (!graph_tensor_is_persistent(a->graph, i))
            continue;
        own = read_tensor(a, i);
        other = read_tensor(b, i);
        assert_memory_equal(own, other,
                            (size_t)graph_shape_elements(&a->graph->tensors[i].shape) * 4);
        free(own);
        free(other);
    }
    a->backend->program_read_metrics(a->program, &x);
    b->backend->program_read_metrics(b->program, &y);
    assert_memory_equal(&x.loss_sum, &y.loss_sum, sizeof x.loss_sum);
    assert_int_equal(x.correct, y.correct);
    assert_true(isfinite(x.loss_sum));
}

static void check_thread_counts(build_function *build, int tasks)
{
    static const int threads[] = {2, 3, 5};
    struct test_session_options options = {.threads = 1,
                                           .tasks = tasks,
                                           .emulate_precision = true,
                                           .native_bfloat16 =
                                               onednn_bfloat16() != ONEDNN_BFLOAT16_NONE};
    struct test_session reference, session;
    struct graph graph;

    build(&graph, BATCH, true);
    test_session_open(&reference, &graph, &options);
    test_session_initialize(&reference, 3);
    run_steps(&reference, 1, 20);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        options.threads = threads[i];
        test_session_open(&session, &graph, &options);
        test_session_initialize(&session, 3);
        run_steps(&session, 1, 20);
        expect_equal_sessions(&reference, &session);
        test_session_close(&session);
    }
    test_session_close(&reference);
    graph_release(&graph);
}

/* 1, 2, 3 and 5 threads give the same bits after 20 steps, however the work is divided. */
static void test_thread_counts(void **state)
{
    (void)state;
    for (; compute_type <= TENSOR_FLOAT16; compute_type++)
        for (int tasks = 0; tasks <= 8; tasks += 4) {
            check_thread_counts(build_mlp, tasks);
            check_thread_counts(build_cnn, tasks);
            check_thread_counts(build_text, tasks);
        }
    compute_type = TENSOR_FLOAT32;
}

/* Two runs that accumulate give twice the gradient of one. The next run that does not accumulate
 * starts anew. */
static void test_accumulation(void **state)
{
    static const struct test_session_options options = {.threads = 2, .tasks = 3};
    build_function *const builds[] = {build_cnn, build_text};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
        struct test_session session;
        struct batch batch;
        struct graph graph;

        builds[k](&graph, BATCH, true);
        graph.accumulate = true;
        batch = make_batch(&graph, 5);
        test_session_open(&session, &graph, &options);
        test_session_initialize(&session, 3);
        set_batch(&session, &batch);
        for (int32_t i = 0; i < graph.tensor_count; i++) {
            float *once, *twice;
            double difference = 0, norm = 0;

            if (graph.tensors[i].role != TENSOR_GRADIENT)
                continue;
            scalars.accumulate = false;
            test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
            once = read_tensor(&session, i);
            scalars.accumulate = true;
            test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
            twice = read_tensor(&session, i);
            for (int64_t e = 0; e < graph_shape_elements(&graph.tensors[i].shape); e++) {
                difference = fmax(difference, fabs(2.0 * once[e] - twice[e]));
                norm = fmax(norm, fabs(twice[e]));
            }
            assert_true(norm > 0 && difference <= 1e-5 * norm);
            free(once);
            free(twice);
        }
        test_session_close(&session);
        release_batch(&batch);
        graph_release(&graph);
    }
}

/* With SGD at a rate of 1 and no decay, the update is the clipped gradient, whose norm is
 * clip_norm. */
static void test_clipping(void **state)
{
    static const struct test_session_options options = {.threads = 2, .tasks = 3};
    const struct optimizer_config config = {.kind = OPTIMIZER_SGD};
    struct step_scalars scalars = {
        .step = 1, .batch = 1, .learning_rate = 1, .gradient_scale = 1, .clip_norm = 0.01f};
    struct test_session session;
    struct error error = {0};
    struct batch batch;
    struct graph graph;
    double squares = 0;

    (void)state;
    graph_init(&graph, 16, true);
    graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){40}, 1);
    graph_cross_entropy(&graph, graph_linear(&graph, graph.input, "0", CLASSES, true));
    assert_int_equal(graph_differentiate(&graph, &error), 0);
    assert_int_equal(graph_add_optimizer(&graph, &config, &error), 0);
    batch = make_batch(&graph, 5);
    test_session_open(&session, &graph, &options);
    set_batch(&session, &batch);
    test_session_run(&session, PROGRAM_STEP, &scalars); /* the weights were zero */
    for (int32_t i = 0; i < graph.tensor_count; i++)
        if (graph.tensors[i].role == TENSOR_PARAMETER) {
            float *values = read_tensor(&session, i);
            for (int64_t e = 0; e < graph_shape_elements(&graph.tensors[i].shape); e++)
                squares += (double)values[e] * values[e];
            free(values);
        }
    assert_true(fabs(sqrt(squares) - 0.01) < 1e-6);
    test_session_close(&session);
    release_batch(&batch);
    graph_release(&graph);
}

/* A shorter last batch is a program of its own over the same weights. A step of it gives the same
 * as a session with only that batch size. */
static void check_shared(build_function *build)
{
    const struct test_session_options options = {.threads = 2,
                                                 .tasks = 4,
                                                 .emulate_precision = true,
                                                 .native_bfloat16 =
                                                     onednn_bfloat16() != ONEDNN_BFLOAT16_NONE};
    enum { TAIL = 5 };
    const struct backend *backend = backend_cpu();
    struct backend_device_config config = {.threads = 2, .emulate_precision = true};
    struct backend_device *device;
    struct backend_program *programs[2];
    struct backend_buffer *buffer;
    struct memory_request requests[2];
    struct memory_plan plan;
    struct test_session alone;
    struct graph graphs[2];
    struct error error = {0};

    build(&graphs[0], BATCH, true);
    build(&graphs[1], TAIL, true);
    assert_int_equal(backend->device_open(&config, &device, &error), 0);
    device->tasks = options.tasks;
    if (options.native_bfloat16)
        device->native_types |= 1u << TENSOR_BFLOAT16;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(backend->program_prepare(device, &graphs[i], i ? programs[0] : NULL,
                                                  &programs[i], &error),
                         0);
        backend->program_memory(programs[i], &requests[i]);
    }
    if (memory_plan_make(requests, 2, 0, &plan, &error))
        fail_msg("%s", error.text);
    assert_int_equal(backend->buffer_create(device, plan.arena_bytes, &buffer, &error), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(backend->program_bind(programs[i], &plan.placements[i], buffer, &error),
                         0);
    test_session_open(&alone, &graphs[1], &options);
    test_session_initialize(&alone, 3);
    /* written through the first program, trained and read through the second */
    struct test_session first = {.backend = backend, .program = programs[0], .graph = &graphs[0]};
    struct test_session tail = {.backend = backend, .program = programs[1], .graph = &graphs[1]};
    test_session_initialize(&first, 3);
    run_steps(&tail, 1, 3);
    run_steps(&alone, 1, 3);
    expect_equal_sessions(&alone, &tail);
    test_session_close(&alone);
    for (int i = 1; i >= 0; i--)
        backend->program_free(programs[i]);
    backend->buffer_free(buffer);
    backend->device_close(device);
    memory_plan_release(&plan);
    graph_release(&graphs[0]);
    graph_release(&graphs[1]);
}

static void test_shared_programs(void **state)
{
    (void)state;
    for (; compute_type <= TENSOR_FLOAT16; compute_type++) {
        check_shared(build_mlp);
        check_shared(build_cnn);
        check_shared(build_text);
    }
    compute_type = TENSOR_FLOAT32;
}

/* A label outside the classes makes the loss NaN, and the first such step is kept. */
static void test_nonfinite_loss(void **state)
{
    static const struct test_session_options options = {.threads = 1};
    struct step_scalars scalars = {.step = 41, .batch = 1, .gradient_scale = 1};
    struct step_metrics metrics;
    struct test_session session;
    struct batch batch;
    struct graph graph;

    (void)state;
    build_mlp(&graph, BATCH, true);
    batch = make_batch(&graph, 5);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 3);
    set_batch(&session, &batch);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_int_equal(metrics.nonfinite_step, 0);
    assert_int_equal(metrics.samples, BATCH);
    batch.labels[3] = CLASSES;
    for (scalars.step = 42; scalars.step < 44; scalars.step++)
        test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_int_equal(metrics.nonfinite_step, 42);
    session.backend->program_reset_metrics(session.program);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_int_equal(metrics.samples, 0);
    test_session_close(&session);
    release_batch(&batch);
    graph_release(&graph);
}

/* A step allocates nothing in this program's code, and oneDNN frees all that it allocates. */
static void test_no_allocation(void **state)
{
    const struct test_session_options options = {.threads = 1,
                                                 .tasks = 2,
                                                 .emulate_precision = true,
                                                 .native_bfloat16 =
                                                     onednn_bfloat16() != ONEDNN_BFLOAT16_NONE};
    build_function *const builds[] = {build_mlp, build_cnn, build_text};

    (void)state;
    if (!COUNTS_ALLOCATIONS) {
        print_message("allocations are not counted under a sanitizer\n");
        skip();
    }
    for (int k = 0; k < 6; k++) {
        struct step_scalars scalars = {.step = 2, .batch = 2, .gradient_scale = 1};
        struct test_session session;
        struct batch batch;
        struct graph graph;
        size_t before;

        compute_type = k < 3 ? TENSOR_FLOAT32 : TENSOR_BFLOAT16;
        builds[k % 3](&graph, BATCH, true);
        batch = make_batch(&graph, 5);
        test_session_open(&session, &graph, &options);
        test_session_initialize(&session, 3);
        run_steps(&session, 1, 1);
        /* One step before, at the place in the heap where oneDNN's aligned blocks will be. The
         * memory that the heap cuts off in front of them the first time counts as used for ever. */
        set_batch(&session, &batch);
        test_session_run(&session, PROGRAM_STEP, &scalars);
        before = mallinfo2().uordblks;
        own_allocations = 0;
        counting = 1;
        for (int i = 0; i < 50; i++) {
            set_batch(&session, &batch);
            test_session_run(&session, PROGRAM_STEP, &scalars);
        }
        counting = 0;
        assert_int_equal(own_allocations, 0);
        assert_int_equal(mallinfo2().uordblks, before);
        test_session_close(&session);
        release_batch(&batch);
        graph_release(&graph);
    }
    compute_type = TENSOR_FLOAT32;
}

/* ---- sharing ---- */

enum { PARTS = 3 };

struct shared {
    atomic_int begun; /* the parts wait for each other, so each has a thread of its own */
    int seen[PARTS];
};

static void note_part(void *context, int part, int parts)
{
    struct shared *shared = context;

    assert_int_equal(parts, PARTS);
    shared->seen[part]++;
    atomic_fetch_add(&shared->begun, 1);
    while (atomic_load(&shared->begun) < PARTS)
        ;
}

static void test_shared_work(void **state)
{
    const struct backend *backend = backend_cpu();
    struct backend_device *device;
    struct shared shared = {0};
    struct error error;

    (void)state;
    assert_int_equal(
        backend->device_open(&(struct backend_device_config){.threads = PARTS}, &device, &error),
        0);
    backend->device_share(device, note_part, &shared);
    for (int part = 0; part < PARTS; part++)
        assert_int_equal(shared.seen[part], 1);
    backend->device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_counts),  cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_clipping),       cmocka_unit_test(test_shared_programs),
        cmocka_unit_test(test_nonfinite_loss), cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_shared_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
