/* convolution_padded.c: see convolution_padded.h. */
#include "engine/backends/cuda/convolution_padded.h"

#include "base/alignment.h"
#include "engine/backends/cuda/convolution_own.h"

#include <math.h>

enum { CHUNK_BYTES = 16 }; /* of channels, that tensor core kernels read at once */

/* The channels of a group with zeros behind them. */
static int64_t fill_up(const struct convolution_problem *problem, enum convolution_filling filling,
                       int64_t channels)
{
    const int64_t chunk = CHUNK_BYTES / (int64_t)tensor_type_bytes(problem->type);
    int64_t filled = chunk;

    if (filling == FILL_CHUNKS)
        return (int64_t)align_up((size_t)channels, (size_t)chunk);
    while (filled < channels)
        filled *= 2;
    return filled;
}

static bool changes(const struct convolution_problem *problem, enum convolution_filling filling)
{
    const int64_t inputs = problem->weight[1], outputs = problem->weight[0] / problem->groups;

    return fill_up(problem, filling, inputs) != inputs ||
           fill_up(problem, filling, outputs) != outputs;
}

/* Whether powers of two are other numbers than multiples of chunks. */
static bool powers_differ(const struct convolution_problem *problem)
{
    const int64_t inputs = problem->weight[1], outputs = problem->weight[0] / problem->groups;

    return fill_up(problem, FILL_POWERS, inputs) != fill_up(problem, FILL_CHUNKS, inputs) ||
           fill_up(problem, FILL_POWERS, outputs) != fill_up(problem, FILL_CHUNKS, outputs);
}

bool convolution_padded_is_possible(const struct convolution_problem *problem,
                                    enum convolution_filling filling)
{
    const bool tensor_cores = problem->type != TENSOR_FLOAT32 || problem->tf32;

    return tensor_cores && changes(problem, filling) &&
           (filling == FILL_CHUNKS || (problem->groups > 1 && powers_differ(problem)));
}

static size_t bytes_of(const struct convolution_problem *problem, const int64_t extent[4])
{
    return align_up((size_t)(extent[0] * extent[1] * extent[2] * extent[3]) *
                        tensor_type_bytes(problem->type),
                    CUDA_SCRATCH_ALIGNMENT);
}

/* Places what the workspace holds behind the plan's own part. */
static void place_operands(struct convolution_padded *padded)
{
    const struct convolution_problem *filled = &padded->filled;

    padded->bytes = align_up(padded->plan.workspace_bytes, CUDA_SCRATCH_ALIGNMENT);
    padded->x = padded->bytes;
    padded->bytes += padded->copies_x ? bytes_of(filled, filled->x) : 0;
    padded->y = padded->bytes;
    padded->bytes += padded->copies_y ? bytes_of(filled, filled->y) : 0;
    padded->weight = padded->bytes;
    padded->bytes += bytes_of(filled, filled->weight);
}

/* The problem for a part of the images, and the same with zeros. */
static void describe_part(const struct convolution_problem *problem,
                          enum convolution_filling filling, int parts,
                          struct convolution_padded *padded)
{
    const int64_t inputs = fill_up(problem, filling, problem->weight[1]);
    const int64_t outputs = fill_up(problem, filling, problem->weight[0] / problem->groups);

    *padded = (struct convolution_padded){.problem = *problem, .parts = parts};
    padded->problem.x[0] = padded->problem.y[0] = problem->x[0] / parts;
    padded->problem.result = problem->type;
    padded->problem.bias = false;
    padded->filled = padded->problem;
    padded->filled.x[1] = inputs * problem->groups;
    padded->filled.y[1] = padded->filled.weight[0] = outputs * problem->groups;
    padded->filled.weight[1] = inputs;
    padded->copies_x = padded->filled.x[1] != problem->x[1];
    padded->copies_y = padded->filled.y[1] != problem->y[1];
    place_operands(padded);
}

int convolution_padded_prepare(struct convolution_search *search,
                               const struct convolution_problem *problem,
                               enum convolution_filling filling, struct convolution_padded *padded,
                               struct error *error)
{
    int parts = 1, r;

