/* scan.c: the selective scan (engine/graph/operators/selective_scan.c has the formulas) and its
 * gradients. A sequence is cut into chunks of SCAN_CHUNK steps, which are computed at the same
 * time: the state behind a chunk is what the chunk makes of zero, plus the state before it times
 * the chunk's decay (Blelloch 1990, "Prefix sums and their applications"). Forward is three
 * launches: what each chunk makes of zero; from chunk to chunk, the states before each; the results
 * from these states. Backward does the same in the reverse order, and makes the states of a chunk
 * anew. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"
#include "engine/graph/forward.h"

/* CHANNELS: of a workgroup, an invocation for each (scan_place.glsl). */
enum { WORKGROUP = 256, CHANNELS = 32 };
_Static_assert((int)SCAN_CHUNK == (int)CHANNELS,
               "an invocation has the sum over the channels of one step");

struct scan_shape {
    int64_t sequences, length, channels, states, chunks; /* chunks: of all sequences */
};

/* What the shaders get that go over chunks. The forward part has no dy. */
struct scan_push {
    VkDeviceAddress u, delta, a_log, b, c, d, z, dy, kept, sums, result;
    uint32_t sequences, length, channels, states;
};

/* `a_log`: the number of that input. */
static struct scan_shape shape_of(const struct graph *graph, const struct graph_node *node,
                                  int a_log)
{
    const struct time_attributes *time = &node->attributes.time;
    const int64_t *extent = graph->tensors[node->input[0]].shape.extent;
    struct scan_shape shape = {.sequences = extent[0] * time->sequences,
                               .length = extent[1] / time->sequences,
                               .channels = extent[2],
                               .states = graph->tensors[node->input[a_log]].shape.extent[1]};

    shape.chunks = shape.sequences * ((shape.length + SCAN_CHUNK - 1) / SCAN_CHUNK);
    return shape;
}

/* Numbers of the states that are kept, and of other parts of the workspace. */
static int64_t kept_count(const struct scan_shape *shape)
{
    return shape->chunks * shape->states * shape->channels;
}

static int64_t slabs_of(const struct scan_shape *shape)
{
    return (shape->channels + CHANNELS - 1) / CHANNELS;
}

static int64_t by_rows(const struct scan_shape *shape)
{
    return shape->sequences * shape->length * shape->states;
}

/* u is input `first`. */
static struct scan_push describe(const struct backend_program *program,
                                 const struct graph_node *node, int first,
                                 const struct scan_shape *shape)
{
    const int32_t *in = node->input + first;

    return (struct scan_push){.u = program_address(program, in[0]),
                              .delta = program_address(program, in[1]),
                              .a_log = program_address(program, in[2]),
                              .b = program_address(program, in[3]),
                              .c = program_address(program, in[4]),
                              .d = program_address(program, in[5]),
                              .z = program_address(program, in[6]),
                              .sequences = (uint32_t)shape->sequences,
                              .length = (uint32_t)shape->length,
                              .channels = (uint32_t)shape->channels,
                              .states = (uint32_t)shape->states};
}

/* Launches a shader on all chunks; `kind`: SCAN_... */
static int launch_chunks(struct recorder *recorder, enum vulkan_shader shader,
                         const struct graph_node *node, const struct scan_shape *shape,
                         const struct scan_push *push, uint32_t kind, struct error *error)
{
    const struct launch launch = {
        .shader = shader,
        .constants = {CHANNELS, node->attributes.time.reverse, push->z != 0, kind},
        .constant_count = 4,
        .push = push,
        .push_bytes = sizeof *push,
        .addresses = 11,
        .groups = {record_groups(shape->chunks * slabs_of(shape), 1)}};

    return record_launch(recorder, &launch, error);
}

/* From chunk to chunk: `states` become those that come to each chunk. */
static int launch_carry(struct recorder *recorder, const struct scan_shape *shape,
                        const struct scan_push *from, VkDeviceAddress states, bool back,
                        struct error *error)
{
    const int64_t count = shape->sequences * shape->states * shape->channels;
    struct scan_push push = *from;
    const struct launch launch = {.shader = SHADER_scan_carry,
                                  .constants = {WORKGROUP, back},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(count, WORKGROUP)}};

    push.result = states;
    record_barrier(recorder);
    return record_launch(recorder, &launch, error);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The sums of the chunks' steps and, in evaluation, the states that training keeps. */
size_t selective_scan_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct scan_shape shape = shape_of(graph, node, 2);
    const int64_t kept = node->output_count > 1 ? 0 : kept_count(&shape);

    return (size_t)(shape.chunks * shape.channels + kept) * sizeof(float);
}

int selective_scan_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct scan_shape shape = shape_of(program->graph, node, 2);
    struct scan_push push = describe(program, node, 0, &shape);
    int r;

    push.sums = program->workspace[index];
    push.kept = node->output_count > 1
                    ? program_address(program, node->output[1])
                    : push.sums + (VkDeviceSize)(shape.chunks * shape.channels) * sizeof(float);
    push.result = program_address(program, node->output[0]);
    r = launch_chunks(recorder, SHADER_scan, node, &shape, &push, SCAN_STATES, error);
    if (r == 0)
        r = launch_carry(recorder, &shape, &push, push.kept, false, error);
    record_barrier(recorder);
    return r < 0 ? r
                 : launch_chunks(recorder, SHADER_scan, node, &shape, &push, SCAN_RESULTS, error);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The parts of the workspace, in numbers; scan_backward.comp has the same. */
