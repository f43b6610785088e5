/* casts.c: makes the rounded copies of parameters that products read. A network has dozens of them,
 * most of them small, so one launch makes up to CUDA_CASTS_MAX copies, before the first one is
 * read. */
#include "engine/backends/cuda/cuda.h"

static bool is_parameter_cast(const struct backend_program *program, const struct graph_node *node)
{
    return node->op == OP_CAST && node->phase == GRAPH_FORWARD &&
           program->graph->tensors[node->input[0]].role == TENSOR_PARAMETER &&
           program->stored[node->output[0]] != program->stored[node->input[0]];
}

static int run_casts(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph *graph = program->graph;
    struct cuda_casts casts = {.count = 0};
    cudaError_t status = cudaSuccess;

    for (int32_t i = index; status == cudaSuccess && i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (!is_parameter_cast(program, node))
            continue;
        casts.cast[casts.count++] =
            (struct cuda_cast){.from = program_floats(program, node->input[0]),
                               .to = program_array(program, node->output[0]),
                               .elements = program_elements(program, node->input[0])};
        if (casts.count == CUDA_CASTS_MAX) {
            status = cuda_cast_many(&casts, program->device->stream);
            casts.count = 0;
        }
    }
    if (status == cudaSuccess && casts.count)
        status = cuda_cast_many(&casts, program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the parameters' rounded copies");
}

void program_fuse_casts(struct backend_program *program)
{
    int32_t first = -1;

    for (int32_t i = 0; i < program->graph->node_count; i++) {
        if (!is_parameter_cast(program, &program->graph->nodes[i]))
            continue;
        if (first < 0)
            first = i;
        program->operators[i] = first == i ? run_casts : cuda_nothing;
        program->node_step[i] = first;
    }
}
