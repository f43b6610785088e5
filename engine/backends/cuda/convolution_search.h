/* convolution_search.h: finds which of cuDNN's ways to compute a convolution is the fastest on this
 * device. It is measured once, with the power of two of images below the batch's. This process then
 * keeps the choice, and if there is a file for it, later processes do. */
#pragma once

#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/convolution_plan.h"

/* The most workspace that a plan may use while it runs. */
enum { CONVOLUTION_WORKSPACE_MAX = 512 << 20 };

struct convolution_search;

/* For `file` see choices_open(). */
int convolution_search_open(const struct cudnn *cudnn, cudaStream_t stream, const char *file,
                            struct convolution_search **search, struct error *error);
void convolution_search_close(struct convolution_search *search);
/* The choices that it has found; lent. */
struct choices *convolution_search_choices(struct convolution_search *search);

/* Writes all that a choice depends on, without blanks. */
void convolution_search_key(const struct convolution_problem *problem, char key[CHOICES_KEY_MAX]);
/* The problem that is measured instead: its batch is the power of two below the problem's. */
struct convolution_problem convolution_search_measured(const struct convolution_problem *problem);
/* Gives memory to measure on; false: there is not enough. */
bool convolution_search_operands(struct convolution_search *search,
                                 const struct convolution_problem *problem, size_t workspace_bytes,
                                 struct convolution_operands *operands);

/* Finds the way to solve the problem; the caller releases plan and graph. A way whose code must be
 * compiled each time is used only if `compile` is set and there is no other. It measures on memory
 * of the device that it holds for a while. If there is not enough, it uses cuDNN's own proposal.
 * `limit`: microseconds that another way takes for the measured problem, or INFINITY.
 * -ERROR_SLOWER: every plan takes longer. -ERROR_UNSUPPORTED: there is no plan. */
int convolution_search_plan(struct convolution_search *search,
                            const struct convolution_problem *problem, bool compile, double limit,
                            struct convolution_graph **graph, struct convolution_plan *plan,
                            struct error *error);
/* Measures the microseconds of one of `runs` runs, which are captured as a CUDA graph, as training
 * steps are. */
int convolution_plan_time(struct convolution_plan *plan,
                          const struct convolution_operands *operands, cudaStream_t stream,
                          int runs, double *microseconds, struct error *error);
