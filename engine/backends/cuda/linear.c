/* linear.c: the products of linear layers, by cuBLASLt, which is loaded at run time.
 *
 * cuBLASLt is column-major, traind row-major: a row-major [r, c] is a column-major [c, r]. So
 * y[B,O] = x[B,I] weight[O,I]^T is computed as y^T[O,B] = weight[O,I] x^T[I,B], and so on.
 * Reductions in place, whose order is not fixed, are excluded: the same bits come out every time.
 */
#include "engine/backends/cuda/cuda.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CUBLASLT_FUNCTIONS(ROW)          \
    ROW(cublasLtCreate)                  \
    ROW(cublasLtDestroy)                 \
    ROW(cublasLtGetVersion)              \
    ROW(cublasLtMatmul)                  \
    ROW(cublasLtMatmulAlgoGetHeuristic)  \
    ROW(cublasLtMatmulDescCreate)        \
    ROW(cublasLtMatmulDescDestroy)       \
    ROW(cublasLtMatmulDescSetAttribute)  \
    ROW(cublasLtMatrixLayoutCreate)      \
    ROW(cublasLtMatrixLayoutDestroy)     \
    ROW(cublasLtMatmulPreferenceCreate)  \
    ROW(cublasLtMatmulPreferenceDestroy) \
    ROW(cublasLtMatmulPreferenceSetAttribute)

struct cublaslt {
    void *library;
    cublasLtHandle_t handle;
#define MEMBER(name) __typeof__(name) *name;
    CUBLASLT_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct product {
    const struct cublaslt *library;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, result;
    cublasLtMatmulAlgo_t algorithm;
};

/* ---- the library -------------------------------------------------------------------------------
 */

static int look_up(struct cublaslt *library, struct error *error)
{
#define LOOK_UP(name)                                          \
    *(void **)&library->name = dlsym(library->library, #name); \
    if (!library->name)                                        \
        return error_set(error, -ENOSYS, "libcublasLt has no " #name);
    CUBLASLT_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return 0;
}

int cublaslt_open(struct cublaslt **result, struct error *error)
{
    struct cublaslt *library = calloc(1, sizeof *library);
    char name[32];
    int r;

    if (!library)
        return error_set(error, -ENOMEM, "no memory for cuBLASLt");
    snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    library->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    r = library->library
            ? look_up(library, error)
            : error_set(error, -ENOENT,
                        "NVIDIA's cuBLAS cannot be loaded: %s; install it, or name its "
                        "folder in LD_LIBRARY_PATH",
                        dlerror());
    if (r == 0 && library->cublasLtCreate(&library->handle) != CUBLAS_STATUS_SUCCESS)
        r = error_set(error, -EIO, "cuBLASLt cannot be initialised");
    if (r < 0) {
        cublaslt_close(library);
        return r;
    }
    *result = library;
    return 0;
}

void cublaslt_close(struct cublaslt *library)
{
    if (!library)
        return;
    if (library->handle)
        library->cublasLtDestroy(library->handle);
    if (library->library)
        dlclose(library->library);
    free(library);
}

void cublaslt_describe(const struct cublaslt *library, char *text, size_t size)
{
    size_t version = library->cublasLtGetVersion();

    snprintf(text, size, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
}

/* ---- products ----------------------------------------------------------------------------------
 */

void product_free(struct product *product)
{
    if (!product)
        return;
    if (product->operation)
        product->library->cublasLtMatmulDescDestroy(product->operation);
    if (product->a)
        product->library->cublasLtMatrixLayoutDestroy(product->a);
    if (product->b)
        product->library->cublasLtMatrixLayoutDestroy(product->b);
    if (product->result)
        product->library->cublasLtMatrixLayoutDestroy(product->result);
    free(product);
}

/* A column-major product [m, n] = op(a) op(b), summed over k. */
struct product_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
};

static bool describe_product(struct product *product, const struct product_shape *shape)
{
    const struct cublaslt *lt = product->library;
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    int64_t a_rows = shape->transpose_a ? shape->k : shape->m;
    int64_t a_columns = shape->transpose_a ? shape->m : shape->k;
    int64_t b_rows = shape->transpose_b ? shape->n : shape->k;
    int64_t b_columns = shape->transpose_b ? shape->k : shape->n;

    return lt->cublasLtMatmulDescCreate(&product->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                              shape->transpose_a ? &transposed : &plain,
                                              sizeof plain) == CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                              shape->transpose_b ? &transposed : &plain,
                                              sizeof plain) == CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate(&product->a, CUDA_R_32F, (uint64_t)a_rows,
                                          (uint64_t)a_columns, a_rows) == CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate(&product->b, CUDA_R_32F, (uint64_t)b_rows,
                                          (uint64_t)b_columns, b_rows) == CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate(&product->result, CUDA_R_32F, (uint64_t)shape->m,
                                          (uint64_t)shape->n, shape->m) == CUBLAS_STATUS_SUCCESS;
}

/* The bias is added by the product itself. */
static bool add_bias(struct product *product)
{
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;

    return product->library->cublasLtMatmulDescSetAttribute(
               product->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) ==
           CUBLAS_STATUS_SUCCESS;
}

static bool choose_algorithm(struct product *product)
{
    const struct cublaslt *lt = product->library;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_MASK & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
    /* it takes 256 for granted otherwise */
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t alignment = MEMORY_ALIGNMENT;
    const size_t scratch = CUDA_PRODUCT_SCRATCH;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;

    if (lt->cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        return false;
    lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &scratch, sizeof scratch);
    lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof reductions);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        lt->cublasLtMatmulPreferenceSetAttribute(preference, operands[i], &alignment,
                                                 sizeof alignment);
    lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, product->operation, product->a, product->b,
                                       product->result, product->result, preference, 1, &found,
                                       &count);
    lt->cublasLtMatmulPreferenceDestroy(preference);
    if (count < 1)
        return false;
    product->algorithm = found.algo;
    return true;
}

