/* test_recompute.c: activations that are recomputed instead of kept: which nodes come again and
 * where, that training gives the same bits, and that the plan needs less memory. */
#include "engine/graph/forward.h"
#include "engine/models/models.h"
#include "engine/train/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(int result, const struct error *error)
{
    if (result)
        fail_msg("%s", error->text);
}

/* ---- structure ------------------------------------------------------------------------------- */

/* Lists "linear activation …": the recomputed operators and, in brackets, the backward ones. */
static const char *list_backward(const struct graph *graph)
{
    static char text[2048];
    size_t length = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->phase == GRAPH_BACKWARD)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s%s%s",
                                       length ? " " : "", node->recomputed ? "" : "(",
                                       graph_op_to_string(node->op), node->recomputed ? "" : ")");
    }
    return text;
}

/* linear, batch norm, activation, dropout, twice; linear */
static void build_chain(struct graph *graph, enum activation_kind activation)
{
    int32_t x;

    graph_init(graph, 8, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);
    for (int i = 0; i < 2; i++) {
        char name[4][8];

        for (int k = 0; k < 4; k++)
            snprintf(name[k], sizeof name[k], "%d", 4 * i + k);
        x = graph_linear(graph, x, name[0], 16, true);
        x = graph_batch_norm(graph, x, name[1], 1e-5f, 0.1f);
        x = graph_activation(graph, x, name[2], activation);
        x = graph_dropout(graph, x, name[3], 0.5f);
    }
    graph_cross_entropy(graph, graph_linear(graph, x, "8", 4, true));
}

static void recompute(struct graph *graph, enum recompute_kind kind, int segments)
{
    const struct recompute_config config = {.kind = kind, .segments = segments};
    struct error error = {0};

    expect(graph_differentiate(graph, &error), &error);
    expect(graph_recompute(graph, &config, &error), &error);
    expect(graph_finish(graph, &error), &error);
}

static void test_selective(void **state)
{
    struct graph graph;

    (void)state;
    build_chain(&graph, ACTIVATION_SILU);
    recompute(&graph, RECOMPUTE_SELECTIVE, 0);
    assert_string_equal(
        list_backward(&graph),
        "(cross_entropy_backward) batch_norm_apply activation dropout (linear_backward_weights) "
        "(linear_backward_data) (dropout_backward) (activation_backward) (batch_norm_backward) "
        "batch_norm_apply activation dropout (linear_backward_weights) (linear_backward_data) "
        "(dropout_backward) (activation_backward) (batch_norm_backward) (linear_backward_weights)");
    graph_release(&graph);
}

/* Without batch norm, the backward part does not read the linear layer's result. To recompute the
 * ReLU, that result would have to be kept instead, which saves nothing. */
static void test_selective_saves_nothing(void **state)
{
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 8, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);
    x = graph_activation(&graph, graph_linear(&graph, x, "0", 16, true), "1", ACTIVATION_RELU);
    graph_mse(&graph, graph_linear(&graph, x, "2", 4, true));
    recompute(&graph, RECOMPUTE_SELECTIVE, 0);
    assert_null(strstr(list_backward(&graph), " activation "));
    graph_release(&graph);
}

static void test_segments(void **state)
{
    struct graph graph;

    (void)state;
    build_chain(&graph, ACTIVATION_SILU);
    recompute(&graph, RECOMPUTE_SEGMENTS, 2);
    /* the second half is kept, and so is its input, the first dropout's result */
    assert_string_equal(
        list_backward(&graph),
        "(cross_entropy_backward) (linear_backward_weights) (linear_backward_data) "
        "(dropout_backward) (activation_backward) (batch_norm_backward) (linear_backward_weights) "
        "(linear_backward_data) (dropout_backward) linear batch_norm_apply (activation_backward) "
        "(batch_norm_backward) (linear_backward_weights)");
    graph_release(&graph);
    build_chain(&graph, ACTIVATION_SILU);
    recompute(&graph, RECOMPUTE_SEGMENTS, 1);
    for (int32_t i = 0; i < graph.node_count; i++)
        assert_false(graph.nodes[i].recomputed);
    graph_release(&graph);
}

