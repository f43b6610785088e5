/* schedule.c: finds where barriers are needed between the steps of a program, and runs the
 * steps. */
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct step *program_add_step(struct backend_program *program, int32_t node, step_function *run)
{
    struct step *step;

    if (program->step_count == program->step_capacity) {
        int capacity = program->step_capacity ? 2 * program->step_capacity : 64;
        struct step *steps = realloc(program->steps, (size_t)capacity * sizeof(*steps));

        if (!steps)
            return NULL;
        program->steps = steps;
        program->step_capacity = capacity;
    }
    step = &program->steps[program->step_count++];
    memset(step, 0, sizeof(*step));
    step->run = run;
    step->node = &program->graph->nodes[node];
    step->state = program->nodes[node].state;
    step->workspace = program->node_address[node];
    step->tasks = program->tasks;
    return step;
}

int program_add_source_call(struct backend_program *program, struct onednn_call *call,
                            size_t offset, struct error *error)
{
    struct source_call *calls =
        realloc(program->source_calls, ((size_t)program->source_call_count + 1) * sizeof(*calls));

    if (!calls)
        return error_no_memory(error, "the program");
    program->source_calls = calls;
    calls[program->source_call_count++] = (struct source_call){call, offset};
    return 0;
}

void step_divide(const struct backend_program *program, struct step *step)
{
    step->tasks = program->parts;
    step->divides_samples = true;
}

void step_divide_by_threads(const struct backend_program *program, struct step *step)
{
    step->tasks = program_threads(program);
    step->divides_samples = true;
}

void step_touch(struct step *step, const void *start, size_t row_bytes, int64_t rows,
                enum access_pattern pattern, bool write)
{
    step->access[step->access_count++] = (struct access){
        .start = start, .row_bytes = row_bytes, .rows = rows, .pattern = pattern, .write = write};
}

void step_touch_squares(const struct backend_program *program, struct step *step)
{
    step_touch(step, program->gradient_squares, sizeof(double), program->tasks, ACCESS_WHOLE,
               false);
    step->access[step->access_count - 1].squares = true;
}

void step_touch_tensor(struct backend_program *program, struct step *step, int32_t tensor,
                       enum access_pattern pattern, bool write)
{
    const struct graph_tensor *t;
    int64_t rows, row_elements;
    size_t element;

    /* No step writes what the host hands over. */
    if (tensor < 0 || !program->tensor_bytes[program->root[tensor]])
        return;
    t = program_tensor(program, tensor);
    element = program_element_bytes(program, tensor);
    if (t->batched) {
        pattern = pattern == ACCESS_PART ? ACCESS_SLICE : pattern;
        rows = program->graph->batch;
        row_elements = program_sample_elements(program, tensor);
    } else {
        program_parameter_rows(program, tensor, &rows, &row_elements);
    }
    step_touch(step, program_address(program, tensor), (size_t)row_elements * element, rows,
               pattern, write);
}

void step_touch_inputs(struct backend_program *program, struct step *step)
{
    const struct graph_node *node = step->node;

    for (int i = 0; i < node->input_count; i++)
        if (node->input[i] >= 0)
            step_touch_tensor(program, step, node->input[i],
                              program_tensor(program, node->input[i])->batched ? ACCESS_SLICE
                                                                               : ACCESS_WHOLE,
                              false);
}

static struct range access_bytes(const struct backend_program *program, const struct step *step,
                                 const struct access *access, int task)
{
    struct range rows = {0, access->rows};

    if (access->pattern == ACCESS_SLICE && !step->divides_samples)
        rows = program_slice(program, task);
    else if (access->pattern == ACCESS_PART)
        rows = program_part_of(access->rows, step->tasks, task);
    else if (access->pattern == ACCESS_TASK)
        rows = (struct range){task, task + 1};
    else if (access->pattern == ACCESS_FIRST && task > 0)
        rows.end = 0;
    return (struct range){
        (int64_t)((uintptr_t)access->start + (size_t)rows.first * access->row_bytes),
        (int64_t)((uintptr_t)access->start + (size_t)rows.end * access->row_bytes)};
}

