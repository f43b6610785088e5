/* cublaslt.c: see cublaslt.h. It excludes reductions in place, because their order is not fixed. So
 * the same bits come out every time. */
#include "engine/backends/cuda/cublaslt.h"

#include "engine/graph/memory_plan.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CUBLASLT_FUNCTIONS(ROW)           \
    ROW(cublasLtCreate)                   \
    ROW(cublasLtDestroy)                  \
    ROW(cublasLtGetVersion)               \
    ROW(cublasLtMatmul)                   \
    ROW(cublasLtMatmulAlgoCheck)          \
    ROW(cublasLtMatmulAlgoGetHeuristic)   \
    ROW(cublasLtMatmulDescCreate)         \
    ROW(cublasLtMatmulDescDestroy)        \
    ROW(cublasLtMatmulDescSetAttribute)   \
    ROW(cublasLtMatrixLayoutCreate)       \
    ROW(cublasLtMatrixLayoutDestroy)      \
    ROW(cublasLtMatrixLayoutSetAttribute) \
    ROW(cublasLtMatmulPreferenceCreate)   \
    ROW(cublasLtMatmulPreferenceDestroy)  \
    ROW(cublasLtMatmulPreferenceSetAttribute)

struct cublaslt {
    void *library;
    cublasLtHandle_t handle;
#define MEMBER(name) __typeof__(name) *name;
    CUBLASLT_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* ---- the library ----------------------------------------------------------------------------- */

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

void *cublaslt_load(void)
{
    char name[32];

    snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

int cublaslt_open(struct cublaslt **result, struct error *error)
{
    struct cublaslt *library = calloc(1, sizeof *library);
    int r;

    if (!library)
        return error_no_memory(error, "cuBLASLt");
    library->library = cublaslt_load();
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

size_t cublaslt_version(const struct cublaslt *library)
{
    return library->cublasLtGetVersion();
}

void cublaslt_describe(const struct cublaslt *library, char *text, size_t size)
{
    size_t version = cublaslt_version(library);

    snprintf(text, size, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
}

enum { PRODUCTS_MAX = 8 }; /* the most proposals that the heuristics are asked for */

/* ---- products -------------------------------------------------------------------------------- */

struct product {
    const struct cublaslt *library;
    struct product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, result;
    cublasLtMatmulAlgo_t algorithm;
};

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

static cudaDataType_t data_type(enum tensor_type type)
{
    return type == TENSOR_BFLOAT16 ? CUDA_R_16BF : type == TENSOR_FLOAT16 ? CUDA_R_16F : CUDA_R_32F;
}

static bool set_attribute(struct product *product, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t size)
{
    return product->library->cublasLtMatmulDescSetAttribute(product->operation, attribute, value,
                                                            size) == CUBLAS_STATUS_SUCCESS;
}

static bool describe_operation(struct product *product)
{
    static const cublasLtEpilogue_t epilogues[] = {
        [PRODUCT_ALONE] = CUBLASLT_EPILOGUE_DEFAULT,
        [PRODUCT_RECTIFIED] = CUBLASLT_EPILOGUE_RELU,
        [PRODUCT_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [PRODUCT_BIAS_RECTIFIED] = CUBLASLT_EPILOGUE_RELU_BIAS,
        [PRODUCT_COLUMN_SUMS] = CUBLASLT_EPILOGUE_BGRADB};
    const struct product_shape *shape = &product->shape;
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    const cublasComputeType_t compute =
        shape->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cudaDataType_t vector = data_type(shape->result);
    const cublasLtEpilogue_t epilogue = epilogues[shape->epilogue];

    return product->library->cublasLtMatmulDescCreate(&product->operation, compute, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           set_attribute(product, CUBLASLT_MATMUL_DESC_TRANSA,
                         shape->transpose_a ? &transposed : &plain, sizeof plain) &&
           set_attribute(product, CUBLASLT_MATMUL_DESC_TRANSB,
                         shape->transpose_b ? &transposed : &plain, sizeof plain) &&
           set_attribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
           (shape->epilogue < PRODUCT_BIAS ||
            set_attribute(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &vector, sizeof vector));
}

static bool describe_matrix(struct product *product, enum tensor_type type, int64_t rows,
                            int64_t columns, cublasLtMatrixLayout_t *layout)
{
    const struct cublaslt *lt = product->library;
    const int32_t count = (int32_t)product->shape.count;
    const int64_t distance = rows * columns;

    if (lt->cublasLtMatrixLayoutCreate(layout, data_type(type), (uint64_t)rows, (uint64_t)columns,
                                       rows) != CUBLAS_STATUS_SUCCESS)
        return false;
    return count <= 1 ||
           (lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                 &count, sizeof count) == CUBLAS_STATUS_SUCCESS &&
            lt->cublasLtMatrixLayoutSetAttribute(
                *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance) ==
                CUBLAS_STATUS_SUCCESS);
}

static bool describe_matrices(struct product *product)
{
    const struct product_shape *s = &product->shape;

    return describe_matrix(product, s->operands, s->transpose_a ? s->k : s->m,
                           s->transpose_a ? s->m : s->k, &product->a) &&
           describe_matrix(product, s->operands, s->transpose_b ? s->n : s->k,
                           s->transpose_b ? s->k : s->n, &product->b) &&
           describe_matrix(product, s->result, s->m, s->n, &product->result);
}

/* The alignment of all matrices in bytes: where there are several, each begins behind another. */
static uint32_t matrix_alignment(const struct product_shape *shape)
{
    const uint64_t elements[] = {(uint64_t)(shape->m * shape->k), (uint64_t)(shape->k * shape->n),
                                 (uint64_t)(shape->m * shape->n)};
    uint64_t bits = MEMORY_ALIGNMENT;

    for (int i = 0; i < 3 && shape->count > 1; i++)
        bits |= elements[i] * tensor_type_bytes(i < 2 ? shape->operands : shape->result);
    return (uint32_t)(bits & -bits);
}

/* Fills in at most `most` algorithms; returns how many. */
static int find_algorithms(struct product *product, cublasLtMatmulHeuristicResult_t *found,
                           int most)
{
    const struct cublaslt *lt = product->library;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_MASK & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
    /* otherwise the heuristics assume an alignment of 256 */
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t alignment = matrix_alignment(&product->shape);
    const size_t scratch = CUDA_PRODUCT_SCRATCH;
    cublasLtMatmulPreference_t preference;
    int count = 0, good = 0;

    if (lt->cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        return 0;
    lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &scratch, sizeof scratch);
    lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof reductions);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        lt->cublasLtMatmulPreferenceSetAttribute(preference, operands[i], &alignment,
                                                 sizeof alignment);
    lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, product->operation, product->a, product->b,
                                       product->result, product->result, preference, most, found,
                                       &count);
    lt->cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            found[good++] = found[i];
    return good;
}

/* Describes a product without an algorithm. */
static int describe_product(const struct cublaslt *library, const struct product_shape *shape,
                            struct product **product, struct error *error)
{
    struct product *made = calloc(1, sizeof *made);

    if (!made)
        return error_no_memory(error, "the program");
    made->library = library;
    made->shape = *shape;
    if (!describe_operation(made) || !describe_matrices(made)) {
        product_free(made);
        return error_set(error, -ERROR_UNSUPPORTED, "cuBLASLt cannot describe a product");
    }
    *product = made;
    return 0;
}

int product_make_several(const struct cublaslt *library, const struct product_shape *shape,
                         struct product **products, int most)
{
    cublasLtMatmulHeuristicResult_t found[PRODUCTS_MAX];
    struct error ignored;
    int count, made = 0;

    if (most < 1 || describe_product(library, shape, &products[0], &ignored) < 0)
        return 0;
    count = find_algorithms(products[0], found, most < PRODUCTS_MAX ? most : PRODUCTS_MAX);
    for (int i = 0; i < count; i++) {
        if (i > 0 && describe_product(library, shape, &products[i], &ignored) < 0)
            break;
        products[made++]->algorithm = found[i].algo;
    }
    if (made == 0)
        product_free(products[0]);
    return made;
}

int product_make(const struct cublaslt *library, const struct product_shape *shape,
                 struct product **product, struct error *error)
{
    return product_make_several(library, shape, product, 1) == 1
               ? 0
               : error_set(error, -ERROR_UNSUPPORTED,
                           "cuBLASLt has no product for %lld x %lld x %lld in %s",
                           (long long)shape->m, (long long)shape->n, (long long)shape->k,
                           tensor_type_to_string(shape->operands));
}

void product_algorithm(const struct product *product, char text[PRODUCT_ALGORITHM_MAX])
{
    int n = 0;

    for (size_t i = 0; i < sizeof product->algorithm.data / sizeof *product->algorithm.data; i++)
        n += snprintf(text + n, PRODUCT_ALGORITHM_MAX - (size_t)n, "%s%" PRIx64, i ? ":" : "",
                      (uint64_t)product->algorithm.data[i]);
}

static bool parse_algorithm(const char *text, cublasLtMatmulAlgo_t *algorithm)
{
    size_t count = sizeof algorithm->data / sizeof *algorithm->data;

    for (size_t i = 0; i < count; i++) {
        int used = 0;
        uint64_t word;

        if (sscanf(text, "%" SCNx64 "%n", &word, &used) != 1 ||
            text[used] != (i + 1 < count ? ':' : '\0'))
            return false;
        algorithm->data[i] = word;
        text += used + 1;
    }
    return true;
}

int product_make_known(const struct cublaslt *library, const struct product_shape *shape,
                       const char *algorithm, struct product **product, struct error *error)
{
    cublasLtMatmulHeuristicResult_t result;
    int r = describe_product(library, shape, product, error);

    if (r < 0)
        return r;
    if (parse_algorithm(algorithm, &(*product)->algorithm) &&
        library->cublasLtMatmulAlgoCheck(library->handle, (*product)->operation, (*product)->a,
                                         (*product)->b, (*product)->result, (*product)->result,
                                         &(*product)->algorithm,
                                         &result) == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= CUDA_PRODUCT_SCRATCH)
        return 0;
    product_free(*product);
    *product = NULL;
    return error_set(error, -ERROR_UNSUPPORTED, "cuBLASLt cannot do a product as was measured");
}

int product_run(const struct product *product, const struct product_call *call, cudaStream_t stream,
                struct error *error)
{
    const struct cublaslt *lt = product->library;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    if (product->shape.epilogue >= PRODUCT_BIAS)
        status = lt->cublasLtMatmulDescSetAttribute(product->operation,
                                                    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                    &call->vector, sizeof call->vector);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt->cublasLtMatmul(
            lt->handle, product->operation, &call->alpha, call->a, product->a, call->b, product->b,
            &call->beta, call->beta != 0 ? call->c : call->result, product->result, call->result,
            product->result, &product->algorithm, call->scratch, CUDA_PRODUCT_SCRATCH, stream);
    return status == CUBLAS_STATUS_SUCCESS ? 0
                                           : error_set(error, -ERROR_DEVICE_FAILURE,
                                                       "cuBLASLt failed (status %d)", (int)status);
}
