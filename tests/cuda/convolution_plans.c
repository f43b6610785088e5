/* convolution_plans: what cuDNN's plans calculate, and how fast they are.
 *
 * convolution_plans [PLUGIN]: small convolutions in every type and direction, every plan that
 * would be taken, against sums in double on the host. Exit status 0: all agree; 1: not; 77: there
 * is no GPU, or no cuDNN.
 * convolution_plans --time SECONDS [variants]: the best plans for the convolutions of ResNet-18
 * (CIFAR-10); then those with fused neighbours and other results. */
#include "base/philox.h"
#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/kernels/kernels.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHOICES_MAX = 16 };

static void expect_cuda(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

static void *allocate_device(size_t bytes)
{
    void *memory = NULL;

    expect_cuda(cudaMalloc(&memory, bytes ? bytes : 1), "memory");
    return memory;
}

static int64_t elements(const int64_t extent[4])
{
    return extent[0] * extent[1] * extent[2] * extent[3];
}

/* ---- problems ----------------------------------------------------------------------------------
 */

struct layer {
    int channels, size, outputs, kernel, stride, padding, dilation, groups, count;
};

static struct convolution_problem problem_of(const struct layer *layer, int64_t batch,
                                             enum convolution_pass pass, enum tensor_type type)
{
    int extent = layer->dilation * (layer->kernel - 1) + 1;
    int out = (layer->size + 2 * layer->padding - extent) / layer->stride + 1;
    struct convolution_problem problem;

    memset(&problem, 0, sizeof problem);
    problem.pass = pass;
    problem.type = problem.result = type;
    problem.groups = layer->groups;
    memcpy(problem.x, (int64_t[]){batch, layer->channels, layer->size, layer->size},
           sizeof problem.x);
    memcpy(
        problem.weight,
        (int64_t[]){layer->outputs, layer->channels / layer->groups, layer->kernel, layer->kernel},
        sizeof problem.weight);
    memcpy(problem.y, (int64_t[]){batch, layer->outputs, out, out}, sizeof problem.y);
    for (int i = 0; i < 2; i++) {
        problem.stride[i] = layer->stride;
        problem.padding[i] = layer->padding;
        problem.dilation[i] = layer->dilation;
    }
    return problem;
}

static double flops_of(const struct convolution_problem *problem)
{
    return 2.0 * (double)elements(problem->y) *
           (double)(problem->weight[1] * problem->weight[2] * problem->weight[3]);
}

static const char *const pass_text[] = {"forward", "data", "weights"};

/* ---- numbers -----------------------------------------------------------------------------------
 */

static float draw(uint64_t stream, uint64_t index)
{
    struct philox bits = philox_draw(7, philox_stream(PHILOX_TEST, (uint32_t)stream), index);

    return 2 * philox_uniform(bits.word[0]) - 1;
}

static uint16_t to_bfloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bfloat16(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;

    memcpy(&result, &bits, sizeof result);
    return result;
}

static size_t type_bytes(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 ? 4 : 2;
}

static void store(void *to, int64_t index, float value, enum tensor_type type)
{
    if (type == TENSOR_FLOAT32)
        ((float *)to)[index] = value;
    else if (type == TENSOR_BFLOAT16)
        ((uint16_t *)to)[index] = to_bfloat16(value);
    else
        ((_Float16 *)to)[index] = (_Float16)value;
}

static float load(const void *from, int64_t index, enum tensor_type type)
{
    return type == TENSOR_FLOAT32    ? ((const float *)from)[index]
           : type == TENSOR_BFLOAT16 ? from_bfloat16(((const uint16_t *)from)[index])
                                     : (float)((const _Float16 *)from)[index];
}

/* ---- the reference -----------------------------------------------------------------------------
 */

static int64_t image_index(const int64_t extent[4], int64_t n, int64_t c, int64_t h, int64_t w)
{
    return ((n * extent[2] + h) * extent[3] + w) * extent[1] + c;
}

/* Adds every product to what it belongs to; the arrays lie as on the device. */
static void add_products(const struct convolution_problem *p, double *x, double *weight, double *y)
{
    int64_t outputs = p->weight[0] / p->groups;

    for (int64_t n = 0; n < p->y[0]; n++)
        for (int64_t o = 0; o < p->y[1]; o++)
            for (int64_t i = 0; i < p->y[2]; i++)
                for (int64_t j = 0; j < p->y[3]; j++)
                    for (int64_t c = 0; c < p->weight[1]; c++)
                        for (int64_t k = 0; k < p->weight[2] * p->weight[3]; k++) {
                            int64_t r = k / p->weight[3], s = k % p->weight[3];
                            int64_t h = i * p->stride[0] - p->padding[0] + r * p->dilation[0];
                            int64_t w = j * p->stride[1] - p->padding[1] + s * p->dilation[1];
                            int64_t in = o / outputs * p->weight[1] + c;
                            double *px, *pw, *py;

                            if (h < 0 || w < 0 || h >= p->x[2] || w >= p->x[3])
                                continue;
                            px = &x[image_index(p->x, n, in, h, w)];
                            pw = &weight[image_index(p->weight, o, c, r, s)];
                            py = &y[image_index(p->y, n, o, i, j)];
                            if (p->pass == CONVOLUTION_FORWARD)
                                *py += *px * *pw;
                            else if (p->pass == CONVOLUTION_DATA)
                                *px += *py * *pw;
                            else
                                *pw += *px * *py;
                        }
}

/* ---- a problem on the device -------------------------------------------------------------------
 */

struct tensors {
    const int64_t *extent[3];
    enum tensor_type type[3];
    double *want[3];
    struct convolution_operands operands;
    float *bias;
};

static void make_tensors(const struct convolution_problem *p, struct tensors *tensors)
{
    static const int result[] = {2, 0, 1};
    void **device[] = {&tensors->operands.x, &tensors->operands.weight, &tensors->operands.y};

    *tensors = (struct tensors){.extent = {p->x, p->weight, p->y}};
    for (int t = 0; t < 3; t++) {
        int64_t count = elements(tensors->extent[t]);
        enum tensor_type type = result[p->pass] == t ? p->result : p->type;
        void *host = calloc((size_t)count, type_bytes(type));

        tensors->type[t] = type;
        tensors->want[t] = calloc((size_t)count, sizeof(double));
        for (int64_t i = 0; i < count && result[p->pass] != t; i++) {
            store(host, i, draw((uint64_t)t + 1, (uint64_t)i), type);
            tensors->want[t][i] = load(host, i, type);
        }
        *device[t] = allocate_device((size_t)count * type_bytes(type));
        expect_cuda(
            cudaMemcpy(*device[t], host, (size_t)count * type_bytes(type), cudaMemcpyHostToDevice),
            "tensor");
        free(host);
    }
    tensors->bias = calloc((size_t)p->y[1], sizeof(float));
    for (int64_t o = 0; o < p->y[1]; o++)
        tensors->bias[o] = draw(9, (uint64_t)o);
    tensors->operands.bias = allocate_device((size_t)p->y[1] * sizeof(float));
    expect_cuda(cudaMemcpy(tensors->operands.bias, tensors->bias, (size_t)p->y[1] * sizeof(float),
                           cudaMemcpyHostToDevice),
                "bias");
    if (p->bias)
        for (int64_t i = 0; i < elements(p->y); i++)
            tensors->want[2][i] = tensors->bias[i % p->y[1]];
    add_products(p, tensors->want[0], tensors->want[1], tensors->want[2]);
}

static void release_tensors(struct tensors *tensors)
{
    for (int t = 0; t < 3; t++)
        free(tensors->want[t]);
    free(tensors->bias);
    cudaFree(tensors->operands.x);
    cudaFree(tensors->operands.weight);
    cudaFree(tensors->operands.y);
    cudaFree(tensors->operands.bias);
}

static double compare(const struct convolution_problem *p, const struct tensors *tensors)
{
    static const int result[] = {2, 0, 1};
    int t = result[p->pass];
    int64_t count = elements(tensors->extent[t]);
    size_t bytes = (size_t)count * type_bytes(tensors->type[t]);
    void *from[] = {tensors->operands.x, tensors->operands.weight, tensors->operands.y};
    void *host = malloc(bytes);
    double error = 0, scale = 0;

    expect_cuda(cudaMemcpy(host, from[t], bytes, cudaMemcpyDeviceToHost), "result");
    for (int64_t i = 0; i < count; i++) {
        double want = tensors->want[t][i], difference = load(host, i, tensors->type[t]) - want;

        error += difference * difference;
        scale += want * want;
    }
    free(host);
    return scale > 0 ? error / scale : error;
}

/* ---- checks ------------------------------------------------------------------------------------
 */

static void print_choice(const struct convolution_choice *choice)
{
    printf("%s engine %lld", choice->compiles ? "compiled" : "", (long long)choice->engine);
    for (int32_t k = 0; k < choice->knob_count; k++)
        printf("%c%d=%lld", k ? ',' : ' ', choice->knobs[k].type,
               (long long)choice->knobs[k].value);
}

/* The worst of all plans; -1: there is none. */
static double check_plans(const struct cudnn *cudnn, const struct convolution_problem *problem,
                          struct tensors *tensors, double limit, int *plans)
{
    struct convolution_choice choices[CHOICES_MAX];
    struct convolution_graph *graph = NULL;
    struct error error = {0};
    double worst = -1;
    int count;

    *plans = 0;
    if (convolution_graph_make(cudnn, problem, &graph, &error) < 0)
        return -1;
    count = convolution_graph_choices(graph, choices, 6);
    for (int i = 0; i < count; i++) {
        struct convolution_plan plan;
        double nmse;

        if (choices[i].compiles && *plans > 0)
            continue;
        if (convolution_plan_make(graph, &choices[i], &plan, &error) < 0)
            continue;
        tensors->operands.workspace = allocate_device(plan.workspace_bytes);
        if (convolution_plan_run(&plan, &tensors->operands, &error) < 0)
            printf("    %s\n", error.text);
        else {
            expect_cuda(cudaDeviceSynchronize(), "plan");
            nmse = compare(problem, tensors);
            ++*plans;
            if (!(nmse <= worst))
                worst = nmse;
            if (!(nmse <= limit)) {
                printf("    NMSE %.1e: ", nmse);
                print_choice(&choices[i]);
                printf("\n");
            }
        }
        cudaFree(tensors->operands.workspace);
        convolution_plan_free(&plan);
    }
    convolution_graph_free(graph);
    return worst;
}

static const struct precision {
    const char *name;
    enum tensor_type type;
    bool tf32;
    double limit; /* float32's is that of the operators; else some times what rounding the operands
                     and the result to the nearest gives */
} precisions[] = {{"float32", TENSOR_FLOAT32, false, 1e-10},
                  {"tf32", TENSOR_FLOAT32, true, 1e-6},
                  {"bfloat16", TENSOR_BFLOAT16, false, 1e-5},
                  {"float16", TENSOR_FLOAT16, false, 2e-7}};

/* ---- our own kernels ---------------------------------------------------------------------------
 */

enum { PART_BYTES = 8 << 20 };

static cudaError_t run_depthwise(const struct convolution_problem *p,
                                 const struct convolution_operands *operands, bool accumulate,
                                 cudaStream_t stream)
{
    const struct cuda_depthwise depthwise = {.type = (int)p->type,
                                             .batch = (int)p->x[0],
                                             .channels = (int)p->x[1],
                                             .height = (int)p->x[2],
                                             .width = (int)p->x[3],
                                             .out_height = (int)p->y[2],
                                             .out_width = (int)p->y[3],
                                             .kernel = (int)p->weight[2],
                                             .stride = (int)p->stride[0]};
    const struct cuda_depthwise_operands places = {.x = operands->x,
                                                   .y = operands->y,
                                                   .weight = operands->weight,
                                                   .bias = p->bias ? operands->bias : NULL,
                                                   .gradient = operands->weight,
                                                   .accumulate = accumulate,
                                                   .parts = operands->workspace,
                                                   .part_bytes = PART_BYTES};

    return cuda_depthwise(&depthwise, (enum cuda_depthwise_pass)p->pass, &places, stream);
}

static cudaError_t run_stem(const struct convolution_problem *p,
                            const struct convolution_operands *operands, bool accumulate,
                            cudaStream_t stream)
{
    const struct cuda_stem stem = {.type = (int)p->type,
                                   .batch = (int)p->x[0],
                                   .channels = (int)p->x[1],
                                   .height = (int)p->x[2],
                                   .width = (int)p->x[3],
                                   .outputs = (int)p->y[1],
                                   .out_height = (int)p->y[2],
                                   .out_width = (int)p->y[3],
                                   .stride = (int)p->stride[0]};
    bool by_weights = p->pass == CONVOLUTION_WEIGHTS;
    const struct cuda_stem_operands places = {.x = operands->x,
                                              .weight = operands->weight,
                                              .y = operands->y,
                                              .bias = p->bias ? operands->bias : NULL,
                                              .gradient = by_weights ? operands->weight : NULL,
                                              .accumulate = accumulate,
                                              .parts = operands->workspace,
                                              .part_bytes = PART_BYTES};

    return cuda_stem_is_possible(&stem) ? cuda_stem(&stem, &places, stream) : cudaErrorInvalidValue;
}

typedef cudaError_t own_kernel(const struct convolution_problem *p,
                               const struct convolution_operands *operands, bool accumulate,
                               cudaStream_t stream);

static const struct own_case {
    enum convolution_pass pass;
    bool bias, accumulate;
    const char *name;
} own_cases[] = {{CONVOLUTION_FORWARD, false, false, "forward"},
                 {CONVOLUTION_FORWARD, true, false, "with bias"},
                 {CONVOLUTION_DATA, false, false, "data"},
                 {CONVOLUTION_WEIGHTS, false, false, "weights"},
                 {CONVOLUTION_WEIGHTS, false, true, "accumulated"}};

/* Twice where it accumulates. */
static double check_own_case(const struct layer *layer, int64_t batch, enum tensor_type type,
                             const struct own_case *own, own_kernel *run)
{
    struct convolution_problem problem = problem_of(layer, batch, own->pass, type);
    struct tensors tensors;
    double nmse;

    problem.bias = own->bias;
    if (own->pass == CONVOLUTION_WEIGHTS)
        problem.result = TENSOR_FLOAT32;
    make_tensors(&problem, &tensors);
    tensors.operands.workspace = allocate_device(PART_BYTES);
    expect_cuda(run(&problem, &tensors.operands, false, NULL), "own kernel");
    if (own->accumulate) {
        expect_cuda(run(&problem, &tensors.operands, true, NULL), "own kernel");
        for (int64_t i = 0; i < elements(problem.weight); i++)
            tensors.want[1][i] *= 2;
    }
    expect_cuda(cudaDeviceSynchronize(), "own kernel");
    nmse = compare(&problem, &tensors);
    cudaFree(tensors.operands.workspace);
    release_tensors(&tensors);
    return nmse;
}

static int check_own(const struct layer *layer, int64_t batch, bool stem)
{
    int failed = 0;

    printf("%s %lldx%dx%dx%d -> %d, %dx%d, stride %d\n", stem ? "stem" : "depthwise",
           (long long)batch, layer->channels, layer->size, layer->size, layer->outputs,
           layer->kernel, layer->kernel, layer->stride);
    for (int t = 0; t < 4; t++) {
        if (precisions[t].tf32 || (stem && precisions[t].type == TENSOR_FLOAT32))
            continue;
        printf("  %-8s", precisions[t].name);
        for (size_t i = 0; i < sizeof own_cases / sizeof *own_cases; i++) {
            double nmse;

            if (stem && own_cases[i].pass == CONVOLUTION_DATA)
                continue;
            nmse = check_own_case(layer, batch, precisions[t].type, &own_cases[i],
                                  stem ? run_stem : run_depthwise);
            printf("  %s %.1e", own_cases[i].name, nmse);
            failed += !(nmse <= precisions[t].limit);
        }
        printf("\n");
    }
    return failed;
}

static int check_all_own(void)
{
    static const struct layer depthwise[] = {
        {24, 9, 24, 3, 1, 1, 1, 24, 1},  {40, 8, 40, 3, 2, 1, 1, 40, 1},
        {8, 7, 8, 3, 2, 1, 1, 8, 1},     {96, 11, 96, 5, 1, 2, 1, 96, 1},
        {16, 13, 16, 5, 2, 2, 1, 16, 1}, {264, 5, 264, 3, 1, 1, 1, 264, 1}};
    static const struct layer stems[] = {
        {3, 32, 64, 3, 1, 1, 1, 1, 1}, {3, 11, 32, 3, 1, 1, 1, 1, 1},
        {3, 15, 96, 3, 2, 1, 1, 1, 1}, {1, 28, 64, 3, 1, 1, 1, 1, 1},
        {1, 9, 32, 3, 2, 1, 1, 1, 1},  {3, 40, 128, 3, 2, 1, 1, 1, 1}};
    int failed = 0;

    for (size_t i = 0; i < sizeof depthwise / sizeof *depthwise; i++)
        failed += check_own(&depthwise[i], 3, false);
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        failed += check_own(&stems[i], 3, true);
    return failed;
}

static int check_case(const struct cudnn *cudnn, const struct layer *layer, int64_t batch)
{
    int failed = 0;

    printf("%3lldx%dx%dx%d -> %d, %dx%d, stride %d, padding %d, dilation %d, groups %d\n",
           (long long)batch, layer->channels, layer->size, layer->size, layer->outputs,
           layer->kernel, layer->kernel, layer->stride, layer->padding, layer->dilation,
           layer->groups);
    for (int t = 0; t < 4; t++) {
        printf("  %-8s", precisions[t].name);
        for (int way = 0; way < 5; way++) { /* and float32 from 16 bits; with bias */
            enum convolution_pass pass = way < 3    ? (enum convolution_pass)way
                                         : way == 3 ? CONVOLUTION_WEIGHTS
                                                    : CONVOLUTION_FORWARD;
            struct convolution_problem problem = problem_of(layer, batch, pass, precisions[t].type);
            struct tensors tensors;
            double worst;
            int plans;

            if ((way == 3 && (t < 2 || layer->channels != 16 || layer->groups > 1)) ||
                (way == 4 && layer->channels != 16))
                continue;
            problem.tf32 = precisions[t].tf32;
            problem.bias = way == 4;
            if (way == 3)
                problem.result = TENSOR_FLOAT32;
            make_tensors(&problem, &tensors);
            worst = check_plans(cudnn, &problem, &tensors, precisions[t].limit, &plans);
            printf("  %s%s %.1e (%d)", pass_text[pass],
                   way == 3   ? " to float32"
                   : way == 4 ? " with bias"
                              : "",
                   worst, plans);
            failed += worst < 0 ? way < 3 : !(worst <= precisions[t].limit);
            release_tensors(&tensors);
        }
        printf("\n");
    }
    return failed;
}

static int check_all(const struct cudnn *cudnn)
{
    static const struct layer layers[] = {
        {16, 9, 24, 3, 1, 1, 1, 1, 1}, {3, 12, 16, 3, 1, 1, 1, 1, 1},
        {8, 10, 16, 3, 2, 1, 1, 1, 1}, {16, 8, 32, 1, 2, 0, 1, 1, 1},
        {5, 11, 7, 3, 1, 0, 1, 1, 1},  {32, 12, 16, 3, 1, 2, 2, 1, 1},
        {16, 9, 32, 3, 1, 1, 1, 4, 1}, {24, 9, 24, 3, 2, 1, 1, 24, 1},
        {8, 14, 8, 5, 1, 2, 1, 8, 1},
    };
    int failed = check_all_own();

    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        failed += check_case(cudnn, &layers[i], 4);
    printf("%d failed\n", failed);
    return failed;
}

/* ---- times -------------------------------------------------------------------------------------
 */

struct candidate {
    struct convolution_choice choice;
    struct convolution_plan plan;
    bool made;
    double build_seconds, microseconds;
};

struct task {
    char name[64];
    struct convolution_problem problem;
    int count, sum; /* of the layer in the network; which total it belongs to, -1: none */
    struct cudnn *cudnn;
    struct convolution_graph *graph;
    struct candidate candidates[CHOICES_MAX];
    int candidate_count;
    double heuristic_seconds;
    char error[200];
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct task tasks[512];
static int task_count;
static atomic_int next_task;
static double deadline;

static void build_task(struct task *task, struct cudnn *cudnn)
{
    struct convolution_choice choices[CHOICES_MAX];
    struct error error = {0};
    double start = now();
    int count;

    if (convolution_graph_make(cudnn, &task->problem, &task->graph, &error) < 0) {
        snprintf(task->error, sizeof task->error, "%.199s", error.text);
        return;
    }
    count = convolution_graph_choices(task->graph, choices, CHOICES_MAX);
    task->heuristic_seconds = now() - start;
    for (int i = 0; i < count && now() < deadline; i++) {
        struct candidate *candidate = &task->candidates[task->candidate_count];

        start = now();
        candidate->choice = choices[i];
        if (convolution_plan_make(task->graph, &choices[i], &candidate->plan, &error) < 0)
            continue;
        candidate->made = true;
        candidate->build_seconds = now() - start;
        task->candidate_count++;
    }
    if (!task->candidate_count)
        snprintf(task->error, sizeof task->error, "%d choices; %.150s", count, error.text);
}

static void *build_tasks(void *stream)
{
    struct cudnn *cudnn = NULL;
    struct error error = {0};

    cudaSetDevice(0);
    if (cudnn_open((cudaStream_t)stream, &cudnn, &error) < 0)
        return NULL;
    for (;;) {
        int i = atomic_fetch_add(&next_task, 1);

        if (i >= task_count || now() > deadline)
            return NULL;
        tasks[i].cudnn = cudnn;
        build_task(&tasks[i], cudnn);
    }
}

static void add_task(const char *name, const struct convolution_problem *problem, int count,
                     int sum)
{
    struct task *task = &tasks[task_count++];

    snprintf(task->name, sizeof task->name, "%s", name);
    task->problem = *problem;
    task->count = count;
    task->sum = sum;
}

enum { RUNS = 8 };

/* Negative: it failed. */
static double time_plan(struct convolution_plan *plan, const struct convolution_operands *operands,
                        cudaStream_t stream)
{
    struct error error = {0};
    double microseconds;

    if (convolution_plan_time(plan, operands, stream, RUNS, &microseconds, &error) == 0)
        return microseconds;
    printf("%s\n", error.text);
    return -1;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct candidate *)a)->microseconds;
    double y = ((const struct candidate *)b)->microseconds;

    return (x < 0) - (y < 0) ? (x < 0) - (y < 0) : (x > y) - (x < y);
}

