/* convolution_search.c: see convolution_search.h. */
#include "engine/backends/cuda/convolution_search.h"

#include "base/alignment.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most images that are measured: this many keep any device busy. A search for the largest batch
 * that fits asks for many sizes. */
enum { IMAGES_MAX = 1024 };

/* The most plans that are tried for a convolution with groups that can be computed in another way.
 * Plans behind these launch a kernel for each group, and to measure all of them takes a second. */
enum { GROUPED_MAX = 8 };

struct convolution_search {
    const struct cudnn *cudnn;
    cudaStream_t stream;
    struct choices *choices;
};

/* ---- what is known --------------------------------------------------------------------------- */

/* Writes all that the choice depends on, without blanks. */
void convolution_search_key(const struct convolution_problem *p, char key[CHOICES_KEY_MAX])
{
    static const char *const passes[] = {"forward", "data", "weights"};
    int n = snprintf(key, CHOICES_KEY_MAX, "%s,%s>%s%s%s%s%s%s,g%" PRId32, passes[p->pass],
                     tensor_type_to_string(p->type), tensor_type_to_string(p->result),
                     p->tf32 ? ",tf32" : "", p->bias ? ",bias" : "", p->rectified ? ",relu" : "",
                     p->statistics ? ",sums" : "", p->nondeterministic ? ",nondeterministic" : "",
                     p->groups);

    for (int i = 0; i < 4; i++)
        n += snprintf(key + n, (size_t)(CHOICES_KEY_MAX - n), ",%" PRId64, p->x[i]);
    for (int i = 0; i < 4; i++)
        n += snprintf(key + n, (size_t)(CHOICES_KEY_MAX - n), ",%" PRId64, p->weight[i]);
    for (int i = 0; i < 2; i++)
        n += snprintf(key + n, (size_t)(CHOICES_KEY_MAX - n), ",%" PRId64 "/%" PRId64 "/%" PRId64,
                      p->stride[i], p->padding[i], p->dilation[i]);
}

/* Reads "<engine> <type>=<value> …". */
static bool parse_choice(const char *text, struct convolution_choice *choice)
{
    int at = 0, used;

    *choice = (struct convolution_choice){0};
    if (sscanf(text, "%" SCNd64 "%n", &choice->engine, &at) != 1)
        return false;
    while (choice->knob_count < CONVOLUTION_KNOBS_MAX &&
           sscanf(text + at, " %" SCNd32 "=%" SCNd64 "%n", &choice->knobs[choice->knob_count].type,
                  &choice->knobs[choice->knob_count].value, &used) == 2) {
        choice->knob_count++;
        at += used;
    }
    return text[at] == '\0';
}

static void format_choice(const struct convolution_choice *choice, char text[CHOICES_TEXT_MAX])
{
    int n = snprintf(text, CHOICES_TEXT_MAX, "%" PRId64, choice->engine);

    for (int32_t i = 0; i < choice->knob_count; i++)
        n += snprintf(text + n, CHOICES_TEXT_MAX - (size_t)n, " %" PRId32 "=%" PRId64,
                      choice->knobs[i].type, choice->knobs[i].value);
}

int convolution_search_open(const struct cudnn *cudnn, cudaStream_t stream, const char *file,
                            struct convolution_search **result, struct error *error)
{
    struct convolution_search *search = calloc(1, sizeof *search);

    if (!search)
        return error_no_memory(error, "convolutions");
    search->cudnn = cudnn;
    search->stream = stream;
    *result = search;
    return choices_open(stream, file, &search->choices, error);
}

struct choices *convolution_search_choices(struct convolution_search *search)
{
    return search->choices;
}

void convolution_search_close(struct convolution_search *search)
{
    if (!search)
        return;
    choices_close(search->choices);
    free(search);
}

/* ---- measurements ---------------------------------------------------------------------------- */

