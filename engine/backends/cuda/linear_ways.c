/* linear_ways.c: see linear_ways.h. */
#include "engine/backends/cuda/linear_ways.h"

#include "base/alignment.h"
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/small_linear.h"

int64_t linear_elements(const struct linear_problem *p, int operand)
{
    if (operand == 0)
        return p->rows * (p->pass == OP_LINEAR_BACKWARD_DATA ? p->outputs : p->inputs);
    return p->pass == OP_LINEAR_BACKWARD_WEIGHTS ? p->rows * p->outputs : p->outputs * p->inputs;
}

static int64_t result_elements(const struct linear_problem *p)
{
    return p->pass == OP_LINEAR                 ? p->rows * p->outputs
           : p->pass == OP_LINEAR_BACKWARD_DATA ? p->rows * p->inputs
                                                : p->outputs * p->inputs;
}

/* The bytes of so many numbers, rounded up to whole cache lines. */
static size_t in_lines(int64_t count)
{
    const size_t line = MEMORY_ALIGNMENT / sizeof(float);

    return align_up((size_t)count, line);
}

/* The update keeps three numbers for each result. */
bool linear_take_memory(const struct backend_device *device, const struct linear_problem *p,
                        struct linear_memory *memory)
{
    enum { WIDE = sizeof(float), PLACES = CHOICES_PLACES };
    const size_t bytes[PLACES] = {(size_t)linear_elements(p, 0) * WIDE,
                                  (size_t)linear_elements(p, 1) * WIDE,
                                  (size_t)(linear_elements(p, 0) > linear_elements(p, 1)
                                               ? linear_elements(p, 0)
                                               : linear_elements(p, 1)) *
                                      WIDE,
                                  (size_t)result_elements(p) * WIDE,
                                  in_lines(result_elements(p)) * WIDE * 3,
                                  in_lines(p->inputs + p->outputs) * WIDE * 4,
                                  CUDA_PRODUCT_SCRATCH,
                                  sizeof(struct cuda_control) + sizeof(struct cuda_scalars)};
    char *at[PLACES];

    for (int i = 0; i < PLACES; i++) {
        at[i] = choices_memory(device->products, i, bytes[i] + MEMORY_ALIGNMENT);
        if (!at[i])
            return false;
    }
    *memory = (struct linear_memory){.operand = {at[0], at[1]},
                                     .cast = at[2],
                                     .result = at[3],
                                     .aside = at[4],
                                     .vector = at[5],
                                     .scratch = at[6],
                                     .control = (struct cuda_control *)at[7]};
    memory->scalars = (struct cuda_scalars *)(at[7] + sizeof(struct cuda_control));
    /* on the stream: the old content could otherwise be read as a pointer */
    return cudaMemsetAsync(at[7], 0, bytes[7], device->stream) == cudaSuccess;
}

struct cuda_array linear_array(void *at, enum tensor_type type)
{
    return (struct cuda_array){.at = at, .type = (int)type};
}

/* The item of an update of the weights or of the bias. `state` has room for three times as many
 * numbers. */
static struct cuda_item item_at(float *state, float *gradient, int64_t count)
{
    return (struct cuda_item){.parameter = state,
                              .gradient = linear_array(gradient, TENSOR_FLOAT32),
                              .state0 = state + in_lines(count),
                              .state1 = state + 2 * in_lines(count),
                              .count = count,
                              .formula = FORMULA_ADAM};
}

static cudaError_t launch_small_weights(const struct linear_run *run)
{
    const struct linear_problem *p = run->problem;
    const struct linear_memory *m = run->memory;
    float *vector = (float *)m->vector;
    struct cuda_small_weights weights = {.dy =
                                             small_matrix(linear_array(m->operand[1], p->small[1]),
                                                          p->rows * p->outputs, p->outputs, false),
                                         .x = small_matrix(linear_array(m->operand[0], p->small[0]),
                                                           p->rows * p->inputs, p->inputs, false),
                                         .gradient = (float *)m->result,
                                         .bias_gradient = p->vector ? vector : NULL};
    struct cuda_small_layers layers = {.count = p->shares ? 2 : 1, .control = m->control};

    weights.parts = small_parts(weights.x.terms);
    if (p->alone)
        weights.weight = item_at((float *)m->aside, weights.gradient, p->outputs * p->inputs);
    if (p->alone && p->vector)
        weights.bias = item_at(vector + in_lines(p->outputs), vector, p->outputs);
    layers.layer[0] = layers.layer[1] = weights;
    return cuda_small_weights((int)p->compute, m->scalars, &layers, false, run->stream);
}