    describe_part(problem, filling, parts, padded);
    while (parts <= PADDED_PARTS_MAX &&
           (problem->x[0] % parts != 0 || padded->bytes > PADDED_BYTES_MAX))
        describe_part(problem, filling, ++parts, padded);
    if (parts > PADDED_PARTS_MAX)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "a convolution whose channels are filled up takes more than %d MiB",
                         PADDED_BYTES_MAX >> 20);
    r = convolution_search_plan(search, &padded->filled, false, INFINITY, &padded->graph,
                                &padded->plan, error);
    if (r == 0)
        place_operands(padded);
    return r;
}

void convolution_padded_free(struct convolution_padded *padded)
{
    convolution_plan_free(&padded->plan);
    convolution_graph_free(padded->graph);
    *padded = (struct convolution_padded){.graph = NULL};
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* The groups of each pixel. */
static struct cuda_fill fill_of_images(const struct convolution_problem *from,
                                       const struct convolution_problem *to,
                                       const int64_t from_extent[4], const int64_t to_extent[4])
{
    return (struct cuda_fill){.blocks =
                                  from_extent[0] * from_extent[2] * from_extent[3] * from->groups,
                              .from_rows = 1,
                              .to_rows = 1,
                              .taps = 1,
                              .from_channels = from_extent[1] / from->groups,
                              .to_channels = to_extent[1] / to->groups};
}

static struct cuda_fill fill_of_weights(const struct convolution_problem *from,
                                        const struct convolution_problem *to)
{
    return (struct cuda_fill){.blocks = from->groups,
                              .from_rows = from->weight[0] / from->groups,
                              .to_rows = to->weight[0] / to->groups,
                              .taps = from->weight[2] * from->weight[3],
                              .from_channels = from->weight[1],
                              .to_channels = to->weight[1]};
}

static cudaError_t copy_operands(const struct convolution_padded *padded,
                                 const struct convolution_operands *operands,
                                 const struct convolution_operands *filled, cudaStream_t stream)
{
    const struct convolution_problem *from = &padded->problem, *to = &padded->filled;
    const enum convolution_pass pass = from->pass;
    const struct cuda_fill x = fill_of_images(from, to, from->x, to->x);
    const struct cuda_fill y = fill_of_images(from, to, from->y, to->y);
    const struct cuda_fill weight = fill_of_weights(from, to);
    cudaError_t status = cudaSuccess;

    if (pass != CONVOLUTION_DATA && padded->copies_x)
        status = cuda_fill_channels(&x, (struct cuda_array){operands->x, from->type},
                                    (struct cuda_array){filled->x, from->type}, false, stream);
    if (status == cudaSuccess && pass != CONVOLUTION_FORWARD && padded->copies_y)
        status = cuda_fill_channels(&y, (struct cuda_array){operands->y, from->type},
                                    (struct cuda_array){filled->y, from->type}, false, stream);
    if (status == cudaSuccess && pass != CONVOLUTION_WEIGHTS)
        status = cuda_fill_channels(&weight, (struct cuda_array){operands->weight, from->type},
                                    (struct cuda_array){filled->weight, from->type}, false, stream);
    return status;
}

/* The result without the zeros. */
static cudaError_t copy_result(const struct convolution_padded *padded,
                               const struct convolution_operands *filled, struct cuda_array result,
                               bool accumulate, cudaStream_t stream)
{
    const struct convolution_problem *from = &padded->filled, *to = &padded->problem;
    struct cuda_array written = {.type = from->type};
    struct cuda_fill fill;

    switch (from->pass) {
    case CONVOLUTION_FORWARD:
        if (!padded->copies_y)
            return cudaSuccess;
        written.at = filled->y;
        fill = fill_of_images(from, to, from->y, to->y);
        break;
    case CONVOLUTION_DATA:
        if (!padded->copies_x)
            return cudaSuccess;
        written.at = filled->x;
        fill = fill_of_images(from, to, from->x, to->x);
        break;
    default:
        written.at = filled->weight;
        fill = fill_of_weights(from, to);
    }
    return cuda_fill_channels(&fill, written, result, accumulate, stream);
}

/* Part `part` of the images of a tensor. */
static void *part_of(const int64_t extent[4], void *at, size_t element_bytes, int part)
{
    int64_t elements = extent[0] * extent[1] * extent[2] * extent[3];

    return (char *)at + (size_t)(part * elements) * element_bytes;
}

static int run_part(struct convolution_padded *padded, const struct convolution_operands *operands,
                    struct cuda_array result, bool accumulate, cudaStream_t stream,
                    struct error *error)
{
    static const char *const what = "a convolution whose channels are filled up";
    const enum convolution_pass pass = padded->problem.pass;
    char *workspace = operands->workspace;
    struct convolution_operands filled = {
        .x = padded->copies_x ? workspace + padded->x : operands->x,
        .y = padded->copies_y ? workspace + padded->y : operands->y,
        .weight = workspace + padded->weight,
        .workspace = workspace};
    cudaError_t status;
    int r;

    if (pass == CONVOLUTION_FORWARD && !padded->copies_y)
        filled.y = result.at;
    if (pass == CONVOLUTION_DATA && !padded->copies_x)
        filled.x = result.at;
    status = copy_operands(padded, operands, &filled, stream);
    if (status != cudaSuccess)
        return cuda_fail(error, status, what);
    r = convolution_plan_run(&padded->plan, &filled, error);
    if (r < 0)
        return r;
    status = copy_result(padded, &filled, result, accumulate, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, what);
}

int convolution_padded_run(struct convolution_padded *padded,
                           const struct convolution_operands *operands, struct cuda_array result,
                           bool accumulate, cudaStream_t stream, struct error *error)
{
    const struct convolution_problem *problem = &padded->problem;
    const size_t element = tensor_type_bytes(problem->type);
    int r = 0;

    for (int part = 0; part < padded->parts && r == 0; part++) {
        struct convolution_operands some = *operands;
        struct cuda_array written = result;

        some.x = part_of(problem->x, some.x, element, part);
        some.y = part_of(problem->y, some.y, element, part);
        if (problem->pass != CONVOLUTION_WEIGHTS)
            written.at = part_of(problem->pass == CONVOLUTION_FORWARD ? problem->y : problem->x,
                                 result.at, tensor_type_bytes(result.type), part);
        r = run_part(padded, &some, written,
                     accumulate || (part > 0 && problem->pass == CONVOLUTION_WEIGHTS), stream,
                     error);
    }
    return r;
}

struct padded_run {
    struct convolution_padded padded;
    struct convolution_operands operands;
    cudaStream_t stream;
};

static int launch_padded(void *context, struct error *error)
{
    struct padded_run *run = context;
    const struct convolution_operands *o = &run->operands;
    const enum convolution_pass pass = run->padded.problem.pass;
    struct cuda_array result = {.type = pass == CONVOLUTION_WEIGHTS ? TENSOR_FLOAT32
                                                                    : run->padded.problem.type};

    result.at = pass == CONVOLUTION_FORWARD ? o->y : pass == CONVOLUTION_DATA ? o->x : o->weight;
    return convolution_padded_run(&run->padded, o, result, false, run->stream, error);
}

bool convolution_padded_time(struct convolution_search *search,
                             const struct convolution_problem *problem,
                             enum convolution_filling filling, cudaStream_t stream,
                             double *microseconds)
{
    struct padded_run run = {.stream = stream};
    struct error ignored;
    bool is_timed;

    if (convolution_padded_prepare(search, problem, filling, &run.padded, &ignored) < 0)
        return false;
    is_timed = convolution_search_operands(search, problem, run.padded.bytes, &run.operands) &&
               choices_time(stream, launch_padded, &run, OWN_RUNS, microseconds, &ignored) == 0;
    convolution_padded_free(&run.padded);
    return is_timed;
}
