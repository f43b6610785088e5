/* convolution_plan.h: one convolution, or one of its gradients, by cuDNN's graph API: which ways
 * there are to calculate it, which one is taken, and running it.
 *
 * Images lie channels-last (NHWC), weights O,kh,kw,I. Products are added up in float32 whatever the
 * operands; ways whose result may differ from run to run are taken where a problem allows them. */
#pragma once

#include "base/error.h"
#include "engine/backends/cuda/cudnn.h"
#include "engine/graph/graph.h"

enum convolution_pass {
    CONVOLUTION_FORWARD, /* x weight bias? -> y */
    CONVOLUTION_DATA,    /* dy weight -> dx */
    CONVOLUTION_WEIGHTS, /* x dy -> dweight */
    CONVOLUTION_PASSES
};

/* Compared by memcmp(): begin with {0}. */
struct convolution_problem {
    enum convolution_pass pass;
    enum tensor_type type;   /* of both operands */
    enum tensor_type result; /* of what is written: that type, or float32 */
    bool tf32;               /* float32 operands may be rounded to TF32's 10 bits */
    bool nondeterministic;   /* the result may differ from run to run */
    bool bias;               /* FORWARD: is added, float32 */
    bool rectified;          /* FORWARD: of max(0, x scale + shift) for x, by channel */
    bool statistics;         /* FORWARD: sums over each channel of y and of its squares, too */
    int32_t groups;
    int64_t x[4], weight[4], y[4]; /* [B,C,H,W], [O,C/groups,kh,kw], [B,O,H',W'] */
    int64_t stride[2], padding[2], dilation[2];
};

/* How the engine of a plan is asked for again. */
enum { CONVOLUTION_KNOBS_MAX = 32 };
struct convolution_choice {
    int64_t engine;
    bool compiles; /* its code is generated when the plan is made: 0.2 to 1.5 s each */
    int32_t knob_count;
    struct {
        int32_t type;
        int64_t value;
    } knobs[CONVOLUTION_KNOBS_MAX];
};

/* An operation graph of cuDNN, of which plans are made; it outlives them. */
struct convolution_graph;
int convolution_graph_make(const struct cudnn *cudnn, const struct convolution_problem *problem,
                           struct convolution_graph **graph, struct error *error);
void convolution_graph_free(struct convolution_graph *graph);

/* Fills in at most `most` choices that fulfil the problem's terms, the most promising ones first;
 * returns how many. */
int convolution_graph_choices(struct convolution_graph *graph, struct convolution_choice *choices,
                              int most);

struct convolution_plan {
    const struct cudnn *cudnn;
    const struct convolution_problem *problem;
    cudnnBackendDescriptor_t plan;
    size_t workspace_bytes;
};
/* -ERROR_UNSUPPORTED: this cuDNN or device cannot do it so. The plan is released by
 * convolution_plan_free(). */
int convolution_plan_make(struct convolution_graph *graph, const struct convolution_choice *choice,
                          struct convolution_plan *plan, struct error *error);
void convolution_plan_free(struct convolution_plan *plan);

/* The plan as text, generated code included; the caller frees it. NULL: this cuDNN cannot. */
char *convolution_plan_save(const struct convolution_plan *plan, size_t *size);
/* -EINVAL: it was saved by another cuDNN or for another device. */
int convolution_plan_restore(struct convolution_graph *graph, const char *text, size_t size,
                             struct convolution_plan *plan, struct error *error);

/* The operands by their place in the convolution; the gradients take the places of x, weight, y. */
struct convolution_operands {
    void *x, *weight, *y;
    void *bias;          /* with `bias` */
    void *scale, *shift; /* with `rectified` */
    void *sum, *squares; /* with `statistics` */
    void *workspace;
};
int convolution_plan_run(struct convolution_plan *plan, const struct convolution_operands *operands,
                         struct error *error);
