/* recurrent_ways.c: see recurrent_ways.h. */
#include "engine/backends/cuda/recurrent_ways.h"

#include "base/alignment.h"
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/linear_search.h"
#include "engine/graph/forward.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The steps that are measured: each takes as long as the others. */
enum { MEASURED_STEPS = 32, WAYS = 2 };

static const char *const recurrent_kind_names[] = {
    [RECURRENT_WHOLE] = "whole", [RECURRENT_STEPS] = "steps"};
DEFINE_STRING_TABLE(recurrent_kind, enum recurrent_kind, recurrent_kind_names)

static int64_t gates_of(const struct cuda_recurrent *shape)
{
    return recurrent_cell_gates(shape->cell) * shape->hidden;
}

/* ---- prepare --------------------------------------------------------------------------------- */

static bool prepare_whole(const struct recurrent_problem *problem, struct recurrent_way *way)
{
    *way = (struct recurrent_way){.kind = RECURRENT_WHOLE};
    if (!cuda_recurrent_plan(&problem->shape, problem->backward, &way->plan))
        return false;
    way->workspace_bytes = way->plan.workspace_bytes;
    return true;
}

/* Takes so many numbers at the end of the workspace; returns where they begin. */
static size_t reserve(struct recurrent_way *way, int64_t elements, enum tensor_type type)
{
    size_t offset = align_up(way->workspace_bytes, MEMORY_ALIGNMENT);

    way->workspace_bytes = offset + (size_t)elements * tensor_type_bytes(type);
    return offset;
}

static int prepare_steps(const struct cublaslt *cublaslt, const struct recurrent_problem *problem,
                         struct recurrent_way *way, struct error *error)
{
    const struct cuda_recurrent *shape = &problem->shape;
    enum tensor_type operands = (enum tensor_type)shape->compute;
    bool backward = problem->backward;
    const struct product_shape product = {.m = backward ? shape->hidden : gates_of(shape),
                                          .n = shape->batch,
                                          .k = backward ? gates_of(shape) : shape->hidden,
                                          .transpose_a = !backward,
                                          .operands = operands,
                                          .result = TENSOR_FLOAT32,
                                          .tf32 = problem->tf32};

    *way = (struct recurrent_way){.kind = RECURRENT_STEPS, .operands = operands};
    way->operand = reserve(way, product.n * product.k, operands);
    way->carried = reserve(way, shape->batch * shape->hidden, TENSOR_FLOAT32);
    way->sums = reserve(way, product.n * product.m, TENSOR_FLOAT32);
    if (operands != TENSOR_FLOAT32)
        way->weight = reserve(way, product.m * product.k, operands);
    return product_make(cublaslt, &product, &way->product, error);
}

