/* step_speed.c: how long a training step takes on the CPU backend, without data loading:
 *
 *   step_speed MODEL[+bfloat16] THREADS [STEPS [FILE.onnx]]
 *
 * answers each line on standard input with the seconds of STEPS steps, on the wall clock and in
 * processor time, and the floating-point operations of one step, so that a comparison can
 * alternate. Models: resnet18, mobilenet_v3_small, efficientnet_b0 (batch 128, 32×32, torchvision's
 * stems but for resnet18), mlp-784-256-10 (batch 128), mlp-64-128-10
 * (batch 64), cnn (batch 64), recurrent networks of any size,
 * lstm-FEATURES-HIDDEN-STEPS-BATCH[-LAYERS[-bidirectional]], gru-… alike, and transformers of any
 * size, which AdamW updates: gpt-DEPTH-HEADS-EMBEDDING-CONTEXT-BATCH of 65 symbols,
 * vit-DEPTH-HEADS-EMBEDDING-PATCH-BATCH of images of 32×32. With a file, its network takes the
 * place of that one, with the same samples and optimizer; "unet" (batch 16, 64×64) is of a file
 * alone. Two that are none:
 * "products", a product of 1024×1024 matrices on each thread, and "peak", multiply-adds in
 * registers on each thread. */
#include "base/clock.h"
#include "engine/backends/cpu/onednn.h"
#include "engine/backends/cpu/threads.h"
#include "engine/graph/operator.h"
#include "engine/models/models.h"
#include "engine/onnx/onnx.h"
#include "tests/support/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* name, batch, sample, configuration */
struct model_entry {
    const char *name;
    int64_t batch;
    int64_t sample[3];
    int rank;
    struct model_config config;
};

static const struct model_entry models[] = {
    {"mlp-784-256-10",
     128,
     {784},
     1,
     {.kind = MODEL_MLP, .hidden = (int64_t[]){256}, .hidden_count = 1}},
    {"mlp-64-128-10",
     64,
     {64},
     1,
     {.kind = MODEL_MLP, .hidden = (int64_t[]){128}, .hidden_count = 1}},
    {"cnn",
     64,
     {1, 28, 28},
     3,
     {.kind = MODEL_CNN,
      .channels = (int64_t[]){32, 64},
      .channel_count = 2,
      .kernel = 3,
      .hidden = (int64_t[]){128},
      .hidden_count = 1}},
    {"resnet18", 128, {3, 32, 32}, 3, {.kind = MODEL_RESNET18, .width = 1}},
    {"mobilenet_v3_small",
     128,
     {3, 32, 32},
     3,
     {.kind = MODEL_MOBILENET_V3_SMALL, .width = 1, .stem_stride = 2, .dropout = 0.2f}},
    {"efficientnet_b0",
     128,
     {3, 32, 32},
     3,
     {.kind = MODEL_EFFICIENTNET_B0,
      .width = 1,
      .stem_stride = 2,
      .dropout = 0.2f,
      .stochastic_depth = 0.2f}},
    {"unet", 16, {3, 64, 64}, 3, {.kind = MODEL_ONNX}},
};

/* Fills the entry of a transformer whose sizes are in its name. */
static bool read_transformer(const char *name, struct model_entry *entry)
{
    struct model_config *config = &entry->config;
    int width, last, batch, used = 0;

    *entry = (struct model_entry){.name = name, .config = {.mlp_ratio = 4}};
    if (sscanf(name, "gpt-%d-%d-%d-%d-%d%n", &config->depth, &config->heads, &width, &last, &batch,
               &used) == 5) {
        config->kind = MODEL_GPT;
        entry->sample[0] = last;
        entry->rank = 1;
    } else if (sscanf(name, "vit-%d-%d-%d-%d-%d%n", &config->depth, &config->heads, &width, &last,
                      &batch, &used) == 5) {
        config->kind = MODEL_VIT;
        config->patch = last;
        memcpy(entry->sample, (int64_t[]){3, 32, 32}, sizeof entry->sample);
        entry->rank = 3;
    }
    config->embedding = width;
    entry->batch = batch;
    return used && (name[used] == '\0' || name[used] == '+');
}

/* Multiplications and additions of all linear and convolution nodes, forward and backward. */
static double count_operations(const struct graph *graph)
{
    double sum = 0;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t weight = node->input[1], y = node->output[0];

        switch (node->op) {
        case OP_LINEAR_BACKWARD_WEIGHTS:
        case OP_CONV2D_BACKWARD_WEIGHTS:
            weight = node->output[0];
            y = node->input[1];
            break;
        case OP_LINEAR_BACKWARD_DATA:
        case OP_CONV2D_BACKWARD_DATA:
            y = node->input[0];
            break;
        case OP_LINEAR:
        case OP_CONV2D:
            break;
        case OP_RECURRENT:
        case OP_RECURRENT_BACKWARD:
        case OP_RECURRENT_BACKWARD_WEIGHTS:
            sum += graph_node_operator(node)->flops(graph, node);
            continue;
        default:
            continue;
        }
        sum += 2.0 * (double)graph_shape_elements(&graph->tensors[y].shape) *
               (double)graph_shape_elements(&graph->tensors[weight].shape) /
               (double)graph->tensors[weight].shape.extent[0];
    }
    return sum;
}