struct scan_parts {
    int64_t gradients; /* by the states before a chunk; then dA: [chunk][state][channel] */
    int64_t sums, dd;  /* [chunk][channel] */
    int64_t da;        /* [state][channel] */
    int64_t db, dc;    /* [slab][row][state] */
    int64_t end;
};

static struct scan_parts parts_of(const struct scan_shape *shape)
{
    const int64_t chunks = shape->chunks * shape->channels;
    const int64_t rows = slabs_of(shape) * by_rows(shape);
    struct scan_parts parts = {.sums = kept_count(shape)};

    parts.dd = parts.sums + chunks;
    parts.da = parts.dd + chunks;
    parts.db = parts.da + shape->states * shape->channels;
    parts.dc = parts.db + rows;
    parts.end = parts.dc + rows;
    return parts;
}

size_t selective_scan_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct scan_shape shape = shape_of(graph, node, 3);

    return (size_t)parts_of(&shape).end * sizeof(float);
}

/* The gradients of all chunks, of which some are parts of sums. */
static int launch_backward(struct recorder *recorder, int32_t index, const struct scan_shape *shape,
                           const struct scan_push *from, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct {
        VkDeviceAddress u, delta, a_log, b, c, d, z, dy, kept, parts, du, ddelta, dz;
        uint32_t sequences, length, channels, states;
    } push = {.u = from->u,
              .delta = from->delta,
              .a_log = from->a_log,
              .b = from->b,
              .c = from->c,
              .d = from->d,
              .z = from->z,
              .dy = from->dy,
              .kept = program_address(program, node->input[8]),
              .parts = program->workspace[index],
              .du = program_address(program, node->output[0]),
              .ddelta = program_address(program, node->output[1]),
              .dz = program_address(program, from->z ? node->output[6] : -1),
              .sequences = from->sequences,
              .length = from->length,
              .channels = from->channels,
              .states = from->states};
    const struct launch launch = {
        .shader = SHADER_scan_backward,
        .constants = {CHANNELS, node->attributes.time.reverse, push.z != 0},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 13,
        .groups = {record_groups(shape->chunks * slabs_of(shape), 1)}};

    return record_launch(recorder, &launch, error);
}

/* da_log (+)= dA A; [channel][state] of [state][channel]. */
static int launch_decay(struct recorder *recorder, const struct graph_node *node,
                        const struct scan_shape *shape, VkDeviceAddress da, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct {
        VkDeviceAddress a_log, da, da_log;
        uint32_t channels, states;
    } push = {.a_log = program_address(program, node->input[3]),
              .da = da,
              .da_log = program_address(program, node->output[2]),
              .channels = (uint32_t)shape->channels,
              .states = (uint32_t)shape->states};
    const struct launch launch = {
        .shader = SHADER_scan_decay,
        .constants = {WORKGROUP, record_accumulates(recorder, node, 2)},
        .constant_count = 2,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {record_groups(shape->channels * shape->states, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* Adds up what chunks and slabs left. */
static int add_parts(struct recorder *recorder, int32_t index, const struct scan_shape *shape,
                     struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct scan_parts parts = parts_of(shape);
    const VkDeviceAddress start = program->workspace[index];
    const int64_t row = shape->states * shape->channels, rows = by_rows(shape);
    const VkDeviceAddress da = start + (VkDeviceSize)parts.da * sizeof(float);
    const struct {
        int64_t from, rows, columns;
        VkDeviceAddress to;
        bool accumulate;
    } sums[] = {
        {parts.gradients, shape->chunks, row, da, false},
        {parts.dd, shape->chunks, shape->channels, program_address(program, node->output[5]),
         record_accumulates(recorder, node, 5)},
        {parts.db, slabs_of(shape), rows, program_address(program, node->output[3]), false},
        {parts.dc, slabs_of(shape), rows, program_address(program, node->output[4]), false}};
    int r = 0;

    record_barrier(recorder);
    for (int i = 0; r == 0 && i < 4; i++) {
        const struct row_sums sum = {.x = start + (VkDeviceSize)sums[i].from * sizeof(float),
                                     .sums = sums[i].to,
                                     .rows = sums[i].rows,
                                     .stride = sums[i].columns,
                                     .columns = sums[i].columns,
                                     .accumulate = sums[i].accumulate};

        if (sum.sums)
            r = record_row_sums(recorder, &sum, error);
    }
    record_barrier(recorder);
    return r < 0 || node->output[2] < 0 ? r : launch_decay(recorder, node, shape, da, error);
}

int selective_scan_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct scan_shape shape = shape_of(program->graph, node, 3);
    const struct scan_parts parts = parts_of(&shape);
    const VkDeviceAddress start = program->workspace[index];
    struct scan_push push = describe(program, node, 1, &shape);
    int r;

    if (parts.end > UINT32_MAX) /* shaders count in 32 bits */
        return error_set(error, -ERROR_UNSUPPORTED, "%s: %lld numbers of workspace", node->name,
                         (long long)parts.end);
    push.dy = program_address(program, node->input[0]);
    push.sums = start + (VkDeviceSize)parts.sums * sizeof(float);
    push.kept = 0;
    push.result = start;
    r = launch_chunks(recorder, SHADER_scan, node, &shape, &push, SCAN_GRADIENTS, error);
    if (r == 0)
        r = launch_carry(recorder, &shape, &push, start, true, error);
    record_barrier(recorder);
    if (r < 0)
        return r;
    r = launch_backward(recorder, index, &shape, &push, error);
    return r < 0 ? r : add_parts(recorder, index, &shape, error);
}