static double sums[16][3];

/* What it takes to have the best plan again in another process. */
static void restore_plan(const struct task *task, const struct candidate *best)
{
    struct convolution_plan plan;
    struct error error = {0};
    size_t size = 0;
    char *text = convolution_plan_save(&best->plan, &size);
    double start = now(), again;
    int r = text ? convolution_plan_restore(task->graph, text, size, &plan, &error) : -1;

    again = now() - start;
    if (r == 0)
        convolution_plan_free(&plan);
    start = now();
    if (convolution_plan_make(task->graph, &best->choice, &plan, &error) == 0)
        convolution_plan_free(&plan);
    printf(" text %zu B, restored %.1f ms%s, made %.1f ms;", size, again * 1e3,
           r ? " (failed)" : "", (now() - start) * 1e3);
    free(text);
}

static void time_task(struct task *task, struct convolution_operands *operands,
                      size_t workspace_bytes, cudaStream_t stream)
{
    struct candidate *best = &task->candidates[0];
    int shown = 0;

    for (int i = 0; i < task->candidate_count; i++) {
        struct candidate *candidate = &task->candidates[i];

        task->cudnn->cudnnSetStream(task->cudnn->handle, stream);
        candidate->microseconds = candidate->plan.workspace_bytes > workspace_bytes
                                      ? -3
                                      : time_plan(&candidate->plan, operands, stream);
    }
    qsort(best, (size_t)task->candidate_count, sizeof *best, by_time);
    printf("%-44s", task->name);
    if (!task->candidate_count)
        printf(" none: %s\n", task->error);
    for (int i = 0; i < task->candidate_count && shown < 3; i++, shown++) {
        const struct candidate *c = &task->candidates[i];

        printf("%s%7.1f us %4.0f TF/s %4zu MB built %4.0f ms ", i ? "\n      " : "",
               c->microseconds, flops_of(&task->problem) / c->microseconds * 1e-6,
               c->plan.workspace_bytes >> 20, c->build_seconds * 1e3);
        print_choice(&c->choice);
    }
    if (task->candidate_count && best->microseconds > 0)
        restore_plan(task, best);
    printf(" of %d (heuristics %.0f ms)\n", task->candidate_count, task->heuristic_seconds * 1e3);
    if (task->sum >= 0 && task->candidate_count)
        sums[task->sum][task->problem.pass] += task->count * best->microseconds;
    fflush(stdout);
}

