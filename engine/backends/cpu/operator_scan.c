/* operator_scan.c: operators that walk along time: the causal convolution and the selective scan,
 * forward and backward, on slices of the batch. Where slices differ, the scan divides the channels
 * of each sample, too. The gradients of the parameters are partial sums of each task, which a
 * second step adds. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"

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

static int kernel_of(const struct backend_program *program, int32_t weight)
{
    return (int)program_tensor(program, weight)->shape.extent[2];
}

static int64_t states_of(const struct backend_program *program, int32_t a_log)
{
    return program_tensor(program, a_log)->shape.extent[1];
}

/* A piece has at least so many strips of channels: each adds up the gradients of B and C, which
 * takes about as long as a strip. */
enum { PIECE_STRIPS = 2 };

/* How the tasks of a node share its work: each sample is so many pieces of its channels. */
struct division {
    bool divides_samples;
    int tasks;
    int64_t pieces, strips; /* of a sample */
};

/* Whether tasks that take so many equal pieces wait for at most an eighth of the time. */
static bool is_even(int64_t pieces, int tasks)
{
    int64_t places = (pieces + tasks - 1) / tasks * tasks;

    return 8 * (places - pieces) <= places;
}

/* Only a scan is cut into pieces: the fewest that keep its tasks busy. */
static struct division divide(const struct backend_program *program, const struct graph_node *node)
{
    int64_t strips = (walk_of(program, node).row + SCAN_STRIP - 1) / SCAN_STRIP, pieces = 1;
    bool scan = node->op == OP_SELECTIVE_SCAN || node->op == OP_SELECTIVE_SCAN_BACKWARD;

    if (!scan || !program_slices_differ(program))
        return (struct division){false, program->tasks, 1, strips};
    while (pieces < strips / PIECE_STRIPS &&
           !is_even(pieces * program->graph->batch, program->parts))
        pieces++;
    return (struct division){true, program->parts, pieces, strips};
}

/* Floats of a task's sums of the gradients of the parameters. */
static int64_t partial_floats(const struct backend_program *program, const struct graph_node *node)
{
    int64_t row = walk_of(program, node).row;
    int64_t each = node->op == OP_CAUSAL_CONV1D_BACKWARD ? kernel_of(program, node->input[2])
                                                         : states_of(program, node->input[3]);

    return (int64_t)align_up((size_t)(row * (each + 1)), MEMORY_ALIGNMENT / sizeof(float));
}

/* The task's partial sums, which begin as zeros. */
static float *partial_of(const struct backend_program *program, const struct step *step, int task)
{
    return (float *)(void *)step->workspace + task * partial_floats(program, step->node);
}

/* Floats of the gradients of B and of C that a piece of a sample makes; 0: the piece is the whole
 * sample, whose gradients are those of the tensors. */
static int64_t piece_floats(const struct backend_program *program, const struct graph_node *node)
{
    if (divide(program, node).pieces == 1)
        return 0;
    return (int64_t)align_up((size_t)program_sample_elements(program, node->output[3]),
                             MEMORY_ALIGNMENT / sizeof(float));
}

/* The gradients of B that piece `number` of all makes; behind them are those of C. */
static float *piece_sums(const struct backend_program *program, const struct step *step,
                         int64_t number)
{
    return partial_of(program, step, divide(program, step->node).tasks) +
           2 * number * piece_floats(program, step->node);
}

