/* operator_product.c: convolutions of 1x1 over channels-last images. They are products of matrices
 * whose rows are pixels. Each task multiplies its slice of the batch. Its share of the weights'
 * gradient is a partial sum, and these are added in pairs.
 *
 * oneDNN's products are faster here than its convolutions. In GFLOP/s on one core of a Sapphire
 * Rapids, with oneDNN 2.6.3 and 16 images (layers of EfficientNet-B0):
 *
 *     images  channels      forward     backward data  backward weights
 *                         conv product  conv product   conv product
 *     16x16   16 ->  96   120   161     106   129      140   134
 *      8x8   144 ->  24   108   109     155   150      108   140
 *      4x4   240 ->  40   124   141     152   178      126   174
 *      2x2   112 -> 672   151   182     171   162       96   177
 *      2x2   672 -> 112   138   186     178   183       93   176
 *
 * These figures need the second matrix row by row, so forward first makes a transposed copy of the
 * weights. They also need the longer rows in the gradient of the weights: it is computed transposed
 * if there are more channels out than in. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdlib.h>

struct product_state {
    struct convolution_tensors tensors;
    int64_t out, in, pixels; /* channels of y and of x; pixels of an image */
    int64_t samples[2];      /* in a slice; there are at most two sizes, which differ by one */
    struct onednn_product *product[2];
    struct onednn_call *call[TASKS_MAX];
    bool turned; /* the partial sums of the gradient are [in][out] */
    size_t bias_offset, partial_bytes;
};

/* ---- prepare --------------------------------------------------------------------------------- */

bool product_suits(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct conv_attributes *a = &node->attributes.conv;
    struct convolution_tensors tensors = convolution_tensors(node);

    if (program_convolution_method(program, node) != CONVOLUTION_BY_DEVICE ||
        !program->channels_last || a->groups != 1 || program->compact[node->input[0]] ||
        program_parameter_layout(program, tensors.weights))
        return false;
    /* samples of the batch change their address with each step, and all three directions must
     * decide alike */
    if (tensors.x == program->graph->input || tensors.x == program->graph->input_gradient)
        return false;
    for (int d = 0; d < 2; d++)
        if (a->kernel[d] != 1 || a->stride[d] != 1 || a->padding[d] != 0)
            return false;
    return true;
}

static struct onednn_product_shape describe(const struct backend_program *program, int32_t index,
                                            const struct product_state *state, int64_t samples)
{
    int64_t rows = samples * state->pixels;

    if (state->tensors.direction == ONEDNN_FORWARD)
        return (struct onednn_product_shape){.rows = rows,
                                             .columns = state->out,
                                             .depth = state->in,
                                             .bias = state->tensors.bias >= 0,
                                             .relu =
                                                 program->nodes[index].fused == ACTIVATION_RELU};
    if (state->tensors.direction == ONEDNN_BACKWARD_DATA)
        return (struct onednn_product_shape){
            .rows = rows, .columns = state->in, .depth = state->out};
    return (struct onednn_product_shape){.rows = state->turned ? state->in : state->out,
                                         .columns = state->turned ? state->out : state->in,
                                         .depth = rows,
                                         .a_transposed = true};
}

static int create_products(struct backend_program *program, int32_t index,
                           struct product_state *state, struct error *error)
{
    int64_t batch = program->graph->batch;

    state->samples[0] = batch / program->tasks;
    state->samples[1] = batch % program->tasks ? state->samples[0] + 1 : 0;
    for (int i = 0; i < 2 && state->samples[i]; i++) {
        struct onednn_product_shape shape = describe(program, index, state, state->samples[i]);
        int result =
            onednn_product_create(program->device->onednn, &shape, &state->product[i], error);

        if (result)
            return error_prefix(error, "layer %s", program->graph->nodes[index].name);
        program_reserve_scratch(program, onednn_product_scratch_bytes(state->product[i]));
    }
    return 0;
}

/* Bytes of the workspace. Forward it holds the transposed weights, for the gradient each task's
 * partial sums. */
