/* convolution_plan.h: computes one convolution, or one of its gradients, by cuDNN's graph API:
 * lists the ways to compute it, makes a plan of one, and runs it.
 *
 * Images are channels-last (NHWC), weights are O,kh,kw,I. Products are summed up in float32,
 * whatever the operands are. Ways whose results may differ from run to run are used only if a
 * problem allows that. */
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

/* Problems are compared by memcmp(): begin with {0}. */
struct convolution_problem {
    enum convolution_pass pass;
    enum tensor_type type;   /* of the operands */
    enum tensor_type result; /* of the result: the operands' type, or float32 */
    bool tf32;               /* float32 operands may be rounded to TF32's 10 bits */
    bool nondeterministic;   /* the result may differ from run to run */
    bool bias;               /* FORWARD: a float32 bias is added */
    bool rectified;          /* FORWARD: reads max(0, x scale + shift), by channel, instead of x */
    bool statistics; /* FORWARD: also computes the sums over each channel of y and of its squares */
    int32_t groups;
    int64_t x[4], weight[4], y[4]; /* [B,C,H,W], [O,C/groups,kh,kw], [B,O,H',W'] */
    int64_t stride[2], padding[2], dilation[2];
};

/* An engine with its settings, with which the same plan can be made again. */
enum { CONVOLUTION_KNOBS_MAX = 32 };
struct convolution_choice {
    int64_t engine;
    bool compiles; /* its code is generated when the plan is made, which takes 0.2 to 1.5 s */
    int32_t knob_count;
    struct {
        int32_t type;
        int64_t value;
    } knobs[CONVOLUTION_KNOBS_MAX];
};

/* An operation graph of cuDNN, from which plans are made. It outlives them. */
struct convolution_graph;
int convolution_graph_make(const struct cudnn *cudnn, const struct convolution_problem *problem,
                           struct convolution_graph **graph, struct error *error);
void convolution_graph_free(struct convolution_graph *graph);

/* Whether cuDNN may crash while it lists ways (cuDNN 9.14 does for some gradients of the data where
 * a stride and its dilation have a common divisor): better compute the problem in another way. */
bool convolution_problem_is_risky(const struct convolution_problem *problem);

/* Fills in at most `most` choices that fulfil the problem's conditions, the most promising ones
 * first; returns how many. */
int convolution_graph_choices(struct convolution_graph *graph, struct convolution_choice *choices,
                              int most);

struct convolution_plan {
    const struct cudnn *cudnn;
    const struct convolution_problem *problem;
    cudnnBackendDescriptor_t plan;
    size_t workspace_bytes;
};
/* -ERROR_UNSUPPORTED: this cuDNN or device cannot do that. Release the plan with
 * convolution_plan_free(). */
int convolution_plan_make(struct convolution_graph *graph, const struct convolution_choice *choice,
                          struct convolution_plan *plan, struct error *error);
void convolution_plan_free(struct convolution_plan *plan);

/* Returns the plan as text, generated code included; the caller frees it. NULL: this cuDNN cannot
 * do that. */
char *convolution_plan_save(const struct convolution_plan *plan, size_t *size);
/* -EINVAL: another cuDNN saved it, or it is for another device. */
int convolution_plan_restore(struct convolution_graph *graph, const char *text, size_t size,
                             struct convolution_plan *plan, struct error *error);

/* The operands by their role in the convolution. Gradients have the roles of x, weight and y. */
struct convolution_operands {
    void *x, *weight, *y;
    void *bias;          /* used with `bias` */
    void *scale, *shift; /* used with `rectified` */
    void *sum, *squares; /* used with `statistics` */
    void *workspace;
};
int convolution_plan_run(struct convolution_plan *plan, const struct convolution_operands *operands,
                         struct error *error);
