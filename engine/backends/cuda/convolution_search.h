/* convolution_search.h: which of cuDNN's ways to do a convolution is the fastest on this device:
 * measured once, with the power of two of images below the batch's, then known, in this process
 * and, where there is a file for it, in later ones. */
#pragma once

#include "engine/backends/cuda/convolution_plan.h"

/* What a plan may want for itself while it runs. */
enum { CONVOLUTION_WORKSPACE_MAX = 256 << 20 };

struct convolution_search;

/* `file` is read and appended to: lines of a problem and the choice for it; NULL: nothing is kept.
 * It must belong to this model of device, driver and cuDNN. The file that cannot be read or written
 * is no error. */
int convolution_search_open(const struct cudnn *cudnn, cudaStream_t stream, const char *file,
                            struct convolution_search **search, struct error *error);
void convolution_search_close(struct convolution_search *search);
/* Gives a search its file that was opened without one: a warm worker does not know yet whose job it
 * will run. */
void convolution_search_keep(struct convolution_search *search, const char *file);

/* The way to solve the problem; the caller releases plan and graph. A way whose code must be
 * compiled each time is taken only if `compile` and where there is no other. Measures on memory of
 * the device that it takes for a while; where there is not enough, cuDNN's own proposal is taken.
 * -ENOTSUP: there is none. */
int convolution_search_plan(struct convolution_search *search,
                            const struct convolution_problem *problem, bool compile,
                            struct convolution_graph **graph, struct convolution_plan *plan,
                            struct error *error);
/* Gives back the memory that measurements took. */
void convolution_search_trim(struct convolution_search *search);

/* Microseconds of one run among `runs`, which are captured as a CUDA graph: what a training step
 * does. */
int convolution_plan_time(struct convolution_plan *plan,
                          const struct convolution_operands *operands, cudaStream_t stream,
                          int runs, double *microseconds, struct error *error);