static cudaError_t launch_small(const struct linear_run *run)
{
    const struct linear_problem *p = run->problem;
    const struct linear_memory *m = run->memory;
    bool forward = p->pass == OP_LINEAR;
    struct cuda_small_product product = {
        .a = small_matrix(linear_array(m->operand[0], p->small[0]), linear_elements(p, 0), p->rows,
                          true),
        .b = small_matrix(linear_array(m->operand[1], p->small[1]), linear_elements(p, 1),
                          forward ? p->outputs : p->inputs, forward),
        .y = linear_array(m->result, p->result),
        .bias = forward && p->vector ? (float *)m->vector : NULL,
        .activation = p->activation};

    if (p->pass == OP_LINEAR_BACKWARD_WEIGHTS)
        return launch_small_weights(run);
    if (p->keeps_sum)
        product.before = linear_array(m->aside, p->result);
    if (!forward && p->activation >= 0)
        product.saved = linear_array(m->aside, p->result);
    product.parts = small_parts(product.a.terms);
    return cuda_small_product((int)p->compute, forward, &product, run->stream);
}

/* Launches the casts that our kernels make unnecessary: those of operands. Casts of parameters
 * count only if all others vanish, too. */
static cudaError_t launch_casts(const struct linear_run *run)
{
    const struct linear_problem *p = run->problem;
    cudaError_t status = cudaSuccess;

    for (int k = 0; k < 2 && status == cudaSuccess; k++) {
        bool parameter = k == 1 && p->pass != OP_LINEAR_BACKWARD_WEIGHTS;

        if (p->small[k] != p->library[k] && (!parameter || (p->alone && p->pass == OP_LINEAR)))
            status = cuda_cast(linear_array(run->memory->operand[k], p->small[k]),
                               linear_array(run->memory->cast, p->library[k]),
                               linear_elements(p, k), run->stream);
    }
    return status;
}

/* Launches what remains to be done behind a product. */
static cudaError_t launch_rest(const struct linear_run *run)
{
    const struct linear_problem *p = run->problem;
    const struct linear_memory *m = run->memory;
    struct cuda_array result = linear_array(m->result, p->result);
    struct cuda_array aside = linear_array(m->aside, p->result);
    int64_t count = result_elements(p);
    bool apart = run->way == LINEAR_APART;
    cudaError_t status = cudaSuccess;

    if (p->pass == OP_LINEAR_BACKWARD_WEIGHTS) {
        if (p->vector && apart)
            status = cuda_long_column_sum(linear_array(m->operand[1], p->library[1]), p->rows,
                                          p->outputs, false, (float *)m->vector, m->scratch,
                                          CUDA_PRODUCT_SCRATCH, run->stream);
        if (status == cudaSuccess && p->alone) {
            float *vector = (float *)m->vector;
            struct cuda_items items = {.count = p->vector ? 2 : 1};

            items.item[0] = item_at((float *)m->aside, (float *)m->result, count);
            items.item[1] = item_at(vector + in_lines(p->outputs), vector, p->outputs);
            cuda_items_blocks(&items);
            status = cuda_optimizer_update(m->control, m->scalars, &items, false, run->stream);
        }
        return status;
    }
    if (apart && p->pass == OP_LINEAR && (p->vector || p->rectified))
        status = cuda_bias_activation(
            result, p->vector ? (float *)m->vector : NULL, p->rectified ? ACTIVATION_RELU : -1,
            linear_array(NULL, p->result), result, p->rows, p->outputs, run->stream);
    if (status != cudaSuccess || p->activation < 0 || p->rectified)
        return status;
    return p->pass == OP_LINEAR
               ? cuda_activation(p->activation, result, aside, count, run->stream)
               : cuda_activation_backward(p->activation, result, aside, result, count, run->stream);
}

static int launch_library(const struct linear_run *run, struct error *error)
{
    const struct linear_problem *p = run->problem;
    const struct linear_memory *m = run->memory;
    bool by_weights = p->pass == OP_LINEAR_BACKWARD_WEIGHTS;
    struct product_call call = {.a = m->operand[by_weights ? 0 : 1],
                                .b = m->operand[by_weights ? 1 : 0],
                                .result = m->result,
                                .vector = m->vector,
                                .alpha = 1,
                                .scratch = m->scratch};
    cudaError_t status = launch_casts(run);
    int r;

    if (status == cudaSuccess && run->way == LINEAR_FUSED && p->pass == OP_LINEAR && p->vector &&
        p->result != TENSOR_FLOAT32)
        status = cuda_cast(linear_array(m->vector, TENSOR_FLOAT32),
                           linear_array(m->vector, p->result), p->outputs, run->stream);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "a linear layer that is timed");
    r = product_run(run->product, &call, run->stream, error);
    status = r < 0 ? cudaSuccess : launch_rest(run);
    return status == cudaSuccess ? r : cuda_fail(error, status, "a linear layer that is timed");
}

int linear_launch_way(void *context, struct error *error)
{
    const struct linear_run *run = context;
    cudaError_t status;

    if (run->way != LINEAR_SMALL)
        return launch_library(run, error);
    status = launch_small(run);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a linear layer that is timed");
}