static void test_refusals(void **state)
{
    const struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    const struct recompute_config selective = {.kind = RECOMPUTE_SELECTIVE},
                                  nonsense = {.kind = RECOMPUTE_SEGMENTS};
    struct error error = {0};
    struct graph graph;

    (void)state;
    build_chain(&graph, ACTIVATION_RELU);
    assert_int_equal(graph_recompute(&graph, &selective, &error), -EINVAL);
    graph_release(&graph);
    build_chain(&graph, ACTIVATION_RELU);
    expect(graph_differentiate(&graph, &error), &error);
    assert_int_equal(graph_recompute(&graph, &nonsense, &error), -EINVAL);
    graph_release(&graph);
    build_chain(&graph, ACTIVATION_RELU);
    expect(graph_differentiate(&graph, &error), &error);
    expect(graph_add_optimizer(&graph, &sgd, &error), &error);
    assert_int_equal(graph_recompute(&graph, &selective, &error), -EINVAL);
    graph_release(&graph);
}

/* ---- training -------------------------------------------------------------------------------- */

enum { BATCH = 12, TAIL = 5, STEPS = 3, IMAGE = 12, CLASSES = 5, VOCABULARY = 11, CONTEXT = 6 };

static const int64_t hidden[] = {48, 40, 32, 24}, channels[] = {8, 16, 24};
static const struct model_layer own_layers[] = {
    {.kind = LAYER_CONV2D, .channels = 16, .window = {{1, 1}, {1, 1}, {1, 1}, {3, 3}, 1}},
    {.kind = LAYER_BATCH_NORM, .epsilon = 1e-5f, .momentum = 0.1f},
    {.kind = LAYER_GELU},
    {.kind = LAYER_AVERAGE_POOL2D, .window = {{2, 2}, {0, 0}, {1, 1}, {2, 2}, 1}},
    {.kind = LAYER_CONV2D, .channels = 16, .window = {{1, 1}, {1, 1}, {1, 1}, {3, 3}, 1}},
    {.kind = LAYER_BATCH_NORM, .epsilon = 1e-5f, .momentum = 0.1f},
    {.kind = LAYER_TANH},
    {.kind = LAYER_DROPOUT, .probability = 0.2f},
    {.kind = LAYER_GLOBAL_AVERAGE_POOL2D},
    {.kind = LAYER_FLATTEN},
    {.kind = LAYER_LINEAR, .features = CLASSES, .bias = true},
};

static const struct case_model {
    const char *name;
    struct model_config config;
    bool images, text, steps;
} models[] = {
    {.name = "mlp", .config = {.kind = MODEL_MLP, .hidden = hidden, .hidden_count = 4}},
    {.name = "mlp, batch norm, silu, dropout",
     .config = {.kind = MODEL_MLP,
                .hidden = hidden,
                .hidden_count = 4,
                .activation = ACTIVATION_SILU,
                .batch_norm = true,
                .dropout = 0.3f}},
    {.name = "cnn, batch norm, dropout",
     .config = {.kind = MODEL_CNN,
                .hidden = hidden,
                .hidden_count = 2,
                .channels = channels,
                .channel_count = 3,
                .kernel = 3,
                .batch_norm = true,
                .dropout = 0.3f},
     .images = true},
    {.name = "char_mlp",
     .config = {.kind = MODEL_CHAR_MLP,
                .hidden = hidden,
                .hidden_count = 2,
                .activation = ACTIVATION_TANH,
                .embedding = 8},
     .text = true},
    {.name = "layers",
     .config = {.kind = MODEL_LAYERS,
                .layers = {own_layers, sizeof own_layers / sizeof *own_layers}},
     .images = true},
    {.name = "mobilenet_v3_small",
     .config = {.kind = MODEL_MOBILENET_V3_SMALL, .width = 0.25, .stem_stride = 1, .dropout = 0.2f},
     .images = true},
    {.name = "efficientnet_b0",
     .config = {.kind = MODEL_EFFICIENTNET_B0,
                .width = 0.25,
                .stem_stride = 1,
                .dropout = 0.2f,
                .stochastic_depth = 0.2f},
     .images = true},
    {.name = "resnet18", .config = {.kind = MODEL_RESNET18, .width = 0.125}, .images = true},
    {.name = "gpt",
     .config = {.kind = MODEL_GPT,
                .embedding = 24,
                .depth = 4,
                .heads = 3,
                .mlp_ratio = 4,
                .dropout = 0.2f},
     .text = true},
    {.name = "gpt, rotary",
     .config = {.kind = MODEL_GPT,
                .embedding = 24,
                .depth = 3,
                .heads = 2,
                .mlp_ratio = 2,
                .positions = POSITIONS_ROTARY},
     .text = true},
    {.name = "vit",
     .config = {.kind = MODEL_VIT,
                .embedding = 24,
                .depth = 4,
                .heads = 3,
                .mlp_ratio = 4,
                .patch = 4,
                .dropout = 0.2f},
     .images = true},
    {.name = "lstm",
     .config = {.kind = MODEL_LSTM,
                .hidden_size = 24,
                .num_layers = 2,
                .bidirectional = true,
                .dropout = 0.2f},
     .steps = true},
    {.name = "gru",
     .config = {.kind = MODEL_GRU, .hidden_size = 24, .num_layers = 3, .dropout = 0.2f},
     .steps = true},
};
enum { MODELS = sizeof models / sizeof *models };