static bool accesses_conflict(const struct backend_program *program, const struct step *first,
                              const struct access *a, const struct step *second,
                              const struct access *b)
{
    const char *a_end = a->start + (size_t)a->rows * a->row_bytes;
    const char *b_end = b->start + (size_t)b->rows * b->row_bytes;

    /* most pairs are of different tensors, which saves looking at all pairs of tasks */
    if ((!a->write && !b->write) || a->start >= b_end || b->start >= a_end)
        return false;
    for (int s = 0; s < first->tasks; s++)
        for (int t = 0; t < second->tasks; t++) {
            struct range x = access_bytes(program, first, a, s);
            struct range y = access_bytes(program, second, b, t);

            if (s != t && x.first < x.end && y.first < y.end && x.first < y.end && y.first < x.end)
                return true;
        }
    return false;
}

static bool steps_conflict(const struct backend_program *program, const struct step *a,
                           const struct step *b, bool squares)
{
    if (!squares && (a->squares || b->squares))
        return false;
    for (int i = 0; i < a->access_count; i++)
        for (int k = 0; k < b->access_count; k++)
            if ((squares || (!a->access[i].squares && !b->access[k].squares)) &&
                accesses_conflict(program, a, &a->access[i], b, &b->access[k]))
                return true;
    return false;
}

static int schedule_variant(struct backend_program *program, bool squares)
{
    struct segment *segments = calloc((size_t)program->step_count + 1, sizeof(*segments));
    struct segment *segment = NULL;

    program->segments[squares] = segments;
    if (!segments)
        return -ENOMEM;
    for (int i = 0; i < program->step_count; i++) {
        bool barrier = !segment || segment->tasks != program->steps[i].tasks;

        for (int k = barrier ? i : segment->first; k < i && !barrier; k++)
            barrier = steps_conflict(program, &program->steps[k], &program->steps[i], squares);
        if (barrier) {
            segment = &segments[program->segment_count[squares]++];
            segment->first = i;
            segment->tasks = program->steps[i].tasks;
        }
        segment->end = i + 1;
        segment->phases |= 1u << program->steps[i].node->phase;
    }
    return 0;
}

int program_schedule(struct backend_program *program)
{
    int result = schedule_variant(program, false);

    return result ? result : schedule_variant(program, true);
}

/* The work of one thread in a run. Of each segment it takes its tasks, one task through all steps
 * at a time, so that a slice stays in the thread's cache. */
static void run_thread(void *context, int thread)
{
    struct backend_program *program = context;
    bool squares = program->scalars.clip_norm > 0 || program->scalars.loss_scale > 0, ran = false;
    bool recorded = program->device->recorder;

    for (int i = 0; i < program->segment_count[squares]; i++) {
        const struct segment *segment = &program->segments[squares][i];

        if (!(segment->phases & program->phases))
            continue;
        if (ran && recorded)
            profile_barrier(program, thread);
        else if (ran)
            thread_team_barrier(program->device->team, thread);
        ran = true;

        int first_task = program_first_task(program, segment->tasks, thread);
        int end_task = program_first_task(program, segment->tasks, thread + 1);

        for (int task = first_task; task < end_task; task++)
            for (int k = segment->first; k < segment->end; k++) {
                const struct step *step = &program->steps[k];

                if (!(1u << step->node->phase & program->phases) ||
                    (task > 0 && step->first_task_only) || (step->squares && !squares))
                    continue;
                if (recorded)
                    profile_run_step(program, step, task, thread);
                else
                    step->run(program, step, task, thread);
            }
    }
}

void program_execute(struct backend_program *program)
{
    struct profile_recorder *recorder = program->device->recorder;

    if (recorder)
        profile_run_begin(recorder);
    thread_team_run(program->device->team, program->parts, run_thread, program);
    if (recorder)
        profile_run_end(recorder);
}
