/* operator_scan.c: operators that walk along time: the causal convolution and the selective scan,
 * forward and backward, on slices of the batch. The gradients of the parameters are partial sums of
 * each task, which a second step adds. */
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* [batch][sequences * length][row] of the first input's tensor. */
struct walk {
    int64_t length, row;
    int sequences;
};

static struct walk walk_of(const struct backend_program *program, const struct graph_node *node)
{
    const int64_t *extent = program_tensor(program, node->input[0])->shape.extent;
    int sequences = node->attributes.time.sequences;

    return (struct walk){.length = extent[1] / sequences, .row = extent[2], .sequences = sequences};
}

/* Where sequence `s` of the sample begins in a tensor of `width` numbers a step; NULL: none. */
static float *sequence_at(const struct backend_program *program, const struct walk *walk,
                          int32_t tensor, int64_t sample, int s, int64_t width)
{
    return tensor < 0 ? NULL
                      : (float *)program_sample(program, tensor, sample) + s * walk->length * width;
}

/* The task's partial sums, which begin as zeros. */
static float *partial_of(const struct backend_program *program, const struct step *step, int task)
{
    size_t bytes = program->workspace[step->node - program->graph->nodes] / (size_t)program->tasks;

    return (float *)(void *)(step->workspace + (size_t)task * bytes);
}

static size_t partial_bytes(const struct backend_program *program, int32_t node)
{
    return program->workspace[node] / (size_t)program->tasks;
}

static void reserve_partials(struct backend_program *program, int32_t index, int64_t floats)
{
    program->workspace[index] =
        align_up((size_t)floats * sizeof(float), MEMORY_ALIGNMENT) * (size_t)program->tasks;
}

/* ---- causal convolution ---------------------------------------------------------------------- */

static int kernel_of(const struct backend_program *program, int32_t weight)
{
    return (int)program_tensor(program, weight)->shape.extent[2];
}

/* What all sequences have in common; `parameters` are the weight and the bias. */
static struct causal_conv_task causal_conv_begin(const struct backend_program *program,
                                                 const struct graph_node *node,
                                                 const struct walk *walk, const int32_t *parameters)
{
    return (struct causal_conv_task){.length = walk->length,
                                     .channels = walk->row,
                                     .row = walk->row,
                                     .kernel = kernel_of(program, parameters[0]),
                                     .reverse = node->attributes.time.reverse,
                                     .silu = node->attributes.time.silu,
                                     .weight = program_address(program, parameters[0]),
                                     .bias = program_address(program, parameters[1])};
}

static void run_causal_conv(struct backend_program *program, const struct step *step, int task,
                            int thread)
{
    const struct graph_node *node = step->node;
    const struct walk walk = walk_of(program, node);
    struct range slice = program_slice(program, task);
    struct causal_conv_task work = causal_conv_begin(program, node, &walk, &node->input[1]);

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++)
        for (int s = 0; s < walk.sequences; s++) {
            work.x = sequence_at(program, &walk, node->input[0], i, s, walk.row);
            work.y = sequence_at(program, &walk, node->output[0], i, s, walk.row);
            program->device->kernels->causal_conv(&work);
        }
}

static void run_causal_conv_backward(struct backend_program *program, const struct step *step,
                                     int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct walk walk = walk_of(program, node);
    struct range slice = program_slice(program, task);
    float *partial = partial_of(program, step, task);
    struct causal_conv_task work = causal_conv_begin(program, node, &walk, &node->input[2]);

    (void)thread;
    work.dweight = partial;
    work.dbias = partial + walk.row * work.kernel;
    memset(partial, 0, partial_bytes(program, (int32_t)(node - program->graph->nodes)));
    for (int64_t i = slice.first; i < slice.end; i++)
        for (int s = 0; s < walk.sequences; s++) {
            work.dy = sequence_at(program, &walk, node->input[0], i, s, walk.row);
            work.x = sequence_at(program, &walk, node->input[1], i, s, walk.row);
            work.dx = sequence_at(program, &walk, node->output[0], i, s, walk.row);
            program->device->kernels->causal_conv_backward(&work);
        }
}

