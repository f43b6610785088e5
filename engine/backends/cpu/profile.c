/* profile.c: records when each thread runs which step (struct profile_recorder of backend.h). */
#include "base/clock.h"
#include "engine/backends/cpu/program.h"

/* Adds the time since the mark to the phase that ends here, or to the first one of the run. Only
 * the first thread calls this. */
static void enter_phase(struct profile_recorder *recorder, int phase, int64_t now)
{
    recorder->phase_nanoseconds[recorder->phase < 0 ? phase : recorder->phase] +=
        now - recorder->mark;
    recorder->phase = phase;
    recorder->mark = now;
}

static void add_event(struct profile_lane *lane, int64_t begin, int32_t node, int task)
{
    if (lane->count < lane->capacity)
        lane->events[lane->count++] = (struct profile_event){
            .begin = begin, .end = clock_monotonic_nanoseconds(), .node = node, .task = task};
}

void profile_run_step(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    struct profile_recorder *recorder = program->device->recorder;
    int phase = (int)step->node->phase;
    bool enters = thread == 0 && phase != recorder->phase;
    int64_t begin = enters || recorder->keeps_events ? clock_monotonic_nanoseconds() : 0;

    if (enters)
        enter_phase(recorder, phase, begin);
    step->run(program, step, task, thread);
    if (recorder->keeps_events)
        add_event(&recorder->lanes[thread], begin, (int32_t)(step->node - program->graph->nodes),
                  task);
}

void profile_barrier(struct backend_program *program, int thread)
{
    struct profile_recorder *recorder = program->device->recorder;
    int64_t begin = recorder->keeps_events ? clock_monotonic_nanoseconds() : 0;

    thread_team_barrier(program->device->team, thread);
    if (recorder->keeps_events)
        add_event(&recorder->lanes[thread], begin, PROFILE_WAIT, 0);
}

void profile_run_begin(struct profile_recorder *recorder)
{
    recorder->phase = -1;
    recorder->mark = clock_monotonic_nanoseconds();
}

void profile_run_end(struct profile_recorder *recorder)
{
    if (recorder->phase >= 0)
        enter_phase(recorder, -1, clock_monotonic_nanoseconds());
}

void cpu_device_profile(struct backend_device *device, struct profile_recorder *recorder)
{
    device->recorder = recorder;
}

int64_t cpu_program_profile_events(const struct backend_program *program)
{
    int threads = program_threads(program);
    int tasks = (program->parts + threads - 1) / threads;

    /* there is at most one barrier for each step */
    return (int64_t)program->step_count * (tasks + 1);
}