static size_t workspace_bytes(struct backend_program *program, struct product_state *state)
{
    size_t weights = align_up((size_t)(state->out * state->in) * sizeof(float), MEMORY_ALIGNMENT);

    if (state->tensors.direction == ONEDNN_FORWARD)
        return weights;
    if (state->tensors.direction == ONEDNN_BACKWARD_DATA)
        return 0;
    state->bias_offset = weights;
    state->partial_bytes = weights;
    if (state->tensors.bias >= 0)
        state->partial_bytes += align_up((size_t)state->out * sizeof(float), MEMORY_ALIGNMENT);
    if (state->turned) /* a part of the sum, and its transpose */
        program_reserve_scratch(program, 2 * weights);
    return (size_t)program->tasks * state->partial_bytes;
}

int product_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    struct product_state *state = calloc(1, sizeof(*state));
    const int64_t *x;
    int result;

    if (!state)
        return error_no_memory(error, "a convolution");
    program->nodes[index].state = state;
    state->tensors = convolution_tensors(&program->graph->nodes[index]);
    x = program_tensor(program, state->tensors.x)->shape.extent;
    state->in = x[1];
    state->pixels = x[2] * x[3];
    state->out = program_tensor(program, state->tensors.y)->shape.extent[1];
    state->turned = state->out > state->in;
    result = create_products(program, index, state, error);
    program->workspace[index] = workspace_bytes(program, state);
    return result;
}

void product_release(void *argument)
{
    struct product_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        onednn_call_free(state->call[task]);
    for (int i = 0; i < 2; i++)
        onednn_product_free(state->product[i]);
    free(state);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* Transposes the task's part of the rows of the weights. */
static void run_transpose(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct product_state *state = step->state;
    struct range part = program_part(program, state->in, task);
    const float *weights = program_address(program, state->tensors.weights);

    (void)thread;
    if (part.first < part.end)
        program->device->kernels->matrix_transpose(
            weights + part.first, state->in, state->out, part.end - part.first,
            (float *)(void *)step->workspace + part.first * state->out);
}

static float *partial_sum(const struct step *step, int task)
{
    const struct product_state *state = step->state;

    return (float *)(void *)(step->workspace + (size_t)task * state->partial_bytes);
}

static void run_product(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct product_state *state = step->state;
    struct range slice = program_slice(program, task);

    program_record(program, onednn_call_run(state->call[task], thread));
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS && state->tensors.bias >= 0)
        program->device->kernels->column_sum(
            program_sample(program, state->tensors.y, slice.first),
            (slice.end - slice.first) * state->pixels, state->out, state->out,
            partial_sum(step, task) + state->bias_offset / sizeof(float), false);
}

/* Sums up rows `part` of the gradient from partial sums in the order [in][out]. */
static void sum_turned(struct backend_program *program, const struct step *step, int task,
                       struct range part, float *gradient)
{
    const struct product_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    int64_t width = part.end - part.first;
    float *sum = program_task_scratch(program, task), *turned = sum + state->in * width;
    bool accumulate = program_adds_to(program, step->node, state->tensors.weights);

    for (int64_t i = 0; i < state->in; i++)
        kernels->partials_sum(partial_sum(step, 0) + i * state->out + part.first, program->tasks,
                              (int64_t)(state->partial_bytes / sizeof(float)), sum + i * width,
                              width, false);
    kernels->matrix_transpose(sum, width, state->in, width, accumulate ? turned : gradient);
    if (accumulate)
        kernels->add(gradient, turned, gradient, width * state->in);
}

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct product_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    struct range part = program_part(program, state->out, task);
    int64_t stride = (int64_t)(state->partial_bytes / sizeof(float)), rows = part.end - part.first;
    float *gradient = program_address(program, state->tensors.weights);

    (void)thread;
    if (rows <= 0)
        return;
    gradient += part.first * state->in;
    if (state->turned)
        sum_turned(program, step, task, part, gradient);
    else
        kernels->partials_sum(partial_sum(step, 0) + part.first * state->in, program->tasks, stride,
                              gradient, rows * state->in,
                              program_adds_to(program, step->node, state->tensors.weights));
    if (state->tensors.bias >= 0)
        kernels->partials_sum(
            partial_sum(step, 0) + state->bias_offset / sizeof(float) + part.first, program->tasks,
            stride, (float *)program_address(program, state->tensors.bias) + part.first, rows,
            program_adds_to(program, step->node, state->tensors.bias));
}