static const struct recompute_config configs[] = {
    {.kind = RECOMPUTE_SELECTIVE},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 2},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 3},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 7},
    {.kind = RECOMPUTE_SEGMENTS, .segments = 1000},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct case_model *model = context;
    struct model_data data = {.type = model->text ? TENSOR_INT32 : TENSOR_FLOAT32,
                              .rank = model->images  ? 3
                                      : model->steps ? 2
                                                     : 1,
                              .sample_shape = {model->text     ? CONTEXT
                                               : model->images ? 3
                                               : model->steps  ? 3 * IMAGE
                                                               : 3 * IMAGE * IMAGE,
                                               IMAGE, IMAGE},
                              .vocabulary = model->text ? VOCABULARY : 0,
                              .outputs = model->text ? VOCABULARY : CLASSES};

    return model_build(&model->config, &data, graph, error);
}

/* The state after a few steps. */
struct outcome {
    float *values; /* owned: the values of all persistent tensors, one after the other */
    size_t bytes;
    struct step_metrics metrics;
    size_t arena_bytes, activation_bytes;
    int recomputed; /* nodes of the graph */
};

static void train(struct session *session, bool accumulate)
{
    static _Alignas(MEMORY_ALIGNMENT) float samples[BATCH * 3 * IMAGE * IMAGE];
    static _Alignas(MEMORY_ALIGNMENT) int32_t labels[BATCH * CONTEXT], text[BATCH * CONTEXT];
    const struct graph *graph = session_graph(session);
    bool is_text = graph->tensors[graph->input].type == TENSOR_INT32;
    struct error error = {0};

    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        samples[i] = sinf((float)i * 0.7f);
    for (int i = 0; i < BATCH * CONTEXT; i++)
        text[i] = i * 7 % VOCABULARY;
    for (int i = 0; i < BATCH * CONTEXT; i++)
        labels[i] = i % CLASSES;
    for (int i = 0; i < 2 * STEPS; i++) {
        bool first = i % 2 == 0;
        struct step_scalars scalars = {.step = i / 2 + 1,
                                       .batch = i + 1,
                                       .seed = 9,
                                       .learning_rate = 0.05f,
                                       .gradient_scale = accumulate ? 0.5f : 1,
                                       .accumulate = accumulate && !first,
                                       .clip_norm = 1};
        struct session_batch batch = {.count = first ? BATCH : TAIL,
                                      .samples = is_text ? (const void *)text : samples,
                                      .targets = labels};
        unsigned phases = accumulate && first ? PROGRAM_FORWARD | PROGRAM_BACKWARD : PROGRAM_STEP;

        expect(session_step(session, &batch, phases, &scalars, &error), &error);
    }
}