/* One large product on each thread. */
struct ceiling {
    struct onednn_call **calls; /* per thread */
};
enum { CEILING_EXTENT = 1024 };

static void multiply(void *context, int thread)
{
    const struct ceiling *ceiling = context;

    onednn_call_run(ceiling->calls[thread], thread);
}

static struct onednn_call *bind_product(struct onednn *onednn, const struct onednn_product *product)
{
    size_t bytes = (size_t)CEILING_EXTENT * CEILING_EXTENT * sizeof(float);
    size_t scratch = onednn_product_scratch_bytes(product) / 64 * 64 + 64;
    char *memory = aligned_alloc(64, 3 * bytes + scratch); /* a, b, c, scratch */
    struct onednn_call *call = NULL;
    struct error error = {0};

    memset(memory, 0, 3 * bytes);
    onednn_product_bind(onednn, product, memory, memory + bytes, NULL, memory + 2 * bytes,
                        memory + 3 * bytes, &call, &error);
    return call;
}

static const double product_operations = 2.0 * CEILING_EXTENT * CEILING_EXTENT * CEILING_EXTENT;

/* Measures the multipliers' own rate: chains of multiply-adds on the widest registers of this
 * processor, as many chains as hide the latency. */
enum { PEAK_CHAINS = 12, PEAK_ROUNDS = 4 * 1000 * 1000, PEAK_LANES = 16 };
#define PEAK_OPERATIONS (2.0 * PEAK_CHAINS * PEAK_LANES * PEAK_ROUNDS)

typedef float lanes __attribute__((vector_size(4 * PEAK_LANES)));

static volatile float peak_sums[256]; /* so that the chains are not optimised away */

#define DEFINE_PEAK(name, attributes)                                                 \
    static attributes void name(void *context, int thread)                            \
    {                                                                                 \
        lanes chain[PEAK_CHAINS], factor = {0}, term = {0};                           \
                                                                                      \
        (void)context;                                                                \
        for (int i = 0; i < PEAK_CHAINS; i++)                                         \
            chain[i] = factor + (float)i;                                             \
        factor += 0.999f;                                                             \
        term += 0.001f;                                                               \
        for (int round = 0; round < PEAK_ROUNDS; round++) {                           \
            _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_CHAINS; i++) chain[i] = \
                chain[i] * factor + term;                                             \
        }                                                                             \
        for (int i = 1; i < PEAK_CHAINS; i++)                                         \
            chain[0] += chain[i];                                                     \
        peak_sums[thread % 256] = chain[0][0];                                        \
    }

DEFINE_PEAK(peak_baseline, )
#if defined(__x86_64__)
DEFINE_PEAK(peak_v3, __attribute__((target("avx2,fma"))))
DEFINE_PEAK(peak_v4, __attribute__((target("avx512f,fma"))))
#endif

typedef void ceiling_function(void *context, int thread);

static ceiling_function *peak_function(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return peak_v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return peak_v3;
#endif
    return peak_baseline;
}

/* `operations` are those of one thread. */
static int measure_ceiling(int threads, ceiling_function *function, double operations)
{
    const struct onednn_product_shape shape = {
        .rows = CEILING_EXTENT, .columns = CEILING_EXTENT, .depth = CEILING_EXTENT};
    struct ceiling ceiling = {calloc((size_t)threads, sizeof(*ceiling.calls))};
    struct onednn_product *product;
    struct thread_team *team;
    struct onednn *onednn;
    struct error error = {0};
    char line[64];

    if (thread_team_create(threads, onednn_thread_begin, &team, &error) ||
        onednn_open(threads, &onednn, &error) ||
        onednn_product_create(onednn, &shape, &product, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 0; i < threads; i++)
        ceiling.calls[i] = bind_product(onednn, product);
    while (fgets(line, sizeof line, stdin)) {
        double wall = clock_monotonic(), processor = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);

        thread_team_run(team, threads, function, &ceiling);
        printf("%.9f %.9f %.0f\n", clock_monotonic() - wall,
               clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor, threads * operations);
        fflush(stdout);
    }
    return 0; /* the process's end frees what the product's calls hold */
}

/* "lstm-64-256-100-64-2-bidirectional" */
static bool parse_recurrent(const char *name, struct model_entry *entry)
{
    char kind[8], directions[16] = "";
    int layers = 1, numbers;
    long long features, hidden, steps, batch;

    numbers = sscanf(name, "%7[a-z]-%lld-%lld-%lld-%lld-%d-%15[a-z]", kind, &features, &hidden,
                     &steps, &batch, &layers, directions);
    if (numbers < 5 || (strcmp(kind, "lstm") && strcmp(kind, "gru")))
        return false;
    *entry = (struct model_entry){.name = name,
                                  .batch = batch,
                                  .sample = {steps, features},
                                  .rank = 2,
                                  .config = {.kind = strcmp(kind, "gru") ? MODEL_LSTM : MODEL_GRU,
                                             .hidden_size = hidden,
                                             .num_layers = layers,
                                             .bidirectional = directions[0]}};
    return true;
}