static const struct layer resnet18[] = {
    {3, 32, 64, 3, 1, 1, 1, 1, 1},   {64, 32, 64, 3, 1, 1, 1, 1, 4},
    {64, 32, 128, 3, 2, 1, 1, 1, 1}, {128, 16, 128, 3, 1, 1, 1, 1, 3},
    {64, 32, 128, 1, 2, 0, 1, 1, 1}, {128, 16, 256, 3, 2, 1, 1, 1, 1},
    {256, 8, 256, 3, 1, 1, 1, 1, 3}, {128, 16, 256, 1, 2, 0, 1, 1, 1},
    {256, 8, 512, 3, 2, 1, 1, 1, 1}, {512, 4, 512, 3, 1, 1, 1, 1, 3},
    {256, 8, 512, 1, 2, 0, 1, 1, 1},
};
enum { LAYERS = sizeof resnet18 / sizeof *resnet18 };

static void add_layer(const struct layer *layer, int64_t batch, enum convolution_pass pass,
                      enum tensor_type type, bool tf32, const char *variant, int sum)
{
    struct convolution_problem problem = problem_of(layer, batch, pass, type);
    char name[64];

    problem.tf32 = tf32;
    problem.statistics = strchr(variant, 's');
    problem.rectified = strchr(variant, 'r');
    problem.bias = strchr(variant, 'b');
    if (strchr(variant, 'f'))
        problem.result = TENSOR_FLOAT32;
    snprintf(name, sizeof name, "%s b%lld %d@%d>%d k%d/%d g%d %s %s",
             tf32 ? "tf32" : tensor_type_to_string(type), (long long)batch, layer->channels,
             layer->size, layer->outputs, layer->kernel, layer->stride, layer->groups,
             pass_text[pass], variant);
    add_task(name, &problem, layer->count, sum);
}