/* A plan with its operands. */
struct plan_run {
    struct convolution_plan *plan;
    const struct convolution_operands *operands;
};

static int launch_plan(void *context, struct error *error)
{
    const struct plan_run *run = context;

    return convolution_plan_run(run->plan, run->operands, error);
}

int convolution_plan_time(struct convolution_plan *plan,
                          const struct convolution_operands *operands, cudaStream_t stream,
                          int runs, double *microseconds, struct error *error)
{
    struct plan_run run = {plan, operands};

    return choices_time(stream, launch_plan, &run, runs, microseconds, error);
}

static size_t operand_bytes(const int64_t extent[4])
{
    return (size_t)(extent[0] * extent[1] * extent[2] * extent[3]) * sizeof(float);
}

bool convolution_search_operands(struct convolution_search *search,
                                 const struct convolution_problem *problem, size_t workspace_bytes,
                                 struct convolution_operands *operands)
{
    /* behind y come the bias or two sums of y's channels, or scale and shift of x's */
    size_t y_bytes = operand_bytes(problem->y);
    size_t x_channels = (size_t)problem->x[1] * sizeof(float);
    size_t y_channels = align_up((size_t)problem->y[1], 4) * sizeof(float);
    char *x, *weight, *behind, *workspace;

    x_channels = align_up(x_channels, 16);
    x = choices_memory(search->choices, 0, operand_bytes(problem->x));
    weight = choices_memory(search->choices, 1, operand_bytes(problem->weight));
    behind = choices_memory(search->choices, 2, y_bytes + 16 + 2 * x_channels + 3 * y_channels);
    workspace = choices_memory(search->choices, 3, workspace_bytes + 1);
    if (!x || !weight || !behind || !workspace)
        return false;
    *operands = (struct convolution_operands){
        .x = x, .weight = weight, .y = behind, .workspace = workspace};
    behind += align_up(y_bytes, 16);
    operands->scale = behind;
    operands->shift = behind + x_channels;
    operands->bias = behind + 2 * x_channels;
    operands->sum = behind + 2 * x_channels + y_channels;
    operands->squares = behind + 2 * x_channels + 2 * y_channels;
    return true;
}

struct candidate {
    struct convolution_choice choice;
    struct convolution_plan plan;
};

/* Makes the candidates' plans. Plans whose code must be compiled are made only if there are no
 * others. */
static int make_candidates(struct convolution_graph *graph, bool compile, int most,
                           struct candidate *candidates)
{
    struct convolution_choice choices[CHOICES_WAYS_MAX];
    int found = convolution_graph_choices(graph, choices, CHOICES_WAYS_MAX), count = 0;
    struct error ignored;

