/* operator.h: the descriptor of each operator, which a file of engine/graph/operators/ defines.
 * Passes over a graph, the planning of memory and time, and the backends ask the descriptor. So a
 * new operator is a new file and a line of GRAPH_OPERATORS (operator_list.h). Each backend has a
 * table from operators to its kernels. */
#pragma once

#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* The class of an operator's work, by which times are measured, reported and predicted. */
enum cost_class {
    COST_LINEAR,
    COST_CONVOLUTION,
    COST_POOLING,
    COST_NORMALISATION,
    COST_ELEMENTWISE, /* activations, dropout, add, casts */
    COST_EMBEDDING,
    COST_ATTENTION,
    COST_LOSS,
    COST_OPTIMIZER,
    COST_CLASS_COUNT
};

/* Which of the three products of a layer with weights an operator computes. */
enum product_pass {
    PRODUCT_NONE,
    PRODUCT_FORWARD,         /* x weight -> y */
    PRODUCT_BACKWARD_DATA,   /* dy weight -> dx */
    PRODUCT_BACKWARD_WEIGHTS /* x dy -> dweight */
};

/* The input whose storage the first output may take over. Element i of the output then depends only
 * on element i of that input, and on no element of another input behind it. */
enum storage_reuse { REUSE_NONE, REUSE_FIRST_INPUT, REUSE_ANY_INPUT };

/* The node that graph_recompute() appends to repeat a forward node. */
struct operator_repetition {
    enum graph_op op;
    int inputs; /* it reads the first `inputs` inputs of the forward node */
    /* then `outputs` of its outputs, from the second on; the result is the first output */
    int outputs;
};

struct differentiation;

struct graph_operator {
    enum cost_class cost_class;
    /* Other than PRODUCT_NONE: the operator multiplies its first two inputs, which
     * graph_lower_precision() rounds. */
    enum product_pass product;
    enum storage_reuse reuse;
    bool is_loss;         /* it ends the forward part, and differentiation begins with it */
    bool predicts_values; /* a loss whose targets are values; false: classes */
    bool is_view; /* the result has the operand's elements, and shares its storage where possible */
    bool is_free; /* it takes no time on most devices */
    bool is_cheap; /* it costs little more than reading its input, so recomputing it pays off */
    /* in training, the result of a sample depends on the other samples of the batch, or on those of
     * the batch before */
    bool joins_samples;
    const struct operator_repetition *repetition; /* NULL: the operator itself repeats */
    /* Floating-point operations of a node (cost.h); NULL: none. */
    double (*flops)(const struct graph *graph, const struct graph_node *node);
    /* Bytes moved; NULL: every operand read once, every result written once. */
    double (*bytes)(const struct graph *graph, const struct graph_node *node);
    /* A word that tells apart nodes of different speed; NULL or "": no word. */
    const char *(*variant)(const struct graph *graph, const struct graph_node *node);
    /* Appends the nodes that compute the gradients by the inputs (operators/operators.h) from `dy`,
     * the gradient by the first output (-1 for a loss). NULL: the operator has no gradient. */
    void (*differentiate)(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy);
};

/* The operator's descriptor. */
const struct graph_operator *graph_operator(enum graph_op op);

static inline const struct graph_operator *graph_node_operator(const struct graph_node *node)
{
    return graph_operator(node->op);
}

DECLARE_STRING_TABLE(cost_class, enum cost_class);
