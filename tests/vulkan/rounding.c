/* rounding: numbers of 16 bits on a Vulkan device: every number that bfloat16 and float16 have,
 * those halfway to the next one and beside that, infinities and what overflows. Samples are rounded
 * to the type when a batch is copied to the device, and read by a node whose result is float32. It
 * has to be what tensor_type_round() makes of the sample, bit for bit.
 *
 *     rounding PLUGIN
 *
 * Subnormal numbers of float32, which devices may take for 0, are left out. Exit status 0: all
 * agree; 1: not; 77: there is no device, or it has no numbers of 16 bits. */
#include "engine/graph/forward.h"
#include "worker/trainee/worker_plugin.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 1 << 16, OF_PATTERN = 4, BATCH = 64, SAMPLE = PATTERNS * OF_PATTERN / BATCH };
enum { COUNT = BATCH * SAMPLE, SHOWN = 5, NOT_RUN = 77 };

/* The number with this pattern of the type's bits. */
static float number_of(enum tensor_type type, uint32_t pattern)
{
    uint32_t bits = pattern << 16;
    float number;

    if (type == TENSOR_FLOAT16) {
        const int exponent = (int)(pattern >> 10 & 31);
        const float sign = pattern >> 15 ? -1.0f : 1.0f, mantissa = (float)(pattern & 1023);

        if (exponent == 31)
            return (pattern & 1023) ? NAN : sign * INFINITY;
        return sign * (exponent ? ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24));
    }
    memcpy(&number, &bits, sizeof number);
    return number;
}

static float usable(float number)
{
    return fabsf(number) < FLT_MIN ? 0 : number;
}

/* Each number, the one halfway to the next pattern's, and the neighbours of that. */
static void fill(enum tensor_type type, float *numbers)
{
    for (uint32_t i = 0; i < PATTERNS; i++) {
        const float number = number_of(type, i);
        const float next = i % (PATTERNS / 2) + 1 < PATTERNS / 2 ? number_of(type, i + 1) : number;
        float halfway = (float)(((double)number + (double)next) / 2);

        if (isinf(next) && isfinite(number)) /* where it overflows */
            halfway =
                number * (type == TENSOR_FLOAT16 ? 65520.0f / 65504.0f : 0x1.ffp127f / 0x1.fep127f);
        numbers[OF_PATTERN * i] = usable(number);
        numbers[OF_PATTERN * i + 1] = usable(halfway);
        numbers[OF_PATTERN * i + 2] = usable(nextafterf(halfway, number));
        numbers[OF_PATTERN * i + 3] = usable(nextafterf(halfway, next));
    }
}

/* The samples times 1, as the loss' operand, which is float32. */
static void build(struct graph *graph, enum tensor_type type, struct error *error)
{
    const int64_t shape[] = {SAMPLE};
    int result;

    graph_init(graph, BATCH, false);
    graph_mse(graph,
              graph_affine(graph, graph_input(graph, TENSOR_FLOAT32, shape, 1), 1, 0, "same"));
    result = graph_lower_precision(graph, type, error);
    if (result < 0 || graph_finish(graph, error) < 0) {
        fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

static int run(const struct backend *backend, struct backend_device *device,
               const struct graph *graph, const float *samples, float *results, struct error *error)
{
    const struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    struct backend_program *program = NULL;
    struct backend_buffer *buffer = NULL;
    struct memory_plan plan = {.arena_bytes = 0};
    struct memory_request request;
    int result = backend->program_prepare(device, graph, NULL, &program, error);

    if (result == 0) {
        backend->program_memory(program, &request);
        result = memory_plan_make(&request, 1, 0, &plan, error);
    }
    if (result == 0)
        result = backend->buffer_create(device, plan.arena_bytes, &buffer, error);
    if (result == 0)
        result = backend->program_bind(program, plan.placements, buffer, error);
    if (result == 0)
        result = backend->program_set_input(program, graph->input, samples, error);
    if (result == 0)
        result = backend->program_set_input(program, graph->target, samples, error);
    if (result == 0)
        result = backend->program_run(program, PROGRAM_FORWARD, &scalars, error);
    if (result == 0)
        result = backend->tensor_read(program, graph->output, results, error);
    if (program)
        backend->program_free(program);
    if (buffer)
        backend->buffer_free(buffer);
    memory_plan_release(&plan);
    return result;
}

static bool agrees(float got, float want)
{
    return isnan(want) ? isnan(got) : got == want;
}

/* How many numbers differ. */
static int compare(enum tensor_type type, const float *samples, const float *results)
{
    int differ = 0;

    for (int i = 0; i < COUNT; i++) {
        float want = samples[i];

        tensor_type_round(type, &want, 1);
        if (agrees(results[i], want))
            continue;
        if (differ++ < SHOWN)
            printf("    %a became %a, not %a\n", (double)samples[i], (double)results[i],
                   (double)want);
    }
    printf("%-8s %-9s %d of %d numbers\n", differ ? "DIFFERS" : "agrees",
           tensor_type_to_string(type), differ ? differ : COUNT, COUNT);
    return differ;
}

static int check_type(const struct backend *backend, struct backend_device *device,
                      enum tensor_type type, float *samples, float *results)
{
    struct error error = {0};
    struct graph graph;
    int differ = 1;

    fill(type, samples);
    build(&graph, type, &error);
    if (run(backend, device, &graph, samples, results, &error) < 0)
        printf("BROKEN   %-9s %s\n", tensor_type_to_string(type), error.text);
    else
        differ = compare(type, samples, results);
    graph_release(&graph);
    return differ;
}

int main(int argc, char **argv)
{
    const struct backend_device_config config = {.index = 0};
    float *samples = malloc(COUNT * sizeof *samples), *results = malloc(COUNT * sizeof *results);
    struct backend_device_info info;
    struct backend_device *device;
    const struct backend *backend;
    struct error error = {0};
    int differ = 0;

    if (argc != 2 || !samples || !results)
        return 2;
    if (worker_plugin_load("vulkan", argv[1], &backend, &error) < 0 ||
        backend->device_open(&config, &device, &error) < 0) {
        puts(error.text);
        return error.code == -ERROR_DEVICE_LOST ? NOT_RUN : 1;
    }
    backend->device_describe(device, &info);
    printf("%s, %s, %s\n", info.model, info.features, info.versions);
    for (enum tensor_type type = TENSOR_BFLOAT16; type <= TENSOR_FLOAT16; type++)
        if (info.compute_types & 1u << type)
            differ += check_type(backend, device, type, samples, results);
    backend->device_close(device);
    free(samples);
    free(results);
    return !(info.compute_types & 1u << TENSOR_FLOAT16) ? NOT_RUN : differ > 0;
}