static struct outcome run(const struct case_model *model, const struct recompute_config *recompute,
                          int threads, bool accumulate)
{
    const struct backend *backend = backend_cpu();
    struct session_config config = {.backend = backend,
                                    .build = build,
                                    .build_context = (void *)model,
                                    .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
                                    .accumulate = accumulate,
                                    .recompute = *recompute,
                                    .training_batches = {BATCH, TAIL},
                                    .seed = 4};
    struct outcome outcome = {0};
    struct session_tensor tensor;
    struct session *session;
    struct error error = {0};

    expect(backend->device_open(&(struct backend_device_config){.threads = threads}, &config.device,
                                &error),
           &error);
    expect(session_prepare(&config, &session, &error), &error);
    expect(session_allocate(session, &error), &error);
    outcome.arena_bytes = session_memory(session)->arena_bytes;
    outcome.activation_bytes = session_memory(session)->class_bytes[MEMORY_ACTIVATIONS];
    for (int32_t i = 0; i < session_graph(session)->node_count; i++)
        outcome.recomputed += session_graph(session)->nodes[i].recomputed;
    train(session, accumulate);
    session_read_metrics(session, true, &outcome.metrics);
    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        outcome.values = realloc(outcome.values, outcome.bytes + tensor.bytes);
        assert_non_null(outcome.values);
        expect(session_read(session, i, outcome.values + outcome.bytes / sizeof(float), &error),
               &error);
        outcome.bytes += tensor.bytes;
    }
    session_free(session);
    backend->device_close(config.device);
    return outcome;
}

static void expect_same(const struct case_model *model, const struct recompute_config *config,
                        const struct outcome *kept, const struct outcome *again)
{
    const char *kind = recompute_kind_to_string(config->kind);

    assert_int_equal(kept->bytes, again->bytes);
    if (memcmp(kept->values, again->values, kept->bytes) != 0)
        fail_msg("%s: recomputation (%s %d) changes the weights", model->name, kind,
                 config->segments);
    if (memcmp(&kept->metrics, &again->metrics, sizeof kept->metrics) != 0)
        fail_msg("%s: recomputation (%s %d) changes the metrics", model->name, kind,
                 config->segments);
}

/* Weights, statistics, optimizer state, gradients and metrics are the same bits. */
static void test_same_bits(void **state)
{
    static const struct recompute_config none = {0};

    (void)state;
    for (int i = 0; i < MODELS; i++) {
        bool accumulate = i % 2;
        struct outcome kept = run(&models[i], &none, 1, accumulate);
        int recomputing = 0;

        assert_int_equal(kept.recomputed, 0);
        for (int k = 0; k < CONFIGS; k++) {
            struct outcome again = run(&models[i], &configs[k], 1 + k % 2, accumulate);

            expect_same(&models[i], &configs[k], &kept, &again);
            recomputing += again.recomputed > 0;
            free(again.values);
        }
        assert_true(recomputing > 0);
        free(kept.values);
    }
}

/* A deep network needs less memory: by the cheap operators alone, and still less in segments. */
static void test_saves_memory(void **state)
{
    static const struct recompute_config none = {0};
    const struct case_model *resnet = models;
    struct outcome kept, selective, segments;

    (void)state;
    while (strcmp(resnet->name, "resnet18") != 0)
        resnet++;
    kept = run(resnet, &none, 1, false);
    selective = run(resnet, &configs[0], 1, false);
    segments = run(resnet, &configs[3], 1, false);
    print_message("activations: %zu, selective %zu, segments %zu\n", kept.activation_bytes,
                  selective.activation_bytes, segments.activation_bytes);
    assert_true(selective.activation_bytes < kept.activation_bytes * 9 / 10);
    assert_true(segments.activation_bytes < kept.activation_bytes * 2 / 3);
    free(kept.values);
    free(selective.values);
    free(segments.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selective), cmocka_unit_test(test_selective_saves_nothing),
        cmocka_unit_test(test_segments),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_saves_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