void recurrent_way_free(struct recurrent_way *way)
{
    product_free(way->product);
    way->product = NULL;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static struct cuda_array array_of(const void *at, enum tensor_type type)
{
    return (struct cuda_array){.at = (void *)at, .type = (int)type};
}

/* Goes from step to step: the product of what the step before left, and a launch. */
static int launch_steps(const struct recurrent_way *way, const struct cuda_recurrent *r,
                        bool backward, char *workspace, void *scratch, cudaStream_t stream,
                        struct error *error)
{
    struct cuda_recurrent_step step = {.sums = (float *)(void *)(workspace + way->sums),
                                       .operand = array_of(workspace + way->operand, way->operands),
                                       .carried = (float *)(void *)(workspace + way->carried)};
    struct cuda_array weight = array_of(r->weight, TENSOR_FLOAT32);
    struct product_call call = {
        .b = step.operand.at, .result = workspace + way->sums, .alpha = 1, .scratch = scratch};
    cudaError_t status = cudaSuccess;
    int result = 0;

    if (way->operands != TENSOR_FLOAT32) {
        weight = array_of(workspace + way->weight, way->operands);
        status =
            cuda_cast(array_of(r->weight, TENSOR_FLOAT32), weight, gates_of(r) * r->hidden, stream);
    }
    call.a = weight.at;
    if (status == cudaSuccess && r->h0)
        status =
            cuda_cast(array_of(r->h0, TENSOR_FLOAT32), step.operand, r->batch * r->hidden, stream);
    for (; status == cudaSuccess && step.number < r->steps; step.number++) {
        if (step.number > 0 || r->h0)
            result = product_run(way->product, &call, stream, error);
        if (result < 0)
            return result;
        status = backward ? cuda_recurrent_step_backward(r, &step, stream)
                          : cuda_recurrent_step(r, &step, stream);
    }
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the steps of a recurrent layer");
}

int recurrent_launch(const struct recurrent_way *way, const struct cuda_recurrent *recurrent,
                     bool backward, char *workspace, void *scratch, cudaStream_t stream,
                     struct error *error)
{
    cudaError_t status;

    if (way->kind == RECURRENT_STEPS)
        return launch_steps(way, recurrent, backward, workspace, scratch, stream, error);
    status = backward ? cuda_recurrent_sequence_backward(recurrent, &way->plan, workspace, stream)
                      : cuda_recurrent_sequence(recurrent, &way->plan, workspace, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a recurrent layer in one launch");
}

/* ---- the search ------------------------------------------------------------------------------ */

struct recurrent_run {
    const struct recurrent_way *way;
    const struct cuda_recurrent *recurrent;
    bool backward;
    char *workspace;
    void *scratch;
    cudaStream_t stream;
};

static int launch_run(void *context, struct error *error)
{
    const struct recurrent_run *run = context;

    return recurrent_launch(run->way, run->recurrent, run->backward, run->workspace, run->scratch,
                            run->stream, error);
}

/* The arrays that are measured on are of the type of products. */
enum { PLACE_INPUT, PLACE_GATES, PLACE_RESULTS, PLACE_WEIGHTS, PLACE_WORKSPACE, PLACE_SCRATCH };

static bool take_memory(struct choices *choices, const struct recurrent_way *ways,
                        const struct recurrent_problem *problem, struct recurrent_run *run,
                        struct cuda_recurrent *r)
{
    enum { WIDE = sizeof(float), PLACES = PLACE_SCRATCH + 1, SAVED_GATES = 4, RESULTS = 4 };
    enum tensor_type type = (enum tensor_type)problem->shape.compute;
    size_t rows = (size_t)(r->batch * r->steps), states = rows * (size_t)r->hidden;
    size_t workspace = ways[0].workspace_bytes > ways[1].workspace_bytes ? ways[0].workspace_bytes
                                                                         : ways[1].workspace_bytes;
    const size_t bytes[PLACES] = {rows * (size_t)gates_of(r) * WIDE,
                                  states * SAVED_GATES * WIDE,
                                  states * RESULTS * WIDE,
                                  (size_t)(gates_of(r) * (r->hidden + 1)) * WIDE,
                                  workspace,
                                  CUDA_PRODUCT_SCRATCH};
    char *at[PLACES];

    for (int i = 0; i < PLACES; i++) {
        at[i] = choices_memory(choices, i, bytes[i] + MEMORY_ALIGNMENT);
        if (!at[i])
            return false;
    }
    r->weight = (float *)(void *)at[PLACE_WEIGHTS];
    r->bias = r->weight + gates_of(r) * r->hidden;
    r->input = r->dinput = array_of(at[PLACE_INPUT], type);
    r->gates = array_of(at[PLACE_GATES], type);
    r->y = array_of(at[PLACE_RESULTS], type);
    r->cells = array_of(at[PLACE_RESULTS] + states * WIDE, type);
    r->dy = array_of(at[PLACE_RESULTS] + 2 * states * WIDE, type);
    r->memory = array_of(at[PLACE_RESULTS] + 3 * states * WIDE, type);
    run->workspace = at[PLACE_WORKSPACE];
    run->scratch = at[PLACE_SCRATCH];
    return true;
}

/* Measures both ways; -1: neither could be. */
static int measure(struct backend_device *device, const struct recurrent_problem *problem,
                   const struct recurrent_way *ways, double *microseconds)
{
    struct cuda_recurrent r = problem->shape;
    struct recurrent_run runs[WAYS];
    void *contexts[WAYS] = {&runs[0], &runs[1]};

    r.steps = r.steps < MEASURED_STEPS ? r.steps : MEASURED_STEPS;
    r.lengths = NULL;
    runs[0] = (struct recurrent_run){
        .recurrent = &r, .backward = problem->backward, .stream = device->stream};
    if (!take_memory(device->products, ways, problem, &runs[0], &r))
        return -1;
    runs[1] = runs[0];
    for (int i = 0; i < WAYS; i++)
        runs[i].way = &ways[i];
    return choices_fastest(device->products, launch_run, contexts, WAYS, INFINITY, microseconds);
}

static void write_key(const struct recurrent_problem *problem, char key[CHOICES_KEY_MAX])
{
    const struct cuda_recurrent *shape = &problem->shape;

    snprintf(key, CHOICES_KEY_MAX, "%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64,
             recurrent_cell_to_string(shape->cell), problem->backward ? "backward" : "forward",
             problem->tf32 ? "tf32" : tensor_type_to_string((enum tensor_type)shape->compute),
             shape->batch, shape->hidden,
             shape->steps < MEASURED_STEPS ? shape->steps : MEASURED_STEPS);
}

/* Which way is known to be the fastest, or is found to be now; both are prepared. */
static enum recurrent_kind find_kind(struct backend_device *device,
                                     const struct recurrent_problem *problem,
                                     const struct recurrent_way *ways)
{
    char key[CHOICES_KEY_MAX], text[CHOICES_TEXT_MAX];
    double microseconds[WAYS];
    const char *known;
    int best;

    write_key(problem, key);
    known = choices_find(device->products, key);
    if (!known) {
        best = measure(device, problem, ways, microseconds);
        if (best < 0)
            return RECURRENT_WHOLE;
        snprintf(text, sizeof text, "%s", recurrent_kind_to_string((enum recurrent_kind)best));
        known = choices_add(device->products, key, text);
    }
    return known && recurrent_kind_from_string(known) == RECURRENT_STEPS ? RECURRENT_STEPS
                                                                         : RECURRENT_WHOLE;
}

int recurrent_choose(struct backend_device *device, const struct recurrent_problem *problem,
                     struct recurrent_way *way, struct error *error)
{
    struct recurrent_way ways[WAYS];
    bool whole = prepare_whole(problem, &ways[RECURRENT_WHOLE]);
    enum recurrent_kind kind = RECURRENT_STEPS;
    int r = linear_search_open(device, error);

    if (r == 0)
        r = prepare_steps(device->cublaslt, problem, &ways[RECURRENT_STEPS], error);
    if (r < 0)
        return r;
    if (whole)
        kind = find_kind(device, problem, ways);
    if (kind == RECURRENT_WHOLE)
        recurrent_way_free(&ways[RECURRENT_STEPS]);
    *way = ways[kind];
    return 0;
}
