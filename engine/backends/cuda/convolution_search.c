/* convolution_search.c: see convolution_search.h. */
#include "engine/backends/cuda/convolution_search.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_MAX = 192,
    CHOICES_MAX = 24,
    FINALISTS_MAX = 4,
    FIRST_RUNS = 3, /* of each, and of those that were the fastest in these */
    FINAL_RUNS = 10,
    /* Images that are measured at most: these fill any device, and who looks for the largest batch
     * that fits asks for many sizes. */
    IMAGES_MAX = 1024
};

struct known {
    char key[KEY_MAX];
    struct convolution_choice choice;
};

struct convolution_search {
    const struct cudnn *cudnn;
    cudaStream_t stream;
    char *file;
    struct known *known; /* owned */
    int count, capacity;
    struct {
        void *at;
        size_t bytes;
    } scratch[4]; /* x, weight, y with all that is small, workspace */
};

/* ---- what is known -----------------------------------------------------------------------------
 */

/* All that the choice depends on, without blanks. */
static void write_key(const struct convolution_problem *p, char key[KEY_MAX])
{
    static const char *const passes[] = {"forward", "data", "weights"};
    int n = snprintf(key, KEY_MAX, "%s,%s>%s%s%s%s%s%s,g%" PRId32, passes[p->pass],
                     tensor_type_to_string(p->type), tensor_type_to_string(p->result),
                     p->tf32 ? ",tf32" : "", p->bias ? ",bias" : "", p->rectified ? ",relu" : "",
                     p->statistics ? ",sums" : "", p->nondeterministic ? ",nondeterministic" : "",
                     p->groups);

    for (int i = 0; i < 4; i++)
        n += snprintf(key + n, (size_t)(KEY_MAX - n), ",%" PRId64, p->x[i]);
    for (int i = 0; i < 4; i++)
        n += snprintf(key + n, (size_t)(KEY_MAX - n), ",%" PRId64, p->weight[i]);
    for (int i = 0; i < 2; i++)
        n += snprintf(key + n, (size_t)(KEY_MAX - n), ",%" PRId64 "/%" PRId64 "/%" PRId64,
                      p->stride[i], p->padding[i], p->dilation[i]);
}

static const struct known *find_known(const struct convolution_search *search, const char *key)
{
    for (int i = 0; i < search->count; i++)
        if (strcmp(search->known[i].key, key) == 0)
            return &search->known[i];
    return NULL;
}

static void add_known(struct convolution_search *search, const char *key,
                      const struct convolution_choice *choice)
{
    struct known *known = search->known;

    if (search->count == search->capacity) {
        int capacity = search->capacity ? 2 * search->capacity : 64;

        known = realloc(known, (size_t)capacity * sizeof *known);
        if (!known)
            return; /* it will be measured again */
        search->known = known;
        search->capacity = capacity;
    }
    known += search->count++;
    snprintf(known->key, sizeof known->key, "%s", key);
    known->choice = *choice;
}

/* "<key> <engine> <type>=<value> …" */
static bool parse_line(const char *line, char key[KEY_MAX], struct convolution_choice *choice)
{
    int at = 0, used;

    *choice = (struct convolution_choice){0};
    if (sscanf(line, "%191s %" SCNd64 "%n", key, &choice->engine, &at) != 2)
        return false;
    while (choice->knob_count < CONVOLUTION_KNOBS_MAX &&
           sscanf(line + at, " %" SCNd32 "=%" SCNd64 "%n", &choice->knobs[choice->knob_count].type,
                  &choice->knobs[choice->knob_count].value, &used) == 2) {
        choice->knob_count++;
        at += used;
    }
    return strcmp(line + at, "\n") == 0;
}

/* The first line of a problem counts: processes that measured at the same time agree later. */
static void read_known(struct convolution_search *search)
{
    FILE *file = search->file ? fopen(search->file, "re") : NULL;
    struct convolution_choice choice;
    char *line = NULL, key[KEY_MAX];
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0)
        if (parse_line(line, key, &choice) && !find_known(search, key))
            add_known(search, key, &choice);
    free(line);
    if (file)
        fclose(file);
}

