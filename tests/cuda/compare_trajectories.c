/* compare_trajectories: ten training steps of every built-in model on the CUDA backend beside the
 * CPU backend's, from the same weights on the same batches.
 *
 *     compare_trajectories [--type TYPE] [--only PATTERN] [--backend cpu] [PLUGIN]
 *
 * In float32 every loss has to be the CPU's within 1e-3 of it. With products in TYPE it is
 * compared with the CPU's in float32 and the CPU's with operands rounded to TYPE. It may lie
 * between these, or outside by `rounded_limit` or twice of what rounding changes there. Then the
 * device does the same again from the start: losses, weights, statistics and optimizer states must
 * be the same bits. PATTERN is a shell pattern for names of models. Exit status 0: agreed; 1: not;
 * 77: there is no GPU. */
#include "engine/train/trial_model.h"
#include "worker/trainee/worker_plugin.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10, BATCHES = 4, VOCABULARY = 65 };

static const double float32_limit = 1e-3;
/* A device also rounds the tensors between layers (8 bits of bfloat16 are 4e-3). The CPU's
 * emulation does not. */
static const double rounded_limit = 0.03;
/* Deep models enlarge what is rounded. EfficientNet-B0's first loss, before any update, is 5.890 in
 * float32. With operands of bfloat16 it is 5.931 and 5.952 on two CPUs. On an H200 it is 5.79 to
 * 5.82, depending on which algorithms are the fastest. So a loss may deviate by this many times
 * what rounding the operands changes on the CPU: a device rounds results, too. */
static const double rounding_allowance = 2;

struct subject {
    const char *name;
    struct trial_model model;
    float rate;         /* of learning; 0: 0.02 */
    float rounded_rate; /* where products are rounded; 0: the same */
};

static const int64_t mlp_hidden[] = {256}, cnn_channels[] = {32, 64}, hidden[] = {128};
static const int64_t text_kernels[] = {3, 5}, dna_kernels[] = {7, 3}, dna_channels[] = {24, 32};
static const struct loss_head two_heads[] = {
    {.classes = 6, .labels = 2, .binary = true, .weight = 0.5f},
    {.classes = 4, .labels = 1, .weight = 1}};
enum { HEADS = sizeof two_heads / sizeof *two_heads };