/* ---- bind ------------------------------------------------------------------------------------ */

static int bind_call(struct backend_program *program, int32_t index, struct product_state *state,
                     int task, struct error *error)
{
    struct range slice = program_slice(program, task);
    char *workspace = program->node_address[index];
    int size = slice.end - slice.first == state->samples[0] ? 0 : 1;
    /* samples in another shape: their address changes with each step */
    bool external = !program->tensor_bytes[program->root[state->tensors.x]];
    void *x = external ? NULL : program_sample(program, state->tensors.x, slice.first);
    void *y = program_sample(program, state->tensors.y, slice.first);
    void *weights = program_address(program, state->tensors.weights), *bias = NULL;
    void *a = x, *b = workspace, *c = y;
    int result;

    if (state->tensors.direction == ONEDNN_FORWARD && state->tensors.bias >= 0)
        bias = program_address(program, state->tensors.bias);
    if (state->tensors.direction == ONEDNN_BACKWARD_DATA) {
        a = y;
        b = weights;
        c = x;
    } else if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS) {
        a = state->turned ? x : y;
        b = state->turned ? y : x;
        c = workspace + (size_t)task * state->partial_bytes;
    }
    result = onednn_product_bind(program->device->onednn, state->product[size], a, b, bias, c,
                                 program_task_scratch(program, task), &state->call[task], error);
    if (!result && external)
        result = program_add_source_call(
            program, state->call[task],
            (size_t)(slice.first * program_sample_elements(program, state->tensors.x)) *
                sizeof(float),
            error);
    return result;
}

static int add_data_steps(struct backend_program *program, int32_t index,
                          const struct product_state *state)
{
    bool forward = state->tensors.direction == ONEDNN_FORWARD;
    size_t row_bytes = (size_t)state->out * sizeof(float);
    struct step *step;

    if (forward) {
        step = program_add_step(program, index, run_transpose);
        if (!step)
            return -ENOMEM;
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
        step_touch(step, step->workspace, row_bytes, state->in, ACCESS_PART, true);
    }
    step = program_add_step(program, index, run_product);
    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.x, ACCESS_SLICE, !forward);
    step_touch_tensor(program, step, state->tensors.y, ACCESS_SLICE, forward);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    if (forward)
        step_touch(step, step->workspace, row_bytes, state->in, ACCESS_WHOLE, false);
    else
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    return 0;
}

static int add_weight_steps(struct backend_program *program, int32_t index,
                            const struct product_state *state)
{
    struct step *step = program_add_step(program, index, run_product);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.x, ACCESS_SLICE, false);
    step_touch_tensor(program, step, state->tensors.y, ACCESS_SLICE, false);
    step_touch(step, step->workspace, state->partial_bytes, program->tasks, ACCESS_TASK, true);
    step = program_add_step(program, index, run_sum);
    if (!step)
        return -ENOMEM;
    step_touch(step, step->workspace, state->partial_bytes, program->tasks, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.weights, ACCESS_PART, true);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_PART, true);
    return 0;
}

int product_bind(struct backend_program *program, int32_t index, struct error *error)
{
    struct product_state *state = program->nodes[index].state;
    int result = 0;

    for (int task = 0; task < program->tasks && !result; task++)
        result = bind_call(program, index, state, task, error);
    if (result)
        return result;
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        result = add_weight_steps(program, index, state);
    else
        result = add_data_steps(program, index, state);
    return result ? error_set(error, result, "no memory for the program") : 0;
}
