/* convolution_choice.h: by which way a convolution is computed: the fastest of cuDNN's plans
 * (convolution_search.h), of plans for more channels (convolution_padded.h) and of our own kernels
 * (convolution_own.h). What was measured is kept for other processes (choices.h). */
#pragma once

#include "engine/backends/cuda/convolution_own.h"
#include "engine/backends/cuda/convolution_padded.h"

struct convolution {
    struct convolution_graph *graph;
    struct convolution_plan plan;
    struct convolution_padded padded; /* where that is the way */
    enum convolution_way way;
    bool adds_bias; /* a kernel adds it after the plan */
    bool apart;     /* the plan writes to the workspace, and a kernel moves the result from there */
    size_t result_offset; /* in the workspace */
};

/* Chooses the way that was measured to be the fastest, and makes the plan that it needs. `behind`:
 * a pass follows in any case, which can add the bias. Fills in graph, plan, padded, way and
 * adds_bias. */
int convolution_choose_way(struct backend_program *program, const struct graph_node *node,
                           bool behind, struct convolution *convolution, struct error *error);

static inline bool convolution_way_is_padded(int way)
{
    return way >= BY_PADDED && way < BY_PADDED + CONVOLUTION_FILLINGS;
}