static bool has_bias(const struct graph_node *node)
{
    return node->op == OP_LINEAR && node->input_count > 2 && node->input[2] >= 0;
}

static struct product_shape shape_of(const struct backend_program *program,
                                     const struct graph_node *node)
{
    bool by_weights = node->op == OP_LINEAR_BACKWARD_WEIGHTS;
    const struct graph_tensor *weight =
        &program->graph->tensors[by_weights ? node->output[0] : node->input[1]];
    int64_t outputs = weight->shape.extent[0], inputs = weight->shape.extent[1];
    int64_t rows = program_elements(program, node->input[0]) /
                   (node->op == OP_LINEAR_BACKWARD_DATA ? outputs : inputs);

    if (node->op == OP_LINEAR)
        return (struct product_shape){outputs, rows, inputs, true, false};
    if (node->op == OP_LINEAR_BACKWARD_DATA)
        return (struct product_shape){inputs, rows, outputs, false, false};
    return (struct product_shape){inputs, outputs, rows, false, true};
}

int linear_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct product_shape shape = shape_of(program, node);
    struct product *product = calloc(1, sizeof *product);

    if (!product)
        return error_set(error, -ENOMEM, "no memory for the program");
    program->products[index] = product;
    product->library = program->device->cublaslt;
    if (!describe_product(product, &shape) || (has_bias(node) && !add_bias(product)) ||
        !choose_algorithm(product))
        return error_set(error, -ENOTSUP, "%s: cuBLASLt has no product for %lld x %lld x %lld",
                         node->name, (long long)shape.m, (long long)shape.n, (long long)shape.k);
    return 0;
}

static int multiply(struct backend_program *program, int32_t index, const float *a, const float *b,
                    bool accumulate, float *result, struct error *error)
{
    const struct product *product = program->products[index];
    const float one = 1, beta = accumulate ? 1 : 0;
    cublasStatus_t status = product->library->cublasLtMatmul(
        product->library->handle, product->operation, &one, a, product->a, b, product->b, &beta,
        result, product->result, result, product->result, &product->algorithm, program->scratch,
        CUDA_PRODUCT_SCRATCH, program->device->stream);

    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_set(error, -EIO, "%s: cuBLASLt failed (status %d)",
                     program->graph->nodes[index].name, (int)status);
}

static int64_t rows_of(const struct backend_program *program, int32_t tensor, int64_t columns)
{
    return program_elements(program, tensor) / columns;
}

int linear_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct product *product = program->products[index];
    const float *bias = has_bias(node) ? program_floats(program, node->input[2]) : NULL;

    if (bias && product->library->cublasLtMatmulDescSetAttribute(
                    product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias) !=
                    CUBLAS_STATUS_SUCCESS)
        return error_set(error, -EIO, "%s: cuBLASLt takes no bias", node->name);
    return multiply(program, index, program_floats(program, node->input[1]),
                    program_floats(program, node->input[0]), false,
                    program_floats(program, node->output[0]), error);
}

int linear_backward_data_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return multiply(program, index, program_floats(program, node->input[1]),
                    program_floats(program, node->input[0]), false,
                    program_floats(program, node->output[0]), error);
}

int linear_backward_weights_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t outputs = program->graph->tensors[node->output[0]].shape.extent[0];
    const float *dy = program_floats(program, node->input[1]);
    cudaError_t status;
    int r = multiply(program, index, program_floats(program, node->input[0]), dy,
                     program->run.accumulate, program_floats(program, node->output[0]), error);

    if (r < 0 || node->output_count < 2 || node->output[1] < 0)
        return r;
    status = cuda_column_sum(dy, rows_of(program, node->input[1], outputs), outputs,
                             program->run.accumulate, program_floats(program, node->output[1]),
                             program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