    for (int compiles = 0; compiles <= (int)compile && count == 0; compiles++) {
        for (int i = 0; i < found && count < most; i++) {
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

/* Finds the fastest plan. -1: none is faster than the limit; -ENOMEM: there is no memory. */
static int measure_candidates(struct convolution_search *search,
                              const struct convolution_problem *problem,
                              struct candidate *candidates, int count, double limit)
{
    struct convolution_operands operands;
    struct plan_run runs[CHOICES_WAYS_MAX];
    void *contexts[CHOICES_WAYS_MAX];
    double microseconds[CHOICES_WAYS_MAX];
    size_t workspace_bytes = 0;

    for (int i = 0; i < count; i++) {
        if (candidates[i].plan.workspace_bytes > workspace_bytes)
            workspace_bytes = candidates[i].plan.workspace_bytes;
        runs[i] = (struct plan_run){&candidates[i].plan, &operands};
        contexts[i] = &runs[i];
    }
    if (!convolution_search_operands(search, problem, workspace_bytes, &operands))
        return -ENOMEM;
    return choices_fastest(search->choices, launch_plan, contexts, count, limit, microseconds);
}

static int search_fastest(struct convolution_search *search,
                          const struct convolution_problem *problem, const char *key, bool compile,
                          double limit, struct convolution_graph *graph,
                          struct convolution_plan *plan, struct error *error)
{
    struct candidate candidates[CHOICES_WAYS_MAX];
    bool beside = problem->groups > 1 && isfinite(limit);
    int count =
        make_candidates(graph, compile, beside ? GROUPED_MAX : CHOICES_WAYS_MAX, candidates);
    int best;
    char text[CHOICES_TEXT_MAX];

    if (count == 0)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "this cuDNN, on this device, has no way to do a "
                         "convolution (%s)",
                         key);
    best = measure_candidates(search, problem, candidates, count, limit);
    if (best == -1 && isfinite(limit)) {
        for (int i = 0; i < count; i++)
            convolution_plan_free(&candidates[i].plan);
        return -ERROR_SLOWER;
    }
    if (best >= 0) {
        format_choice(&candidates[best].choice, text);
        choices_add(search->choices, key, text);
    }
    best = best < 0 ? 0 : best;
    *plan = candidates[best].plan;
    for (int i = 0; i < count; i++)
        if (i != best)
            convolution_plan_free(&candidates[i].plan);
    return 0;
}

/* The problem that is measured instead: its batch is the power of two below the problem's. */
struct convolution_problem convolution_search_measured(const struct convolution_problem *problem)
{
    struct convolution_problem measured = *problem;
    int64_t images = 1;

    while (2 * images <= problem->x[0] && 2 * images <= IMAGES_MAX)
        images *= 2;
    measured.x[0] = measured.y[0] = images;
    return measured;
}

/* Searches a choice for the key if there is none. */
static int search_measured(struct convolution_search *search,
                           const struct convolution_problem *measured, const char *key,
                           bool compile, double limit, struct error *error)
{
    struct convolution_graph *graph;
    struct convolution_plan plan;
    int r = 0;

    if (choices_find(search->choices, key))
        return 0;
    r = convolution_graph_make(search->cudnn, measured, &graph, error);
    if (r < 0)
        return r;
    r = search_fastest(search, measured, key, compile, limit, graph, &plan, error);
    if (r == 0)
        convolution_plan_free(&plan);
    convolution_graph_free(graph);
    return r;
}

/* Makes the problem's plan from the choice for the key. False: no choice works for it. */
static bool make_known(const struct convolution_search *search, const char *key,
                       struct convolution_graph *graph, struct convolution_plan *plan)
{
    const char *text = choices_find(search->choices, key);
    struct convolution_choice choice;
    struct error ignored;

    if (!text || !parse_choice(text, &choice) ||
        convolution_plan_make(graph, &choice, plan, &ignored) < 0)
        return false;
    if (plan->workspace_bytes <= CONVOLUTION_WORKSPACE_MAX)
        return true;
    convolution_plan_free(plan);
    return false;
}

int convolution_search_plan(struct convolution_search *search,
                            const struct convolution_problem *problem, bool compile, double limit,
                            struct convolution_graph **graph, struct convolution_plan *plan,
                            struct error *error)
{
    const struct convolution_problem measured = convolution_search_measured(problem);
    char key[CHOICES_KEY_MAX], measured_key[CHOICES_KEY_MAX];
    int r;

    convolution_search_key(problem, key);
    convolution_search_key(&measured, measured_key);
    r = search_measured(search, &measured, measured_key, compile, limit, error);
    if (r == 0 || (r == -ERROR_UNSUPPORTED && strcmp(key, measured_key) != 0))
        r = convolution_graph_make(search->cudnn, problem, graph, error);
    if (r < 0 || make_known(search, measured_key, *graph, plan) ||
        make_known(search, key, *graph, plan))
        return r;
    r = search_fastest(search, problem, key, compile, INFINITY, *graph, plan, error);
    if (r < 0) {
        convolution_graph_free(*graph);
        *graph = NULL;
    }
    return r;
}