/* One write of one line: lines of other processes are not cut. */
static void append_known(const struct convolution_search *search, const char *key,
                         const struct convolution_choice *choice)
{
    char line[KEY_MAX + 32 + CONVOLUTION_KNOBS_MAX * 32];
    int n = snprintf(line, sizeof line, "%s %" PRId64, key, choice->engine);
    int file =
        search->file ? open(search->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;

    if (file < 0)
        return;
    for (int32_t i = 0; i < choice->knob_count; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %" PRId32 "=%" PRId64,
                      choice->knobs[i].type, choice->knobs[i].value);
    line[n++] = '\n';
    (void)!write(file, line, (size_t)n); /* a line that is not whole is not read */
    close(file);
}

int convolution_search_open(const struct cudnn *cudnn, cudaStream_t stream, const char *file,
                            struct convolution_search **result, struct error *error)
{
    struct convolution_search *search = calloc(1, sizeof *search);

    if (search) {
        search->cudnn = cudnn;
        search->stream = stream;
        search->file = file ? strdup(file) : NULL;
    }
    if (!search || (file && !search->file)) {
        free(search);
        return error_set(error, -ENOMEM, "no memory for convolutions");
    }
    read_known(search);
    *result = search;
    return 0;
}

void convolution_search_keep(struct convolution_search *search, const char *file)
{
    if (search->file)
        return;
    search->file = strdup(file);
    read_known(search);
}

void convolution_search_trim(struct convolution_search *search)
{
    for (size_t i = 0; i < sizeof search->scratch / sizeof *search->scratch; i++) {
        cudaFree(search->scratch[i].at);
        search->scratch[i].at = NULL;
        search->scratch[i].bytes = 0;
    }
}

void convolution_search_close(struct convolution_search *search)
{
    if (!search)
        return;
    convolution_search_trim(search);
    free(search->known);
    free(search->file);
    free(search);
}

/* ---- measurements ------------------------------------------------------------------------------
 */

static int capture_runs(struct convolution_plan *plan, const struct convolution_operands *operands,
                        cudaStream_t stream, int runs, cudaGraphExec_t *executable,
                        struct error *error)
{
    cudaGraph_t graph = NULL;
    int r = 0;

    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return error_set(error, -EIO, "a convolution cannot be captured");
    for (int i = 0; i < runs && r == 0; i++)
        r = convolution_plan_run(plan, operands, error);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess && r == 0)
        r = error_set(error, -EIO, "a convolution cannot be captured");
    if (r == 0 && cudaGraphInstantiate(executable, graph, 0) != cudaSuccess)
        r = error_set(error, -EIO, "a convolution cannot be made a CUDA graph");
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError(); /* is told already */
    return r;
}

