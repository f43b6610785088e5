/* convolution_padded.h: a convolution by a plan of cuDNN for more channels than it has. cuDNN's
 * tensor core kernels take channels of a group in chunks of 16 bytes, and those that take several
 * groups at once want powers of two. So the operands are copied to the node's workspace, where
 * zeros fill each group up, and the result is copied back without them. The zeros add nothing to
 * any sum. */
#pragma once

#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/kernels/kernels.h"

enum convolution_filling {
    FILL_CHUNKS, /* to a multiple of 16 bytes */
    FILL_POWERS, /* to a power of two, at least 16 bytes; where there are groups */
    CONVOLUTION_FILLINGS
};

struct convolution_padded {
    struct convolution_problem problem, filled; /* of a part of the images: as it is, with zeros */
    int parts;                                  /* that the images are divided into */
    struct convolution_graph *graph;
    struct convolution_plan plan;
    size_t x, weight, y; /* where they lie in the workspace; what needs no zeros is not copied */
    bool copies_x, copies_y;
    size_t bytes; /* of the workspace; the plan's own part lies at its beginning */
};

/* Whether it changes a group's inputs or outputs, and the products may run on tensor cores. */
bool convolution_padded_is_possible(const struct convolution_problem *problem,
                                    enum convolution_filling filling);
/* Finds the plan. Images are divided into equal parts, one after the other, whose copies take at
 * most PADDED_BYTES_MAX. -ERROR_UNSUPPORTED: there is no plan, or no such division. The caller
 * calls convolution_padded_free() on success. */
enum { PADDED_BYTES_MAX = 128 << 20, PADDED_PARTS_MAX = 64 };
int convolution_padded_prepare(struct convolution_search *search,
                               const struct convolution_problem *problem,
                               enum convolution_filling filling, struct convolution_padded *padded,
                               struct error *error);
void convolution_padded_free(struct convolution_padded *padded);

/* `operands`: the tensors as they are, and `bytes` of workspace, aligned to CUDA_SCRATCH_ALIGNMENT.
 * `result` takes the place of the operand that the pass writes; `accumulate`: is added to. */
int convolution_padded_run(struct convolution_padded *padded,
                           const struct convolution_operands *operands, struct cuda_array result,
                           bool accumulate, cudaStream_t stream, struct error *error);
/* Microseconds of one run with all its copies. False: there is no such way, or no memory. */
bool convolution_padded_time(struct convolution_search *search,
                             const struct convolution_problem *problem,
                             enum convolution_filling filling, cudaStream_t stream,
                             double *microseconds);