static void add_network(int64_t batch, enum tensor_type type, bool tf32, int sum)
{
    for (int i = 0; i < LAYERS; i++)
        for (int pass = 0; pass < CONVOLUTION_PASSES; pass++)
            if (i > 0 || pass != CONVOLUTION_DATA)
                add_layer(&resnet18[i], batch, (enum convolution_pass)pass, type, tf32, "", sum);
}

static void add_variants(void)
{
    static const struct layer padded[] = {{4, 32, 64, 3, 1, 1, 1, 1, 1},
                                          {8, 32, 64, 3, 1, 1, 1, 1, 1}};
    static const struct layer depthwise[] = {{192, 16, 192, 3, 1, 1, 1, 192, 1},
                                             {96, 32, 96, 3, 2, 1, 1, 96, 1},
                                             {128, 16, 128, 3, 1, 1, 1, 4, 1}};
    const enum tensor_type type = TENSOR_BFLOAT16;

    for (int i = 0; i < 2; i++) {
        add_layer(&padded[i], 512, CONVOLUTION_FORWARD, type, false, "", -1);
        add_layer(&padded[i], 512, CONVOLUTION_WEIGHTS, type, false, "", -1);
        add_layer(&padded[i], 512, CONVOLUTION_WEIGHTS, type, false, "f", -1);
    }
    for (int i = 0; i < LAYERS; i++) {
        add_layer(&resnet18[i], 512, CONVOLUTION_WEIGHTS, type, false, "f", -1);
        add_layer(&resnet18[i], 512, CONVOLUTION_FORWARD, type, false, "s", -1);
    }
    for (int i = 1; i < LAYERS; i += 2) {
        add_layer(&resnet18[i], 512, CONVOLUTION_FORWARD, type, false, "rs", -1);
        add_layer(&resnet18[i], 512, CONVOLUTION_FORWARD, type, false, "r", -1);
        add_layer(&resnet18[i], 512, CONVOLUTION_FORWARD, TENSOR_FLOAT16, false, "rs", -1);
    }
    add_layer(&resnet18[1], 512, CONVOLUTION_FORWARD, type, false, "b", -1);
    for (int i = 0; i < 3; i++)
        for (int pass = 0; pass < CONVOLUTION_PASSES; pass++)
            add_layer(&depthwise[i], 512, (enum convolution_pass)pass, type, false, "", -1);
}

