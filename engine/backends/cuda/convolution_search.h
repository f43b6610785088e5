/* convolution_search.h: which of cuDNN's ways to do a convolution is the fastest on this device:
 * measured once, with the power of two of images below the batch's, then known, in this process
 * and, where there is a file for it, in later ones. */
#pragma once

#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/convolution_plan.h"

/* What a plan may want for itself while it runs. */
enum { CONVOLUTION_WORKSPACE_MAX = 512 << 20 };

struct convolution_search;

/* `file`: choices_open(). */
int convolution_search_open(const struct cudnn *cudnn, cudaStream_t stream, const char *file,
                            struct convolution_search **search, struct error *error);
void convolution_search_close(struct convolution_search *search);
/* What it has found; lent. */
struct choices *convolution_search_choices(struct convolution_search *search);

/* All that a choice depends on, without blanks. */
void convolution_search_key(const struct convolution_problem *problem, char key[CHOICES_KEY_MAX]);
/* What is measured in place of the problem: a batch of the power of two below its own. */
struct convolution_problem convolution_search_measured(const struct convolution_problem *problem);
/* Memory to measure on; false: there is not enough. */
bool convolution_search_operands(struct convolution_search *search,
                                 const struct convolution_problem *problem, size_t workspace_bytes,
                                 struct convolution_operands *operands);

/* The way to solve the problem; the caller releases plan and graph. A way whose code must be
 * compiled each time is taken only if `compile` and where there is no other. Measures on memory of
 * the device that it takes for a while; where there is not enough, cuDNN's own proposal is taken.
 * `limit`: microseconds that another way takes for the measured problem, or INFINITY;
 * -ERROR_SLOWER: every plan takes longer. -ERROR_UNSUPPORTED: there is none. */
int convolution_search_plan(struct convolution_search *search,
                            const struct convolution_problem *problem, bool compile, double limit,
                            struct convolution_graph **graph, struct convolution_plan *plan,
                            struct error *error);
/* Microseconds of one run among `runs`, which are captured as a CUDA graph: what a training step
 * does. */
int convolution_plan_time(struct convolution_plan *plan,
                          const struct convolution_operands *operands, cudaStream_t stream,
                          int runs, double *microseconds, struct error *error);
