/* operator_time_pool.c: the length of each sequence, its last step, the mean over its steps, and
 * zeros behind its end. */
#include "engine/backends/cpu/program.h"

#include <string.h>

/* A batch of sequences [B,T,F] and what is made of them [B,F]. */
struct time_pool {
    int64_t steps, features;
    int32_t lengths; /* tensor, -1: all are `steps` */
    bool reverse;
};

static struct time_pool describe(const struct backend_program *program, const struct step *step,
                                 int32_t sequences)
{
    const struct graph_shape *shape = &program_tensor(program, sequences)->shape;

    return (struct time_pool){.steps = shape->extent[1],
                              .features = shape->extent[2],
                              .lengths = step->node->input[1],
                              .reverse = step->node->attributes.recurrent.reverse};
}

/* Between 1 and the steps, whatever the data says. */
static int64_t length_of(const struct backend_program *program, const struct time_pool *pool,
                         int64_t sample)
{
    int64_t length = pool->steps;

    if (pool->lengths >= 0)
        length = *(const int32_t *)program_sample(program, pool->lengths, sample);
    return length < 1 ? 1 : length > pool->steps ? pool->steps : length;
}

static int64_t last_step(const struct backend_program *program, const struct time_pool *pool,
                         int64_t sample)
{
    return pool->reverse ? 0 : length_of(program, pool, sample) - 1;
}

void sequence_lengths_run(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    int64_t steps = program_sample_elements(program, node->input[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        const int32_t *index = program_sample(program, node->input[0], b);
        int64_t length = steps;

        while (length > 1 && index[length - 1] == node->attributes.padding_symbol)
            length--;
        *(int32_t *)program_sample(program, node->output[0], b) = (int32_t)length;
    }
}

void window_lengths_run(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct graph_node *node = step->node;
    const struct window_lengths *windows = &node->attributes.windows;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        const int32_t *length = program_sample(program, node->input[0], b);
        int64_t count = (*length + windows->more) / windows->stride;

        *(int32_t *)program_sample(program, node->output[0], b) = (int32_t)(count < 1 ? 1 : count);
    }
}

void mask_steps_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct time_pool pool = describe(program, step, node->input[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        const float *x = program_sample(program, node->input[0], b);
        float *y = program_sample(program, node->output[0], b);
        int64_t kept = length_of(program, &pool, b) * pool.features;

        if (x != y)
            memcpy(y, x, (size_t)kept * sizeof(float));
        memset(y + kept, 0, (size_t)(pool.steps * pool.features - kept) * sizeof(float));
    }
}

void last_step_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct time_pool pool = describe(program, step, node->input[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++)
        memcpy(program_sample(program, node->output[0], b),
               (const float *)program_sample(program, node->input[0], b) +
                   last_step(program, &pool, b) * pool.features,
               (size_t)pool.features * sizeof(float));
}

void last_step_backward_run(struct backend_program *program, const struct step *step, int task,
                            int thread)
{
    const struct graph_node *node = step->node;
    struct time_pool pool = describe(program, step, node->output[0]);
    struct range slice = program_slice(program, task);
    size_t row = (size_t)pool.features * sizeof(float);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        float *dx = program_sample(program, node->output[0], b);

        memset(dx, 0, (size_t)pool.steps * row);
        memcpy(dx + last_step(program, &pool, b) * pool.features,
               program_sample(program, node->input[0], b), row);
    }
}

void mean_over_time_run(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct graph_node *node = step->node;
    struct time_pool pool = describe(program, step, node->input[0]);
    const struct kernels *kernels = program->device->kernels;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        int64_t length = length_of(program, &pool, b);
        float *y = program_sample(program, node->output[0], b);

        kernels->column_sum(program_sample(program, node->input[0], b), length, pool.features,
                            pool.features, y, false);
        for (int64_t f = 0; f < pool.features; f++)
            y[f] /= (float)length;
    }
}

void mean_over_time_backward_run(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    const struct graph_node *node = step->node;
    struct time_pool pool = describe(program, step, node->output[0]);
    struct range slice = program_slice(program, task);
    int64_t features = pool.features;

    (void)thread;
    for (int64_t b = slice.first; b < slice.end; b++) {
        int64_t length = length_of(program, &pool, b);
        const float *dy = program_sample(program, node->input[0], b);
        float *dx = program_sample(program, node->output[0], b);

        for (int64_t f = 0; f < features; f++)
            dx[f] = dy[f] / (float)length;
        for (int64_t t = 1; t < length; t++)
            memcpy(dx + t * features, dx, (size_t)features * sizeof(float));
        memset(dx + length * features, 0,
               (size_t)((pool.steps - length) * features) * sizeof(float));
    }
}