/* Microseconds of our own kernels. */
static void time_own(const struct layer *layer, bool stem,
                     const struct convolution_operands *operands, cudaStream_t stream)
{
    own_kernel *kernel = stem ? run_stem : run_depthwise;

    for (int pass = 0; pass < CONVOLUTION_PASSES; pass++) {
        struct convolution_problem problem =
            problem_of(layer, 512, (enum convolution_pass)pass, TENSOR_BFLOAT16);
        double megabytes = (double)(elements(problem.x) + elements(problem.y)) * 2e-6;
        float milliseconds = 0;
        cudaEvent_t begin, end;

        if (stem && pass == CONVOLUTION_DATA)
            continue;
        cudaEventCreate(&begin);
        cudaEventCreate(&end);
        for (int run = 0; run < RUNS + 2; run++) {
            if (run == 2)
                cudaEventRecord(begin, stream);
            expect_cuda(kernel(&problem, operands, false, stream), "own kernel");
        }
        cudaEventRecord(end, stream);
        expect_cuda(cudaStreamSynchronize(stream), "own kernel");
        cudaEventElapsedTime(&milliseconds, begin, end);
        printf("own %s b512 %d@%d>%d k%d/%d %s: %.1f us, %.2f TB/s\n", stem ? "stem" : "depthwise",
               layer->channels, layer->size, layer->outputs, layer->kernel, layer->stride,
               pass_text[pass], milliseconds * 1e3 / RUNS, megabytes / (milliseconds * 1e3 / RUNS));
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
    }
}

