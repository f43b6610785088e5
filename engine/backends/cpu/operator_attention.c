/* operator_attention.c: attention and rotary positions. A task takes heads: those of its samples,
 * or, where slices differ, a part of the heads of all samples. */
#include "engine/backends/cpu/program.h"

#include <math.h>
#include <stdlib.h>

/* Inputs of the gradient. */
enum { DY, QKV, Y, LOG_SUM_EXP, LENGTHS };

static bool is_backward(const struct graph_node *node)
{
    return node->op == OP_ATTENTION_BACKWARD;
}

static int32_t packed_of(const struct graph_node *node)
{
    return node->input[is_backward(node) ? QKV : 0];
}

/* The head that is common to all, but for `keys`. */
static struct attention_head head_of(const struct backend_program *program,
                                     const struct graph_node *node)
{
    const int64_t *extent = program_tensor(program, packed_of(node))->shape.extent;
    int64_t width = extent[2] / 3 / node->attributes.attention.heads;

    return (struct attention_head){.steps = extent[1],
                                   .keys = extent[1],
                                   .width = width,
                                   .row = extent[2],
                                   .result_row = extent[2] / 3,
                                   .causal = node->attributes.attention.causal,
                                   .scale = 1.0f / sqrtf((float)width)};
}

static struct range task_heads(const struct backend_program *program, const struct step *step,
                               int task)
{
    int heads = step->node->attributes.attention.heads;
    int64_t all = program->graph->batch * heads;
    struct range slice;

    if (step->divides_samples)
        return (struct range){all * task / step->tasks, all * (task + 1) / step->tasks};
    slice = program_slice(program, task);
    return (struct range){slice.first * heads, slice.end * heads};
}

/* The keys of a sample that are attended to. */
static int64_t keys_of(const struct backend_program *program, int32_t lengths, int64_t sample,
                       int64_t steps)
{
    int64_t length = steps;

    if (lengths >= 0)
        length = *(const int32_t *)program_sample(program, lengths, sample);
    return length < 0 ? 0 : length < steps ? length : steps;
}

static void run_attention(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    struct attention_head head = head_of(program, node);
    struct range part = task_heads(program, step, task);
    int heads = node->attributes.attention.heads;
    bool backward = is_backward(node);
    float *scratch = program_scratch_of(program, step->tasks, task);

    (void)thread;
    for (int64_t i = part.first; i < part.end; i++) {
        int64_t sample = i / heads, place = i % heads * head.width, third = head.result_row;
        const float *query = (float *)program_sample(program, packed_of(node), sample) + place;

        head.keys = keys_of(program, node->input[backward ? LENGTHS : 1], sample, head.steps);
        if (backward) {
            const float *sums = program_sample(program, node->input[LOG_SUM_EXP], sample);
            float *dquery = (float *)program_sample(program, node->output[0], sample) + place;

            program->device->kernels->attention_backward(
                &head, query, query + third, query + 2 * third,
                (float *)program_sample(program, node->input[Y], sample) + place,
                sums + i % heads * head.steps,
                (float *)program_sample(program, node->input[DY], sample) + place, scratch, dquery,
                dquery + third, dquery + 2 * third);
        } else {
            float *sums =
                node->output_count > 1 ? program_sample(program, node->output[1], sample) : NULL;

            program->device->kernels->attention_forward(
                &head, query, query + third, query + 2 * third, scratch,
                (float *)program_sample(program, node->output[0], sample) + place,
                sums ? sums + i % heads * head.steps : NULL);
        }
    }
}

int attention_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    struct attention_head head = head_of(program, &program->graph->nodes[index]);

    (void)error;
    program_reserve_scratch(
        program, sizeof(float) *
                     (size_t)program->device->kernels->attention_scratch(head.steps, head.width));
    return 0;
}

int attention_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_attention);

    if (!step)
        return error_no_memory(error, "the program");
    if (program_slices_differ(program))
        step_divide(program, step);
    for (int i = 0; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_SLICE, false);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}

/* ---- rotary positions ------------------------------------------------------------------------ */

/* Cosines and sines of all angles; nodes with the same angles share them. */
struct rotary_state {
    float *factor;
    bool owns;
};

static struct rotary_shape rotary_shape_of(const struct backend_program *program,
                                           const struct graph_node *node)
{
    const int64_t *extent = program_tensor(program, node->input[0])->shape.extent;
    int heads = node->attributes.rotary.heads;

    return (struct rotary_shape){.steps = extent[1],
                                 .heads = heads,
                                 .width = extent[2] / 3 / heads,
                                 .inverse = node->op == OP_ROTARY_BACKWARD};
}

static bool is_rotary(const struct graph_node *node)
{
    return node->op == OP_ROTARY || node->op == OP_ROTARY_BACKWARD;
}

/* The angles of an earlier node that has the same; NULL: none has. */
static float *find_angles(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct rotary_shape shape = rotary_shape_of(program, node);

    for (int32_t i = 0; i < index; i++) {
        const struct graph_node *other = &program->graph->nodes[i];
        const struct rotary_state *state = program->nodes[i].state;
        struct rotary_shape of;

        if (!is_rotary(other) || !state)
            continue;
        of = rotary_shape_of(program, other);
        if (of.steps == shape.steps && of.width == shape.width &&
            other->attributes.rotary.base == node->attributes.rotary.base)
            return state->factor;
    }
    return NULL;
}

static float *make_angles(const struct rotary_shape *shape, double base)
{
    int64_t half = shape->width / 2;
    float *factor = malloc(2 * sizeof *factor * (size_t)(shape->steps * half));

    for (int64_t t = 0; factor && t < shape->steps; t++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)t / pow(base, (double)(2 * i) / (double)shape->width);

            factor[t * half + i] = (float)cos(angle);
            factor[(shape->steps + t) * half + i] = (float)sin(angle);
        }
    return factor;
}

int rotary_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct rotary_shape shape = rotary_shape_of(program, node);
    struct rotary_state *state = calloc(1, sizeof *state);

    if (!state)
        return error_no_memory(error, "rotary positions");
    program->nodes[index].state = state;
    state->factor = find_angles(program, index);
    state->owns = !state->factor;
    if (state->owns)
        state->factor = make_angles(&shape, node->attributes.rotary.base);
    return state->factor ? 0 : error_no_memory(error, "rotary positions");
}

void rotary_release(void *argument)
{
    struct rotary_state *state = argument;

    if (state->owns)
        free(state->factor);
    free(state);
}

void rotary_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct rotary_state *state = step->state;
    struct rotary_shape shape = rotary_shape_of(program, node);
    struct range slice = program_slice(program, task);

    (void)thread;
    shape.factor = state->factor;
    program->device->kernels->rotary(&shape, program_sample(program, node->input[0], slice.first),
                                     program_sample(program, node->output[0], slice.first),
                                     slice.end - slice.first);
}