static struct subject subjects[] = {
    {.name = "mlp",
     .model = {.config = {.kind = MODEL_MLP, .hidden = mlp_hidden, .hidden_count = 1},
               .batch = 128,
               .shape = {1, 28, 28},
               .rank = 3}},
    {.name = "cnn",
     .model = {.config = {.kind = MODEL_CNN,
                          .channels = cnn_channels,
                          .channel_count = 2,
                          .kernel = 3,
                          .hidden = hidden,
                          .hidden_count = 1,
                          .batch_norm = true,
                          .dropout = 0.2f},
               .batch = 32,
               .shape = {1, 28, 28},
               .rank = 3}},
    {.name = "char_mlp",
     .model = {.config = {.kind = MODEL_CHAR_MLP,
                          .embedding = 24,
                          .hidden = hidden,
                          .hidden_count = 1,
                          .activation = ACTIVATION_TANH},
               .batch = 64,
               .shape = {16},
               .rank = 1,
               .vocabulary = VOCABULARY}},
    {.name = "resnet18",
     .model = {.config = {.kind = MODEL_RESNET18, .width = 1},
               .batch = 32,
               .shape = {3, 32, 32},
               .rank = 3},
     /* with 0.02, the CPU's two algorithms for convolutions differ by 1e-2 after ten steps */
     .rate = 0.002f},
    {.name = "mobilenet_v3_small",
     .model = {.config = {.kind = MODEL_MOBILENET_V3_SMALL,
                          .width = 1,
                          .stem_stride = 1,
                          .dropout = 0.2f},
               .batch = 32,
               .shape = {3, 32, 32},
               .rank = 3}},
    {.name = "efficientnet_b0",
     .model = {.config = {.kind = MODEL_EFFICIENTNET_B0,
                          .width = 1,
                          .stem_stride = 1,
                          .dropout = 0.2f,
                          .stochastic_depth = 0.2f},
               .batch = 32,
               .shape = {3, 32, 32},
               .rank = 3},
     /* with 0.001, samples larger by 1e-7 of themselves change the tenth loss by 2e-2 on the CPU
        alone; with this by 3e-6 */
     .rate = 0.0001f,
     /* with 0.0001, float32 and bfloat16 differ by 3e-2 on the CPU; with this by 1e-3 */
     .rounded_rate = 0.00001f},
    {.name = "gpt",
     .model = {.config = {.kind = MODEL_GPT,
                          .embedding = 64,
                          .heads = 4,
                          .depth = 2,
                          .mlp_ratio = 4,
                          .positions = POSITIONS_LEARNED,
                          .dropout = 0.1f},
               .batch = 8,
               .shape = {48},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .each = true}},
    {.name = "gpt, rotary",
     .model = {.config = {.kind = MODEL_GPT,
                          .embedding = 128,
                          .heads = 2,
                          .depth = 2,
                          .mlp_ratio = 4,
                          .positions = POSITIONS_ROTARY},
               .batch = 4,
               .shape = {96},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .each = true}},
    {.name = "vit",
     .model = {.config = {.kind = MODEL_VIT,
                          .embedding = 96,
                          .heads = 3,
                          .depth = 2,
                          .mlp_ratio = 4,
                          .patch = 4,
                          .pool = POOL_TOKEN,
                          .dropout = 0.1f},
               .batch = 16,
               .shape = {3, 32, 32},
               .rank = 3}},
    {.name = "vit, mean",
     .model = {.config = {.kind = MODEL_VIT,
                          .embedding = 64,
                          .heads = 2,
                          .depth = 2,
                          .mlp_ratio = 2,
                          .patch = 8,
                          .pool = POOL_MEAN},
               .batch = 16,
               .shape = {3, 32, 32},
               .rank = 3}},
    {.name = "lstm",
     .model = {.config = {.kind = MODEL_LSTM,
                          .hidden_size = 48,
                          .num_layers = 2,
                          .bidirectional = true,
                          .dropout = 0.1f},
               .batch = 24,
               .shape = {20, 9},
               .rank = 2}},
    {.name = "gru",
     .model = {.config = {.kind = MODEL_GRU, .embedding = 24, .hidden_size = 64, .num_layers = 1},
               .batch = 24,
               .shape = {30},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .each = true}},
    {.name = "gru, padded",
     .model = {.config = {.kind = MODEL_GRU,
                          .embedding = 24,
                          .hidden_size = 40,
                          .num_layers = 2,
                          .bidirectional = true,
                          .readout = READOUT_MEAN},
               .batch = 24,
               .shape = {30},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .padded = true}},
    {.name = "lstm, carried state",
     .model = {.config = {.kind = MODEL_LSTM,
                          .embedding = 24,
                          .hidden_size = 64,
                          .num_layers = 2,
                          .carry_state = true},
               .batch = 24,
               .shape = {30},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .each = true}},
    {.name = "text_cnn",
     .model = {.config = {.kind = MODEL_TEXT_CNN,
                          .embedding = 24,
                          .filters = 16,
                          .kernels = text_kernels,
                          .kernel_count = 2},
               .batch = 24,
               .shape = {30},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .padded = true}},
    {.name = "dna_cnn",
     .model = {.config = {.kind = MODEL_DNA_CNN,
                          .embedding = 8,
                          .channels = dna_channels,
                          .channel_count = 2,
                          .kernels = dna_kernels,
                          .kernel_count = 2,
                          .batch_norm = true},
               .batch = 24,
               .shape = {40},
               .rank = 1,
               .vocabulary = VOCABULARY,
               .padded = true}},
    {.name = "mlp, two heads",
     .model = {.config = {.kind = MODEL_MLP, .hidden = mlp_hidden, .hidden_count = 1},
               .batch = 128,
               .shape = {33},
               .rank = 1,
               .heads = two_heads,
               .head_count = HEADS}},
    {.name = "caduceus",
     .model = {.config = {.kind = MODEL_CADUCEUS,
                          .embedding = 32,
                          .depth = 2,
                          .states = 16,
                          .expand = 2,
                          .kernel = 4,
                          .epsilon = 1e-5f},
               .batch = 8,
               .shape = {70},
               .rank = 1,
               .vocabulary = VOCABULARY}},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

struct options {
    enum tensor_type type;
    const char *pattern, *backend, *plugin;
};

struct place {
    const struct backend *backend;
    struct backend_device *device;
};

/* ---- a run ----------------------------------------------------------------------------------- */

/* The state after ten steps. */
struct trajectory {
    double losses[STEPS];
    char *state; /* every persistent tensor, one after the other; owned */
    size_t bytes;
};

static float learning_rate(const struct subject *subject, enum tensor_type type)
{
    if (type != TENSOR_FLOAT32 && subject->rounded_rate > 0)
        return subject->rounded_rate;
    return subject->rate > 0 ? subject->rate : 0.02f;
}

static int run_steps(const struct subject *subject, struct session *session, enum tensor_type type,
                     float rate, double *losses, struct error *error)
{
    struct session_batch batches[BATCHES] = {{.count = 0}};
    int result = 0;

    for (int i = 0; result == 0 && i < BATCHES; i++)
        result = trial_batch_make(&subject->model, i, &batches[i], error);
    for (int i = 0; result == 0 && i < STEPS; i++)
        result = trial_step(session, &batches[i % BATCHES], i + 1, type, rate, &losses[i], error);
    for (int i = 0; i < BATCHES; i++)
        trial_batch_release(&batches[i]);
    return result;
}

static int read_state(struct session *session, struct trajectory *trajectory, struct error *error)
{
    struct session_tensor tensor;
    int result = 0;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
        trajectory->bytes += tensor.bytes;
    trajectory->state = malloc(trajectory->bytes);
    if (!trajectory->state)
        return error_no_memory(error, "the state");
    trajectory->bytes = 0;
    for (int i = 0; result == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        void *scratch = session_scratch(session);

        result = session_read(session, i, scratch, error);
        memcpy(trajectory->state + trajectory->bytes, scratch, tensor.bytes);
        trajectory->bytes += tensor.bytes;
    }
    return result;
}

static int train(const struct subject *subject, const struct place *place, enum tensor_type type,
                 float rate, struct trajectory *trajectory, struct error *error)
{
    struct session_config config = {
        .backend = place->backend,
        .device = place->device,
        .build = trial_model_build,
        .build_context = (void *)&subject->model,
        .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 5e-4},
        .compute_type = type,
        .training_batches = {subject->model.batch},
        .seed = 3};
    struct session *session = NULL;
    int result = session_prepare(&config, &session, error);