int convolution_plan_time(struct convolution_plan *plan,
                          const struct convolution_operands *operands, cudaStream_t stream,
                          int runs, double *microseconds, struct error *error)
{
    cudaGraphExec_t executable = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    float milliseconds = 0;
    int r = convolution_plan_run(plan, operands, error); /* loads its code */

    if (r == 0)
        r = capture_runs(plan, operands, stream, runs, &executable, error);
    if (r < 0)
        return r;
    if (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess ||
        cudaGraphLaunch(executable, stream) != cudaSuccess ||
        cudaEventRecord(begin, stream) != cudaSuccess ||
        cudaGraphLaunch(executable, stream) != cudaSuccess ||
        cudaEventRecord(end, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess)
        r = error_set(error, -EIO, "a convolution failed: %s",
                      cudaGetErrorString(cudaGetLastError()));
    *microseconds = milliseconds * 1e3 / runs;
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    return r;
}

/* A place of so many bytes, whose numbers are small in every type. */
static bool take_scratch(struct convolution_search *search, int which, size_t bytes)
{
    if (search->scratch[which].bytes >= bytes)
        return true;
    cudaFree(search->scratch[which].at);
    search->scratch[which].at = NULL;
    search->scratch[which].bytes = 0;
    if (cudaMalloc(&search->scratch[which].at, bytes) != cudaSuccess) {
        cudaGetLastError();
        search->scratch[which].at = NULL;
        return false;
    }
    search->scratch[which].bytes = bytes;
    return cudaMemsetAsync(search->scratch[which].at, 0x3c, bytes, search->stream) == cudaSuccess;
}

static size_t operand_bytes(const int64_t extent[4])
{
    return (size_t)(extent[0] * extent[1] * extent[2] * extent[3]) * sizeof(float);
}

static bool take_operands(struct convolution_search *search,
                          const struct convolution_problem *problem, size_t workspace_bytes,
                          struct convolution_operands *operands)
{
    /* behind y: bias or two sums of y's channels, scale and shift of x's */
    size_t y_bytes = operand_bytes(problem->y);
    size_t x_channels = (size_t)problem->x[1] * sizeof(float);
    size_t y_channels = (size_t)(problem->y[1] + 3) / 4 * 4 * sizeof(float);
    char *behind;

    x_channels = (x_channels + 15) / 16 * 16;
    if (!take_scratch(search, 0, operand_bytes(problem->x)) ||
        !take_scratch(search, 1, operand_bytes(problem->weight)) ||
        !take_scratch(search, 2, y_bytes + 16 + 2 * x_channels + 3 * y_channels) ||
        !take_scratch(search, 3, workspace_bytes + 1))
        return false;
    behind = (char *)search->scratch[2].at + (y_bytes + 15) / 16 * 16;
    *operands = (struct convolution_operands){.x = search->scratch[0].at,
                                              .weight = search->scratch[1].at,
                                              .y = search->scratch[2].at,
                                              .scale = behind,
                                              .shift = behind + x_channels,
                                              .bias = behind + 2 * x_channels,
                                              .sum = behind + 2 * x_channels + y_channels,
                                              .squares = behind + 2 * x_channels + 2 * y_channels,
                                              .workspace = search->scratch[3].at};
    return true;
}

struct candidate {
    struct convolution_choice choice;
    struct convolution_plan plan;
    double microseconds;
};

static int by_time(const void *a, const void *b)
{
    double x = ((const struct candidate *)a)->microseconds;
    double y = ((const struct candidate *)b)->microseconds;

    return (x > y) - (x < y);
}

/* The candidates' plans; those whose code must be compiled only where there is no other. */
static int make_candidates(struct convolution_graph *graph, bool compile,
                           struct candidate *candidates)
{
    struct convolution_choice choices[CHOICES_MAX];
    int found = convolution_graph_choices(graph, choices, CHOICES_MAX), count = 0;
    struct error ignored;

    for (int compiles = 0; compiles <= (int)compile && count == 0; compiles++) {
        for (int i = 0; i < found; i++) {
            struct candidate *candidate = &candidates[count];

            if (choices[i].compiles != compiles ||
                convolution_plan_make(graph, &choices[i], &candidate->plan, &ignored) < 0)
                continue;
            candidate->choice = choices[i];
            if (candidate->plan.workspace_bytes <= CONVOLUTION_WORKSPACE_MAX)
                count++;
            else
                convolution_plan_free(&candidate->plan);
        }
    }
    return count;
}

/* Sorts them, the fastest first; returns how many of them ran, 0 too where there is no memory. */
static int measure_candidates(struct convolution_search *search,
                              const struct convolution_problem *problem,
                              struct candidate *candidates, int count)
{
    struct convolution_operands operands;
    struct error ignored;
    size_t workspace_bytes = 0;
    int ran = 0, finalists;

    for (int i = 0; i < count; i++)
        if (candidates[i].plan.workspace_bytes > workspace_bytes)
            workspace_bytes = candidates[i].plan.workspace_bytes;
    if (!take_operands(search, problem, workspace_bytes, &operands))
        return 0;
    for (int i = 0; i < count; i++) {
        if (convolution_plan_time(&candidates[i].plan, &operands, search->stream, FIRST_RUNS,
                                  &candidates[i].microseconds, &ignored) < 0)
            candidates[i].microseconds = 1e30;
        else
            ran++;
    }
    qsort(candidates, (size_t)count, sizeof *candidates, by_time);
    finalists = ran < FINALISTS_MAX ? ran : FINALISTS_MAX;
    for (int i = 0; i < finalists; i++)
        if (convolution_plan_time(&candidates[i].plan, &operands, search->stream, FINAL_RUNS,
                                  &candidates[i].microseconds, &ignored) < 0)
            candidates[i].microseconds = 1e30;
    qsort(candidates, (size_t)finalists, sizeof *candidates, by_time);
    return ran;
}

static int search_fastest(struct convolution_search *search,
                          const struct convolution_problem *problem, const char *key, bool compile,
                          struct convolution_graph *graph, struct convolution_plan *plan,
                          struct error *error)
{
    struct candidate candidates[CHOICES_MAX];
    int count = make_candidates(graph, compile, candidates), ran;

    if (count == 0)
        return error_set(error, -ENOTSUP,
                         "this cuDNN, on this device, has no way to do a "
                         "convolution (%s)",
                         key);
    ran = measure_candidates(search, problem, candidates, count);
    if (ran > 0) {
        add_known(search, key, &candidates[0].choice);
        append_known(search, key, &candidates[0].choice);
    }
    *plan = candidates[0].plan;
    for (int i = 1; i < count; i++)
        convolution_plan_free(&candidates[i].plan);
    return 0;
}

/* What is measured in place of the problem: a batch of the power of two below its own. */
static struct convolution_problem measured_problem(const struct convolution_problem *problem)
{
    struct convolution_problem measured = *problem;
    int64_t images = 1;

    while (2 * images <= problem->x[0] && 2 * images <= IMAGES_MAX)
        images *= 2;
    measured.x[0] = measured.y[0] = images;
    return measured;
}

/* Finds a choice for the key if there is none. */
static int search_measured(struct convolution_search *search,
                           const struct convolution_problem *measured, const char *key,
                           bool compile, struct error *error)
{
    struct convolution_graph *graph;
    struct convolution_plan plan;
    int r = 0;

    if (find_known(search, key))
        return 0;
    r = convolution_graph_make(search->cudnn, measured, &graph, error);
    if (r < 0)
        return r;
    r = search_fastest(search, measured, key, compile, graph, &plan, error);
    if (r == 0)
        convolution_plan_free(&plan);
    convolution_graph_free(graph);
    return r;
}

/* The problem's plan by the choice for the key; false: there is none that it can be done by. */
static bool make_known(const struct convolution_search *search, const char *key,
                       struct convolution_graph *graph, struct convolution_plan *plan)
{
    const struct known *known = find_known(search, key);
    struct error ignored;

    if (!known || convolution_plan_make(graph, &known->choice, plan, &ignored) < 0)
        return false;
    if (plan->workspace_bytes <= CONVOLUTION_WORKSPACE_MAX)
        return true;
    convolution_plan_free(plan);
    return false;
}

int convolution_search_plan(struct convolution_search *search,
                            const struct convolution_problem *problem, bool compile,
                            struct convolution_graph **graph, struct convolution_plan *plan,
                            struct error *error)
{
    const struct convolution_problem measured = measured_problem(problem);
    char key[KEY_MAX], measured_key[KEY_MAX];
    int r;

    write_key(problem, key);
    write_key(&measured, measured_key);
    r = search_measured(search, &measured, measured_key, compile, error);
    if (r == 0 || (r == -ENOTSUP && strcmp(key, measured_key) != 0))
        r = convolution_graph_make(search->cudnn, problem, graph, error);
    if (r < 0 || make_known(search, measured_key, *graph, plan) ||
        make_known(search, key, *graph, plan))
        return r;
    r = search_fastest(search, problem, key, compile, *graph, plan, error);
    if (r < 0) {
        convolution_graph_free(*graph);
        *graph = NULL;
    }
    return r;
}
