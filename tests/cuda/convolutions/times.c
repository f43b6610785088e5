/* times.c: measures how fast cuDNN's plans for the convolutions of ResNet-18 are, and our own
 * kernels. Many threads make the plans, because some must be compiled. The plans are timed one
 * after the other. */
#include "base/clock.h"
#include "tests/cuda/convolutions/convolutions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 60 };

static double flops_of(const struct convolution_problem *problem)
{
    return 2.0 * (double)elements(problem->y) *
           (double)(problem->weight[1] * problem->weight[2] * problem->weight[3]);
}

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

static struct task tasks[512];
static int task_count;
static atomic_int next_task;
static double deadline;

static void build_task(struct task *task, struct cudnn *cudnn)
{
    struct convolution_choice choices[CHOICES_MAX];
    struct error error = {0};
    double start = clock_monotonic();
    int count;

    if (convolution_graph_make(cudnn, &task->problem, &task->graph, &error) < 0) {
        snprintf(task->error, sizeof task->error, "%.199s", error.text);
        return;
    }
    count = convolution_graph_choices(task->graph, choices, CHOICES_MAX);
    task->heuristic_seconds = clock_monotonic() - start;
    for (int i = 0; i < count && clock_monotonic() < deadline; i++) {
        struct candidate *candidate = &task->candidates[task->candidate_count];

        start = clock_monotonic();
        candidate->choice = choices[i];
        if (convolution_plan_make(task->graph, &choices[i], &candidate->plan, &error) < 0)
            continue;
        candidate->made = true;
        candidate->build_seconds = clock_monotonic() - start;
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

        if (i >= task_count || clock_monotonic() > deadline)
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

    if ((x < 0) != (y < 0))
        return x < 0 ? 1 : -1;
    return (x > y) - (x < y);
}

static double sums[16][3];

/* Measures how long another process takes to make the best plan again. */
static void restore_plan(const struct task *task, const struct candidate *best)
{
    struct convolution_plan plan;
    struct error error = {0};
    size_t size = 0;
    char *text = convolution_plan_save(&best->plan, &size);
    double start = clock_monotonic(), again;
    int r = text ? convolution_plan_restore(task->graph, text, size, &plan, &error) : -1;

    again = clock_monotonic() - start;
    if (r == 0)
        convolution_plan_free(&plan);
    start = clock_monotonic();
    if (convolution_plan_make(task->graph, &best->choice, &plan, &error) == 0)
        convolution_plan_free(&plan);
    printf(" text %zu B, restored %.1f ms%s, made %.1f ms;", size, again * 1e3,
           r ? " (failed)" : "", (clock_monotonic() - start) * 1e3);
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

void time_convolutions(double seconds, bool variants)
{
    enum { THREADS = 15 };
    const size_t tensor_bytes = 280u << 20, workspace_bytes = 1u << 30;
    struct convolution_operands operands[2] = {{0}};
    pthread_t threads[THREADS];
    cudaStream_t stream;
    double start = clock_monotonic(), end = start + seconds;

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
    printf("%d tasks built in %.1f s\n", task_count, clock_monotonic() - start);
    for (int i = 0; i < task_count && clock_monotonic() < end; i++)
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