    *trajectory = (struct trajectory){.bytes = 0};
    if (result == 0)
        result = session_allocate(session, error);
    if (result == 0)
        session_reset_metrics(session, true);
    if (result == 0)
        result = run_steps(subject, session, type, rate, trajectory->losses, error);
    if (result == 0)
        result = read_state(session, trajectory, error);
    session_free(session);
    return result;
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* How far losses lie outside those of two other runs, relative to the nearer one. Rounding moves
 * the CPU's losses as it moves a device's, so a device's may lie between those and exact ones. */
static double largest_deviation(const double *got, const double *want, const double *exact)
{
    double largest = 0;

    for (int i = 0; i < STEPS; i++) {
        double low = fmin(want[i], exact[i]), high = fmax(want[i], exact[i]);
        double nearest = fmin(fmax(got[i], low), high);
        double deviation = isnan(got[i]) ? NAN : fabs(got[i] - nearest) / fabs(nearest);

        if (!(deviation <= largest))
            largest = deviation;
        if (isnan(deviation))
            return deviation;
    }
    return largest;
}

static bool same_bits(const struct trajectory *a, const struct trajectory *b)
{
    return a->bytes == b->bytes && memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->state, b->state, a->bytes) == 0;
}

/* The losses of each step, to tell a wrong gradient (from the second step on) from rounding. */
static void print_losses(const double *got, const double *want, const double *exact)
{
    for (int i = 0; i < STEPS; i++)
        printf("    step %d: %.6f, CPU %.6f, in float32 %.6f\n", i + 1, got[i], want[i], exact[i]);
}

enum verdict { AGREES, DIFFERS, MISSING };

