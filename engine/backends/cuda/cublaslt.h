/* cublaslt.h: matrix products by NVIDIA's cuBLASLt, which is loaded at run time.
 *
 * cuBLASLt is column-major and traind row-major: a row-major [r, c] is a column-major [c, r]. In
 * this file everything is column-major. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <cuda_runtime_api.h>

enum {
    /* the workspace of a product in bytes, which NVIDIA recommends for compute capability 9.0 */
    CUDA_PRODUCT_SCRATCH = 32 << 20,
    CUDA_SCRATCH_ALIGNMENT = 256 /* of the workspace */
};

struct cublaslt;
/* Loads only the library's code. A thread may do this while the context is made: it takes 60 ms,
 * most of the time of opening. NULL: there is no library. Call dlclose() after cublaslt_open(). */
void *cublaslt_load(void);
/* -ENOENT with a sentence that names the remedy: the library is missing. */
int cublaslt_open(struct cublaslt **library, struct error *error);
void cublaslt_close(struct cublaslt *library);
/* Writes "cuBLASLt 13.0.2". */
void cublaslt_describe(const struct cublaslt *library, char *text, size_t size);
size_t cublaslt_version(const struct cublaslt *library);

/* The operation fused with a product; `vector` has the result's type. */
enum product_epilogue {
    PRODUCT_ALONE,
    PRODUCT_RECTIFIED, /* result = max(0, .) */
    PRODUCT_BIAS,      /* + vector[m] in every column */
    PRODUCT_BIAS_RECTIFIED,
    PRODUCT_COLUMN_SUMS /* vector[n] = the sums of op(b) over k */
};

/* result[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c[m, n], summed in float32. Matrices have no
 * gaps. */
struct product_shape {
    int64_t m, n, k;
    int64_t count; /* so many products, whose matrices lie one behind another; 0: one */
    bool transpose_a, transpose_b;
    enum tensor_type operands, result; /* as they are stored: float32, bfloat16 or float16 */
    bool tf32;                         /* float32 operands may be rounded to tf32 */
    enum product_epilogue epilogue;
};

/* One shape with its algorithm. That is the heuristics' first choice whose sums have a fixed order,
 * or the one that was measured to be the fastest (linear_search.h). */
struct product;
/* -ERROR_UNSUPPORTED: cuBLASLt has no such product. */
int product_make(const struct cublaslt *library, const struct product_shape *shape,
                 struct product **product, struct error *error);
void product_free(struct product *product);
/* Makes products with the heuristics' first choices, the most promising one first: at most `most`.
 * Returns how many. */
int product_make_several(const struct cublaslt *library, const struct product_shape *shape,
                         struct product **products, int most);
/* The algorithm of a product as text, for product_make_known(). */
enum { PRODUCT_ALGORITHM_MAX = 160 };
void product_algorithm(const struct product *product, char text[PRODUCT_ALGORITHM_MAX]);
/* -ERROR_UNSUPPORTED: the algorithm does not work for the shape. */
int product_make_known(const struct cublaslt *library, const struct product_shape *shape,
                       const char *algorithm, struct product **product, struct error *error);

struct product_call {
    /* c has the result's type and may be the result; it is not read if beta is 0 */
    const void *a, *b, *c;
    void *result, *vector;
    float alpha, beta;
    void *scratch; /* CUDA_PRODUCT_SCRATCH bytes */
};
int product_run(const struct product *product, const struct product_call *call, cudaStream_t stream,
                struct error *error);
