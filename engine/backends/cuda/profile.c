/* profile.c: finds out when the nodes of a recorded run were done (struct profile_recorder of
 * backend.h). A recorded run is a graph of its own, with an event behind every node. If only the
 * phases are measured, it has an event behind the last node of each phase. The host waits for the
 * run and reads the events. An event takes the device one or two microseconds, which count for a
 * node. A step of ResNet-18 has a hundred of them, and took 0.2 to 0.3 ms longer on an H200,
 * waiting included. */
#include "base/clock.h"
#include "engine/backends/cuda/muon.h"
#include "engine/graph/operator.h"
#include "engine/graph/optimizer.h"

#include <stdlib.h>

void cuda_device_profile(struct backend_device *device, struct profile_recorder *recorder)
{
    device->recorder = recorder;
}

int64_t cuda_program_profile_events(const struct backend_program *program)
{
    return program->graph->node_count;
}

enum recording profile_wanted(const struct backend_program *program)
{
    const struct profile_recorder *recorder = program->device->recorder;

    return !recorder ? RECORD_NOTHING : recorder->keeps_events ? RECORD_NODES : RECORD_PHASES;
}

/* marks[0] is before the first node, marks[i + 1] behind node i. */
int profile_prepare(struct backend_program *program, struct error *error)
{
    int count = program->graph->node_count + 1;

    if (program->marks)
        return 0;
    program->marks = calloc((size_t)count, sizeof(cudaEvent_t));
    if (!program->marks)
        return error_no_memory(error, "a profile");
    for (int i = 0; i < count; i++) {
        cudaError_t status = cudaEventCreate(&program->marks[i]);

        if (status != cudaSuccess)
            return cuda_fail(error, status, "a profile's events");
    }
    return 0;
}

void profile_free(struct backend_program *program)
{
    for (int32_t i = 0; program->marks && i <= program->graph->node_count; i++)
        if (program->marks[i])
            cudaEventDestroy(program->marks[i]);
    free(program->marks);
}

static bool is_last_of_phase(const struct graph *graph, int32_t node)
{
    return node + 1 == graph->node_count ||
           graph->nodes[node + 1].phase != graph->nodes[node].phase;
}

static bool launches_something(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];

    if (program->operators[index] == cuda_nothing || program->operators[index] == cuda_done_forward)
        return false;
    if (node->op == OP_OPTIMIZER)
        return update_launches(program, index);
    return !graph_node_operator(node)->is_view || program->alias[node->output[0]] < 0;
}

static bool is_marked(const struct backend_program *program, int32_t node)
{
    return program->run.phases >> program->graph->nodes[node].phase & 1 &&
           (is_last_of_phase(program->graph, node) ||
            (program->run.recording == RECORD_NODES && launches_something(program, node)));
}

int profile_mark(struct backend_program *program, int32_t node, struct error *error)
{
    cudaError_t status;

    if (program->run.recording == RECORD_NOTHING || (node >= 0 && !is_marked(program, node)))
        return 0;
    status = cudaEventRecordWithFlags(program->marks[node + 1], program->device->stream,
                                      cudaEventRecordExternal);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a profile's event");
}

/* ---- read ---- */

static int nanoseconds_at(const struct backend_program *program, int32_t node, int64_t *at,
                          struct error *error)
{
    float milliseconds = 0;
    cudaError_t status =
        cudaEventElapsedTime(&milliseconds, program->marks[0], program->marks[node + 1]);

    *at = (int64_t)((double)milliseconds * 1e6);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a profile's event");
}

static void add_event(struct profile_lane *lane, int64_t begin, int64_t end, int32_t node)
{
    if (lane->count < lane->capacity)
        lane->events[lane->count++] = (struct profile_event){begin, end, node, 0};
}

static bool is_common_update(const struct graph *graph, int32_t node)
{
    return graph->nodes[node].op == OP_OPTIMIZER &&
           !graph_node_updates_whole(graph, &graph->nodes[node]);
}

/* A few launches update all parameters. The parameters share the time in proportion to their
 * elements. */
static void add_updates(const struct backend_program *program, int64_t begin, int64_t end)
{
    const struct graph *graph = program->graph;
    double elements = 0, done = 0, took = (double)(end - begin);

    for (int32_t i = 0; i < graph->node_count; i++)
        if (is_common_update(graph, i))
            elements += (double)program_elements(program, graph->nodes[i].input[0]);
    for (int32_t i = 0; i < graph->node_count; i++) {
        double from = done;

        if (!is_common_update(graph, i))
            continue;
        done += (double)program_elements(program, graph->nodes[i].input[0]);
        add_event(&program->device->recorder->lanes[0], begin + (int64_t)(took * from / elements),
                  begin + (int64_t)(took * done / elements), i);
    }
}

/* Adds the time of the node's work, which includes that of absorbed nodes. */
static void add_node(const struct backend_program *program, int32_t node, int64_t begin,
                     int64_t end)
{
    if (program->run.recording != RECORD_NODES || !launches_something(program, node))
        return;
    if (is_common_update(program->graph, node))
        add_updates(program, begin, end);
    else
        add_event(&program->device->recorder->lanes[0], begin, end, node);
}

int profile_read(struct backend_program *program, struct error *error)
{
    struct profile_recorder *recorder = program->device->recorder;
    const struct graph *graph = program->graph;
    cudaError_t status = cudaStreamSynchronize(program->device->stream);
    int64_t begin, before = 0, at = 0;
    int32_t last = graph->node_count - 1;
    int r;

    if (status != cudaSuccess)
        return cuda_fail(error, status, "a step on the GPU");
    while (last > 0 && !is_marked(program, last))
        last--;
    r = nanoseconds_at(program, last, &at, error);
    /* CUDA has a clock of its own, so a run is placed on the host's clock by its end. */
    begin = clock_monotonic_nanoseconds() - at;
    for (int32_t i = 0; r == 0 && i <= last; i++) {
        if (!is_marked(program, i))
            continue;
        r = nanoseconds_at(program, i, &at, error);
        recorder->phase_nanoseconds[graph->nodes[i].phase] += at - before;
        add_node(program, i, begin + before, begin + at);
        before = at;
    }
    return r;
}