static void time_all_own(const struct convolution_operands *operands, cudaStream_t stream)
{
    static const struct layer depthwise[] = {{192, 16, 192, 3, 1, 1, 1, 192, 1},
                                             {96, 32, 96, 3, 2, 1, 1, 96, 1},
                                             {960, 4, 960, 3, 1, 1, 1, 960, 1},
                                             {240, 16, 240, 5, 2, 2, 1, 240, 1}};
    static const struct layer stems[] = {{3, 32, 64, 3, 1, 1, 1, 1, 1},
                                         {3, 32, 32, 3, 1, 1, 1, 1, 1}};

    for (int i = 0; i < 4; i++)
        time_own(&depthwise[i], false, operands, stream);
    for (int i = 0; i < 2; i++)
        time_own(&stems[i], true, operands, stream);
}

static const struct total {
    const char *name;
    int64_t batch;
    enum tensor_type type;
    bool tf32;
} totals[] = {{"bfloat16 b128", 128, TENSOR_BFLOAT16, false},
              {"bfloat16 b512", 512, TENSOR_BFLOAT16, false},
              {"tf32 b512", 512, TENSOR_FLOAT32, true},
              {"bfloat16 b1024", 1024, TENSOR_BFLOAT16, false}};
enum { TOTALS = sizeof totals / sizeof *totals };

