/* muon.c: Muon, as in engine/backends/cpu/operator_muon.c:
 *
 *   buffer = momentum buffer + (1 - momentum) g;  u = g + momentum (buffer - g) with Nesterov
 *   X = u / |u|
 *   repeat: A = X X^T;  B = b A + c A A;  X = a X + B X
 *   w = (1 - lr decay) w - lr scale X
 *
 * For a matrix with more rows than columns it computes A = X^T X, X = a X + X B, which gives the
 * same numbers without transposing the matrix. A and B are symmetric. Products are cuBLASLt's: in
 * float32 if the graph multiplies in float32, else in tf32 if the device has it (torch.optim.Muon:
 * bfloat16). */
#include "engine/backends/cuda/muon.h"

#include "base/alignment.h"
#include "engine/graph/optimizer.h"

#include <stdlib.h>

/* Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/ */
static const float quintic_a = 3.4445f, quintic_b = -4.7750f, quintic_c = 2.0315f;

struct muon {
    int64_t rows, columns, small; /* small: the smaller of both */
    struct product *gram, *square, *apply;
    size_t matrix_bytes, square_bytes; /* of X, and of A and B, which are in the workspace */
};

/* Makes the products. X[rows, columns] is column-major [columns, rows]. */
static int make_products(const struct backend_program *program, struct muon *muon,
                         struct error *error)
{
    const struct cublaslt *library = program->device->cublaslt;
    bool wide = muon->rows <= muon->columns;
    struct product_shape shape = {.m = muon->small,
                                  .n = muon->small,
                                  .k = wide ? muon->columns : muon->rows,
                                  .transpose_a = wide,
                                  .transpose_b = !wide,
                                  .tf32 = program->graph->compute_type != TENSOR_FLOAT32 &&
                                          program->device->capability[0] >= 8};
    int r = product_make(library, &shape, &muon->gram, error);

    shape.transpose_a = shape.transpose_b = false;
    shape.k = muon->small;
    if (r == 0)
        r = product_make(library, &shape, &muon->square, error);
    shape.m = muon->columns;
    shape.n = muon->rows;
    return r < 0 ? r : product_make(library, &shape, &muon->apply, error);
}

int muon_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *shape = &program->graph->tensors[node->input[0]].shape;
    struct muon *muon = calloc(1, sizeof *muon);
    int r;

    if (!muon)
        return error_no_memory(error, "the program");
    program->muons[index] = muon;
    muon->rows = shape->extent[0];
    muon->columns = shape->extent[1];
    muon->small = muon->rows < muon->columns ? muon->rows : muon->columns;
    muon->matrix_bytes =
        align_up((size_t)(muon->rows * muon->columns) * sizeof(float), MEMORY_ALIGNMENT);
    muon->square_bytes =
        align_up((size_t)(muon->small * muon->small) * sizeof(float), MEMORY_ALIGNMENT);
    program->workspace_bytes[index] =
        2 * muon->matrix_bytes + 2 * muon->square_bytes + CUDA_SQUARES_BLOCKS * sizeof(double);
    r = make_products(program, muon, error);
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

void muon_free(struct muon *muon)
{
    if (!muon)
        return;
    product_free(muon->gram);
    product_free(muon->square);
    product_free(muon->apply);
    free(muon);
}

/* Computes one iteration: next from x. */
static int iterate(struct backend_program *program, const struct muon *muon, char *x, char *next,
                   char *gram, struct error *error)
{
    char *polynomial = gram + muon->square_bytes;
    bool wide = muon->rows <= muon->columns;
    cudaStream_t stream = program->device->stream;
    struct product_call call = {
        .a = x, .b = x, .result = gram, .alpha = 1, .scratch = program->scratch};
    int r = product_run(muon->gram, &call, stream, error);

    call.a = call.b = call.c = gram;
    call.result = polynomial;
    call.alpha = quintic_c;
    call.beta = quintic_b;
    if (r == 0)
        r = product_run(muon->square, &call, stream, error);
    call.a = wide ? x : polynomial;
    call.b = wide ? polynomial : x;
    call.c = x;
    call.result = next;
    call.alpha = 1;
    call.beta = quintic_a;
    return r < 0 ? r : product_run(muon->apply, &call, stream, error);
}

int muon_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct muon *muon = program->muons[index];
    const struct optimizer_config *config =
        &program->graph->groups[node->attributes.optimizer_group].config;
    char *x[2] = {program->workspace[index], program->workspace[index] + muon->matrix_bytes};
    char *gram = x[1] + muon->matrix_bytes;
    double *squares = (double *)(void *)(gram + 2 * muon->square_bytes);
    struct cuda_muon update = {.control = program->control,
                               .scalars = program->step_scalars,
                               .summed = program->run.sums_squares,
                               .item = update_item(program, node)};
    cudaStream_t stream = program->device->stream;
    cudaError_t status;
    int r = 0;

    status = cuda_muon_direction(&update, config->epsilon, (float *)(void *)x[0], squares, stream);
    if (status != cudaSuccess)
        return cuda_fail(error, status, node->name);
    for (int i = 0; i < config->iterations && r == 0; i++)
        r = iterate(program, muon, x[i % 2], x[(i + 1) % 2], gram, error);
    if (r < 0)
        return error_prefix(error, "%s", node->name);
    status = cuda_muon_update(
        &update,
        (float)optimizer_muon_rate_scale(config, (double)muon->rows, (double)muon->columns),
        (const float *)(void *)x[config->iterations % 2], stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
