/* cublaslt.h: matrix products by NVIDIA's cuBLASLt, which is loaded at run time.
 *
 * cuBLASLt is column-major, traind row-major: a row-major [r, c] is a column-major [c, r]. Here all
 * is column-major. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <cuda_runtime_api.h>

enum {
    CUDA_PRODUCT_SCRATCH = 32 << 20, /* bytes that a product may use: what NVIDIA recommends for
                                        compute capability 9.0 */
    CUDA_SCRATCH_ALIGNMENT = 256     /* that it wants there */
};

struct cublaslt;
/* The library's code alone, which a thread may bring while the context is made: 60 ms, most of what
 * opening takes. NULL: there is none. dlclose() after cublaslt_open(). */
void *cublaslt_load(void);
/* -ENOENT with a sentence that names the remedy: there is no such library. */
int cublaslt_open(struct cublaslt **library, struct error *error);
void cublaslt_close(struct cublaslt *library);
/* "cuBLASLt 13.0.2" */
void cublaslt_describe(const struct cublaslt *library, char *text, size_t size);
size_t cublaslt_version(const struct cublaslt *library);

/* What is done along with a product; `vector` is of the result's type. */
enum product_epilogue {
    PRODUCT_ALONE,
    PRODUCT_RECTIFIED, /* result = max(0, .) */
    PRODUCT_BIAS,      /* + vector[m] in every column */
    PRODUCT_BIAS_RECTIFIED,
    PRODUCT_COLUMN_SUMS /* vector[n] = the sums of op(b) over k */
};

/* result[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c[m, n], summed in float32; without gaps. */
struct product_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    enum tensor_type operands, result; /* as they lie: float32, bfloat16, float16 */
    bool tf32;                         /* float32 operands may be rounded to tf32 */
    enum product_epilogue epilogue;
};

/* One shape, and how it is done: by the heuristics' first choice whose sums have a fixed order, or
 * as was measured to be the fastest (linear_search.h). */
struct product;
/* -ERROR_UNSUPPORTED: cuBLASLt has no such product. */
int product_make(const struct cublaslt *library, const struct product_shape *shape,
                 struct product **product, struct error *error);
void product_free(struct product *product);
/* The heuristics' first choices, the most promising one first: at most `most`; returns how many. */
int product_make_several(const struct cublaslt *library, const struct product_shape *shape,
                         struct product **products, int most);
/* How a product is done, as text for product_make_known(). */
enum { PRODUCT_ALGORITHM_MAX = 160 };
void product_algorithm(const struct product *product, char text[PRODUCT_ALGORITHM_MAX]);
/* -ERROR_UNSUPPORTED: the shape cannot be done so. */
int product_make_known(const struct cublaslt *library, const struct product_shape *shape,
                       const char *algorithm, struct product **product, struct error *error);

struct product_call {
    const void *a, *b, *c; /* c: of the result's type; may be the result; not read with beta 0 */
    void *result, *vector;
    float alpha, beta;
    void *scratch; /* CUDA_PRODUCT_SCRATCH bytes */
};
int product_run(const struct product *product, const struct product_call *call, cudaStream_t stream,
                struct error *error);