static void fill(void *to, size_t bytes, enum tensor_type type)
{
    enum { BLOCK = 1 << 22 };
    char *host = malloc((size_t)BLOCK * 4);

    for (int64_t i = 0; i < BLOCK; i++)
        store(host, i, draw(3, (uint64_t)i), type);
    for (size_t at = 0; at < bytes; at += BLOCK * type_bytes(type))
        cudaMemcpy((char *)to + at, host,
                   bytes - at < BLOCK * type_bytes(type) ? bytes - at : BLOCK * type_bytes(type),
                   cudaMemcpyHostToDevice);
    free(host);
}

static void time_all(double seconds, bool variants)
{
    enum { THREADS = 15 };
    const size_t tensor_bytes = 280u << 20, workspace_bytes = 1u << 30;
    struct convolution_operands operands[2] = {{0}};
    pthread_t threads[THREADS];
    cudaStream_t stream;
    double start = now(), end = start + seconds;

    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < TOTALS; i++)
        add_network(totals[i].batch, totals[i].type, totals[i].tf32, i);
    if (variants)
        add_variants();
    deadline = start + seconds * 0.6;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, build_tasks, stream);
    for (int i = 0; i < 2; i++) {
        void **part[] = {&operands[i].x, &operands[i].weight, &operands[i].y};

        for (int k = 0; k < 3; k++) {
            *part[k] = allocate_device(tensor_bytes);
            fill(*part[k], tensor_bytes, i ? TENSOR_FLOAT32 : TENSOR_BFLOAT16);
        }
        operands[i].bias = operands[i].scale = operands[i].shift =
            operands[1].weight ? operands[1].weight : operands[0].weight;
        operands[i].sum = allocate_device(1 << 16);
        operands[i].squares = allocate_device(1 << 16);
        operands[i].workspace = i ? operands[0].workspace : allocate_device(workspace_bytes);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    time_all_own(&operands[0], stream);
    printf("%d tasks built in %.1f s\n", task_count, now() - start);
    for (int i = 0; i < task_count && now() < end; i++)
        if (tasks[i].cudnn)
            time_task(&tasks[i], &operands[tasks[i].problem.type == TENSOR_FLOAT32],
                      workspace_bytes, stream);
    for (int i = 0; i < TOTALS; i++) {
        double sum = sums[i][0] + sums[i][1] + sums[i][2];

        printf("%s: forward %.0f, data %.0f, weights %.0f us: %.0f us, %.0f samples/s at most\n",
               totals[i].name, sums[i][0], sums[i][1], sums[i][2], sum,
               (double)totals[i].batch / sum * 1e6);
    }
}

int main(int argc, char **argv)
{
    struct cudnn *cudnn = NULL;
    struct error error = {0};
    char version[64];
    int failed = 0;

    if (cudaSetDevice(0) != cudaSuccess || cudnn_open(NULL, &cudnn, &error) == -ENOENT) {
        puts(error.code ? error.text : "no GPU");
        return 77;
    }
    if (error.code) {
        puts(error.text);
        return 1;
    }
    cudnn_describe(version, sizeof version);
    puts(version);
    if (argc > 2 && !strcmp(argv[1], "--time"))
        time_all(atof(argv[2]), argc > 3);
    else
        failed = check_all(cudnn);
    cudnn_close(cudnn);
    return failed > 0;
}