static void reserve_partials(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct division division = divide(program, node);
    int64_t floats = division.tasks * partial_floats(program, node);

    if (division.pieces > 1)
        floats += 2 * program->graph->batch * division.pieces * piece_floats(program, node);
    program->workspace[index] = (size_t)floats * sizeof(float);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

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
    memset(partial, 0, (size_t)partial_floats(program, node) * sizeof *partial);
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

    program->device->kernels->partials_sum(
        partial_of(program, step, 0) + offset, divide(program, step->node).tasks,
        partial_floats(program, step->node), program_address(program, tensor),
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
    (void)error;
    reserve_partials(program, index);
    return 0;
}

/* ---- selective scan -------------------------------------------------------------------------- */

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
    float *scratch = program_scratch_of(program, divide(program, node).tasks, task);

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

/* Some channels of a sample, of piece `number` of all samples' pieces. */
struct piece {
    int64_t sample, first, end;
};

static struct piece piece_of(const struct division *division, int64_t channels, int64_t number)
{
    int64_t k = number % division->pieces;
    int64_t end = division->strips * (k + 1) / division->pieces * SCAN_STRIP;

    return (struct piece){.sample = number / division->pieces,
                          .first = division->strips * k / division->pieces * SCAN_STRIP,
                          .end = end < channels ? end : channels};
}

static struct range pieces_of(const struct backend_program *program,
                              const struct division *division, int task)
{
    int64_t all = program->graph->batch * division->pieces;

    return (struct range){all * task / division->tasks, all * (task + 1) / division->tasks};
}

static float *move(const float *array, int64_t distance)
{
    return array ? (float *)array + distance : NULL;
}

/* The same work for the piece's channels alone. */
static struct scan_task narrow(const struct scan_task *work, const struct piece *piece)
{
    struct scan_task own = *work;

    own.channels = piece->end - piece->first;
    own.u = move(work->u, piece->first);
    own.delta = move(work->delta, piece->first);
    own.z = move(work->z, piece->first);
    own.a = move(work->a, piece->first);
    own.d = move(work->d, piece->first);
    own.kept = move(work->kept, piece->first);
    own.y = move(work->y, piece->first);
    own.dy = move(work->dy, piece->first);
    own.du = move(work->du, piece->first);
    own.ddelta = move(work->ddelta, piece->first);
    own.dz = move(work->dz, piece->first);
    own.da = move(work->da, piece->first);
    own.dd = move(work->dd, piece->first);
    return own;
}

static void run_scan(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct walk walk = walk_of(program, node);
    const struct division division = divide(program, node);
    struct range pieces = pieces_of(program, &division, task);
    struct scan_task work = scan_begin(program, node, &walk, node->input[2], node->input[5], task);
    const int64_t states = work.states;

    (void)thread;
    for (int64_t number = pieces.first; number < pieces.end; number++) {
        struct piece piece = piece_of(&division, walk.row, number);
        int64_t i = piece.sample;

        for (int s = 0; s < walk.sequences; s++) {
            struct scan_task own;

            work.u = sequence_at(program, &walk, node->input[0], i, s, walk.row);
            work.delta = sequence_at(program, &walk, node->input[1], i, s, walk.row);
            work.b = sequence_at(program, &walk, node->input[3], i, s, states);
            work.c = sequence_at(program, &walk, node->input[4], i, s, states);
            work.z = sequence_at(program, &walk, node->input[6], i, s, walk.row);
            work.y = sequence_at(program, &walk, node->output[0], i, s, walk.row);
            if (node->output_count > 1)
                work.kept = kept_states(program, &walk, node->output[1], i, s);
            own = narrow(&work, &piece);
            program->device->kernels->selective_scan(&own);
        }
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
        reserve_partials(program, index);
    return 0;
}

static void run_scan_backward(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph_node *node = step->node;
    const int32_t *in = node->input, *out = node->output;
    const struct walk walk = walk_of(program, node);
    const struct division division = divide(program, node);
    struct range pieces = pieces_of(program, &division, task);
    struct scan_task work = scan_begin(program, node, &walk, in[3], in[6], task);
    const int64_t states = work.states;
    float *partial = partial_of(program, step, task);

    (void)thread;
    memset(partial, 0, (size_t)partial_floats(program, node) * sizeof *partial);
    work.da = partial;
    work.dd = partial + walk.row * states;
    for (int64_t number = pieces.first; number < pieces.end; number++) {
        struct piece piece = piece_of(&division, walk.row, number);
        int64_t i = piece.sample, sums = walk.length * states;
        float *own_sums = piece_sums(program, step, number);

        for (int s = 0; s < walk.sequences; s++) {
            struct scan_task own;

            work.dy = sequence_at(program, &walk, in[0], i, s, walk.row);
            work.u = sequence_at(program, &walk, in[1], i, s, walk.row);
            work.delta = sequence_at(program, &walk, in[2], i, s, walk.row);
            work.b = sequence_at(program, &walk, in[4], i, s, states);
            work.c = sequence_at(program, &walk, in[5], i, s, states);
            work.z = sequence_at(program, &walk, in[7], i, s, walk.row);
            work.kept = kept_states(program, &walk, in[8], i, s);
            work.du = sequence_at(program, &walk, out[0], i, s, walk.row);
            work.ddelta = sequence_at(program, &walk, out[1], i, s, walk.row);
            work.db = division.pieces > 1 ? own_sums + s * sums
                                          : sequence_at(program, &walk, out[3], i, s, states);
            work.dc = division.pieces > 1 ? own_sums + piece_floats(program, node) + s * sums
                                          : sequence_at(program, &walk, out[4], i, s, states);
            memset(work.db, 0, (size_t)sums * sizeof(float));
            memset(work.dc, 0, (size_t)sums * sizeof(float));
            work.dz = in[7] < 0 ? NULL : sequence_at(program, &walk, out[6], i, s, walk.row);
            own = narrow(&work, &piece);
            program->device->kernels->selective_scan_backward(&own);
        }
    }
}

/* Adds what the pieces of each sample have made of the gradients of B and C. */
static void run_piece_sums(struct backend_program *program, const struct step *step, int task,
                           int thread)
{
    const struct graph_node *node = step->node;
    int64_t pieces = divide(program, node).pieces, floats = piece_floats(program, node);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++)
        for (int k = 0; k < 2; k++)
            program->device->kernels->partials_sum(
                piece_sums(program, step, i * pieces) + k * floats, (int)pieces, 2 * floats,
                program_sample(program, node->output[3 + k], i),
                program_sample_elements(program, node->output[3 + k]), false);
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
    const int tasks = divide(program, node).tasks;

    (void)task;
    (void)thread;
    for (int64_t d = 0; d < channels; d++)
        for (int64_t n = 0; n < states; n++) {
            double sum = 0;

            for (int t = 0; t < tasks; t++)
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
    if (divide(program, node).divides_samples)
        step_divide(program, step);
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

/* A step that adds what the pieces of samples have made. */
static int bind_piece_sums(struct backend_program *program, int32_t index, size_t bytes,
                           struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_piece_sums);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch(step, step->workspace, bytes, 1, ACCESS_WHOLE, false);
    for (int i = 3; i < 5; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}

/* A step on slices or pieces with the partial sums, then one in which task 0 adds these into the
 * gradients of the parameters. */
static int bind_backward(struct backend_program *program, int32_t index, step_function *run,
                         step_function *add, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct division division = divide(program, node);
    size_t bytes = program->workspace[index];
    struct step *step = program_add_step(program, index, run);
    int r;

    if (!step)
        return error_no_memory(error, "the program");
    if (division.divides_samples)
        step_divide(program, step);
    step_touch(step, step->workspace, bytes, 1, ACCESS_WHOLE, true);
    step_touch_inputs(program, step);
    for (int i = 0; i < node->output_count; i++)
        if (program_tensor(program, node->output[i])->batched)
            step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    if (division.pieces > 1 && (r = bind_piece_sums(program, index, bytes, error)) < 0)
        return r;
    step = program_add_step(program, index, add);
    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    step_touch(step, step->workspace, bytes, 1, ACCESS_FIRST, false);
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