/* Adds up the tasks' sums of the node's output `output`, which begin at `offset` of each task's. */
static void add_partials(struct backend_program *program, const struct step *step, int output,
                         int64_t offset)
{
    int32_t tensor = step->node->output[output];
    size_t stride = partial_bytes(program, (int32_t)(step->node - program->graph->nodes));

    program->device->kernels->partials_sum(
        partial_of(program, step, 0) + offset, program->tasks, (int64_t)(stride / sizeof(float)),
        program_address(program, tensor),
        graph_shape_elements(&program_tensor(program, tensor)->shape),
        program_accumulates(program, step->node, output));
}

static void run_causal_conv_sums(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    const struct graph_node *node = step->node;

    (void)task;
    (void)thread;
    add_partials(program, step, 1, 0);
    add_partials(program, step, 2,
                 graph_shape_elements(&program_tensor(program, node->output[1])->shape));
}

int causal_conv_backward_prepare(struct backend_program *program, int32_t index,
                                 struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    (void)error;
    reserve_partials(program, index,
                     walk_of(program, node).row * (kernel_of(program, node->input[2]) + 1));
    return 0;
}

/* ---- selective scan -------------------------------------------------------------------------- */

static int64_t states_of(const struct backend_program *program, int32_t a_log)
{
    return program_tensor(program, a_log)->shape.extent[1];
}

/* A = -exp(A_log), turned: [state][channel]. */
static void fill_decays(const float *a_log, int64_t channels, int64_t states, float *a)
{
    for (int64_t d = 0; d < channels; d++)
        for (int64_t n = 0; n < states; n++)
            a[n * channels + d] = -expf(a_log[d * states + n]);
}

static int64_t decay_floats(int64_t channels, int64_t states)
{
    return (int64_t)align_up((size_t)(channels * states), MEMORY_ALIGNMENT / sizeof(float));
}

static struct scan_task scan_begin(const struct backend_program *program,
                                   const struct graph_node *node, const struct walk *walk,
                                   int32_t a_log, int32_t d, int task)
{
    int64_t states = states_of(program, a_log);
    float *scratch = program_task_scratch(program, task);

    fill_decays(program_address(program, a_log), walk->row, states, scratch);
    return (struct scan_task){.length = walk->length,
                              .channels = walk->row,
                              .row = walk->row,
                              .states = states,
                              .reverse = node->attributes.time.reverse,
                              .a = scratch,
                              .d = program_address(program, d),
                              .scratch = scratch + decay_floats(walk->row, states)};
}

/* Where the states of sequence `s` are kept. */
static float *kept_states(const struct backend_program *program, const struct walk *walk,
                          int32_t tensor, int64_t sample, int s)
{
    int64_t elements = program_sample_elements(program, tensor) / walk->sequences;

    return (float *)program_sample(program, tensor, sample) + s * elements;
}

static void run_scan(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct walk walk = walk_of(program, node);
    struct range slice = program_slice(program, task);
    struct scan_task work = scan_begin(program, node, &walk, node->input[2], node->input[5], task);
    const int64_t states = work.states;

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++)
        for (int s = 0; s < walk.sequences; s++) {
            work.u = sequence_at(program, &walk, node->input[0], i, s, walk.row);
            work.delta = sequence_at(program, &walk, node->input[1], i, s, walk.row);
            work.b = sequence_at(program, &walk, node->input[3], i, s, states);
            work.c = sequence_at(program, &walk, node->input[4], i, s, states);
            work.z = sequence_at(program, &walk, node->input[6], i, s, walk.row);
            work.y = sequence_at(program, &walk, node->output[0], i, s, walk.row);
            if (node->output_count > 1)
                work.kept = kept_states(program, &walk, node->output[1], i, s);
            program->device->kernels->selective_scan(&work);
        }
}

int selective_scan_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool backward = node->op == OP_SELECTIVE_SCAN_BACKWARD;
    int64_t channels = walk_of(program, node).row;
    int64_t states = states_of(program, node->input[backward ? 3 : 2]);

    (void)error;
    program_reserve_scratch(
        program, (size_t)(decay_floats(channels, states) + scan_scratch_floats(states, channels)) *
                     sizeof(float));
    if (backward)
        reserve_partials(program, index, channels * (states + 1));
    return 0;
}