/* Puts the network of a file in the place of the model's. It lives as long as the program. */
static int import(const char *file, const struct model_entry *entry, struct model_config *config,
                  struct error *error)
{
    if (!file && entry->config.kind == MODEL_ONNX)
        return error_set(error, -EINVAL,
                         "%s is a network of a file: step_speed %s THREADS STEPS "
                         "FILE.onnx",
                         entry->name, entry->name);
    *config = entry->config;
    if (!file)
        return 0;
    *config = (struct model_config){.kind = MODEL_ONNX};
    return onnx_open(NULL, file, &config->onnx, error);
}

static int build(struct graph *graph, const char *name, const char *file)
{
    const struct model_entry *entry = NULL;
    struct model_entry recurrent, transformer;
    struct model_config config;
    size_t length = strcspn(name, "+");
    enum tensor_type type = name[length] ? TENSOR_BFLOAT16 : TENSOR_FLOAT32;
    struct error error = {0};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strlen(models[i].name) == length && strncmp(name, models[i].name, length) == 0)
            entry = &models[i];
    if (parse_recurrent(name, &recurrent))
        entry = &recurrent;
    if (!entry && read_transformer(name, &transformer))
        entry = &transformer;
    if (!entry || (name[length] && strcmp(name + length, "+bfloat16"))) {
        fprintf(stderr, "there is no model %s\n", name);
        return -1;
    }

    struct model_data data = {.type = TENSOR_FLOAT32, .rank = entry->rank, .outputs = 10};
    struct optimizer_config optimizer = {.kind = OPTIMIZER_SGD};

    memcpy(data.sample_shape, entry->sample, sizeof(entry->sample));
    if (entry->rank == 3 && entry->config.kind != MODEL_CNN)
        optimizer.momentum = 0.9;
    if (entry == &transformer)
        optimizer = (struct optimizer_config){.kind = OPTIMIZER_ADAMW,
                                              .beta1 = 0.9,
                                              .beta2 = 0.999,
                                              .epsilon = 1e-8,
                                              .weight_decay = 0.01};
    if (entry->config.kind == MODEL_GPT) {
        data.type = TENSOR_INT32;
        data.vocabulary = data.outputs = 65;
    }
    graph_init(graph, entry->batch, true);
    if (import(file, entry, &config, &error) || model_build(&config, &data, graph, &error) ||
        graph_differentiate(graph, &error) || graph_lower_precision(graph, type, &error) ||
        graph_add_optimizer(graph, &optimizer, &error) || graph_finish(graph, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct test_session_options options = {.threads = argc > 2 ? atoi(argv[2]) : 1,
                                           .tiles = TILES_AS_DEVICE};
    long steps = argc > 3 ? atol(argv[3]) : 100;
    struct step_scalars scalars = {.learning_rate = 0.01f, .gradient_scale = 1};
    struct test_session session;
    struct graph graph;
    char line[64];
    float *samples;
    int32_t *labels;
    int64_t count, label_count;

    if (argc > 2 && strcmp(argv[1], "products") == 0)
        return measure_ceiling(options.threads, multiply, product_operations);
    if (argc > 2 && strcmp(argv[1], "peak") == 0)
        return measure_ceiling(options.threads, peak_function(), PEAK_OPERATIONS);
    if (argc < 3 || build(&graph, argv[1], argc > 4 ? argv[4] : NULL)) {
        fprintf(stderr, "step_speed MODEL[+bfloat16]|products|peak THREADS [STEPS [FILE.onnx]]; "
                        "see its source\n");
        return 2;
    }
    count = graph_shape_elements(&graph.tensors[graph.input].shape);
    samples = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
    label_count = graph_shape_elements(&graph.tensors[graph.target].shape);
    labels = aligned_alloc(64, (size_t)(label_count * 4 + 63) / 64 * 64);
    for (int64_t i = 0; i < count; i++)
        samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    for (int64_t i = 0; i < count && graph.tensors[graph.input].type == TENSOR_INT32; i++)
        ((int32_t *)(void *)samples)[i] = (int32_t)(i * 7919 % 65);
    for (int64_t i = 0; i < label_count; i++)
        labels[i] = (int32_t)(i * 31 % 10);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, labels);
    while (fgets(line, sizeof line, stdin)) {
        double wall = clock_monotonic(), processor = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);

        for (long i = 0; i < steps; i++) {
            scalars.step = scalars.batch = scalars.step + 1;
            test_session_run(&session, PROGRAM_STEP, &scalars);
        }
        printf("%.9f %.9f %.0f\n", clock_monotonic() - wall,
               clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor, count_operations(&graph));
        fflush(stdout);
    }
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(labels);
    return 0;
}