/* `exact`: the CPU's losses in float32. */
static enum verdict judge(const struct subject *subject, enum tensor_type type,
                          const struct trajectory runs[3], const double *exact)
{
    double rounding = largest_deviation(runs[0].losses, exact, exact);
    double deviation = largest_deviation(runs[1].losses, runs[0].losses, exact);
    double limit =
        type == TENSOR_FLOAT32 ? float32_limit : fmax(rounded_limit, rounding_allowance * rounding);
    bool same = same_bits(&runs[1], &runs[2]);
    bool agrees = same && deviation <= limit;

    printf("%-8s %-9s %-20s loss %.6f to %.6f (CPU %.6f), largest deviation %.1e of %.1e, the "
           "second run %s\n",
           agrees ? "agrees" : "DIFFERS", tensor_type_to_string(type), subject->name,
           runs[1].losses[0], runs[1].losses[STEPS - 1], runs[0].losses[STEPS - 1], deviation,
           limit, same ? "has the same bits" : "HAS OTHER BITS");
    if (!agrees)
        print_losses(runs[1].losses, runs[0].losses, exact);
    return agrees ? AGREES : DIFFERS;
}

static enum verdict compare(const struct subject *subject, enum tensor_type type,
                            const struct place *cpu, const struct place *device)
{
    const struct place *const places[] = {cpu, device, device};
    const float rate = learning_rate(subject, type);
    struct trajectory runs[3] = {{.bytes = 0}}, exact = {.bytes = 0};
    struct error error = {0};
    enum verdict verdict;
    int result = 0;

    for (int i = 0; result == 0 && i < 3; i++)
        result = train(subject, places[i], type, rate, &runs[i], &error);
    if (result == 0 && type != TENSOR_FLOAT32)
        result = train(subject, cpu, TENSOR_FLOAT32, rate, &exact, &error);
    if (result == 0) {
        verdict =
            judge(subject, type, runs, type == TENSOR_FLOAT32 ? runs[0].losses : exact.losses);
    } else {
        verdict = result == -ERROR_UNSUPPORTED ? MISSING : DIFFERS;
        printf("%-8s %-9s %-20s %s\n", verdict == MISSING ? "missing" : "BROKEN",
               tensor_type_to_string(type), subject->name, error.text);
    }
    fflush(stdout);
    for (int i = 0; i < 3; i++)
        free(runs[i].state);
    free(exact.state);
    return verdict;
}

static int compare_all(const struct options *options, const struct place *cpu,
                       const struct place *device)
{
    struct backend_device_info info;
    int count[3] = {0};

    device->backend->device_describe(device->device, &info);
    printf("%s, %s, %s\n", info.model, info.features, info.versions);
    for (int i = 0; i < SUBJECTS; i++)
        if (!options->pattern || fnmatch(options->pattern, subjects[i].name, 0) == 0)
            count[compare(&subjects[i], options->type, cpu, device)]++;
    printf("%d trajectories agree, %d do not, %d are missing\n", count[AGREES], count[DIFFERS],
           count[MISSING]);
    return count[DIFFERS] > 0 || count[AGREES] == 0;
}

static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"type", required_argument, NULL, 't'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"backend", required_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    int option, type = TENSOR_FLOAT32;

    *options = (struct options){.backend = "cuda"};
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 't')
            type = tensor_type_from_string(optarg);
        else if (option == 'o')
            options->pattern = optarg;
        else if (option == 'b')
            options->backend = optarg;
        else
            return -EINVAL;
    }
    if (type < TENSOR_FLOAT32 || type > TENSOR_FLOAT16)
        return -EINVAL;
    options->type = (enum tensor_type)type;
    options->plugin = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct backend_device_config config = {.emulate_precision = true};
    struct place cpu = {.backend = backend_cpu()}, device = {.backend = backend_cpu()};
    struct error error = {0};
    struct options options;
    int result;

    if (read_options(argc, argv, &options) < 0)
        return 2;
    if ((strcmp(options.backend, "cpu") != 0 &&
         worker_plugin_load(options.backend, options.plugin, &device.backend, &error) < 0) ||
        cpu.backend->device_open(&config, &cpu.device, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (device.backend->device_open(&config, &device.device, &error) < 0) {
        puts(error.text);
        return error.code == -ERROR_DEVICE_LOST ? 77 : 1;
    }
    result = compare_all(&options, &cpu, &device);
    device.backend->device_close(device.device);
    cpu.backend->device_close(cpu.device);
    return result;
}