static void run_scan_backward(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph_node *node = step->node;
    const int32_t *in = node->input, *out = node->output;
    const struct walk walk = walk_of(program, node);
    struct range slice = program_slice(program, task);
    struct scan_task work = scan_begin(program, node, &walk, in[3], in[6], task);
    const int64_t states = work.states;
    float *partial = partial_of(program, step, task);

    (void)thread;
    memset(partial, 0, partial_bytes(program, (int32_t)(node - program->graph->nodes)));
    work.da = partial;
    work.dd = partial + walk.row * states;
    for (int64_t i = slice.first; i < slice.end; i++)
        for (int s = 0; s < walk.sequences; s++) {
            const size_t sums = (size_t)(walk.length * states) * sizeof(float);

            work.dy = sequence_at(program, &walk, in[0], i, s, walk.row);
            work.u = sequence_at(program, &walk, in[1], i, s, walk.row);
            work.delta = sequence_at(program, &walk, in[2], i, s, walk.row);
            work.b = sequence_at(program, &walk, in[4], i, s, states);
            work.c = sequence_at(program, &walk, in[5], i, s, states);
            work.z = sequence_at(program, &walk, in[7], i, s, walk.row);
            work.kept = kept_states(program, &walk, in[8], i, s);
            work.du = sequence_at(program, &walk, out[0], i, s, walk.row);
            work.ddelta = sequence_at(program, &walk, out[1], i, s, walk.row);
            work.db = memset(sequence_at(program, &walk, out[3], i, s, states), 0, sums);
            work.dc = memset(sequence_at(program, &walk, out[4], i, s, states), 0, sums);
            work.dz = in[7] < 0 ? NULL : sequence_at(program, &walk, out[6], i, s, walk.row);
            program->device->kernels->selective_scan_backward(&work);
        }
}

/* dA_log = dA A, as A = -exp(A_log); and dD. */
static void run_scan_sums(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    const int64_t channels = walk_of(program, node).row;
    const int64_t states = states_of(program, node->input[3]);
    const float *a_log = program_address(program, node->input[3]);
    float *da_log = program_address(program, node->output[2]);
    const bool accumulates = program_accumulates(program, node, 2);

    (void)task;
    (void)thread;
    for (int64_t d = 0; d < channels; d++)
        for (int64_t n = 0; n < states; n++) {
            double sum = 0;

            for (int t = 0; t < program->tasks; t++)
                sum += (double)partial_of(program, step, t)[n * channels + d];
            da_log[d * states + n] = (float)(sum * -exp((double)a_log[d * states + n])) +
                                     (accumulates ? da_log[d * states + n] : 0.0f);
        }
    add_partials(program, step, 5, channels * states);
}

/* ---- both ------------------------------------------------------------------------------------ */

static int bind_forward(struct backend_program *program, int32_t index, step_function *run,
                        struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_inputs(program, step);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}

int causal_conv_bind(struct backend_program *program, int32_t index, struct error *error)
{
    return bind_forward(program, index, run_causal_conv, error);
}

int selective_scan_bind(struct backend_program *program, int32_t index, struct error *error)
{
    return bind_forward(program, index, run_scan, error);
}

/* A step on slices with the partial sums, then one in which task 0 adds these into the gradients of
 * the parameters. */
static int bind_backward(struct backend_program *program, int32_t index, step_function *run,
                         step_function *add, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    size_t bytes = partial_bytes(program, index);
    struct step *step = program_add_step(program, index, run);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch(step, step->workspace, bytes, program->tasks, ACCESS_TASK, true);
    step_touch_inputs(program, step);
    for (int i = 0; i < node->output_count; i++)
        if (program_tensor(program, node->output[i])->batched)
            step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    step = program_add_step(program, index, add);
    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    step_touch(step, step->workspace, bytes, program->tasks, ACCESS_FIRST, false);
    for (int i = 0; i < node->input_count; i++)
        if (node->input[i] >= 0 && !program_tensor(program, node->input[i])->batched)
            step_touch_tensor(program, step, node->input[i], ACCESS_FIRST, false);
    for (int i = 0; i < node->output_count; i++)
        if (!program_tensor(program, node->output[i])->batched)
            step_touch_tensor(program, step, node->output[i], ACCESS_FIRST, true);
    return 0;
}

int causal_conv_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    return bind_backward(program, index, run_causal_conv_backward, run_causal_conv_sums, error);
}

int selective_scan_backward_bind(struct backend_program *program, int32_t index,
                                 struct error *error)
{
    return bind_backward(program, index, run_scan_backward, run_scan_sums, error);
}
