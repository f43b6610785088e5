/* operator.h: what the engine knows of each operator: one descriptor in a file of
 * engine/graph/operators/ each. The passes over a graph, the plans of memory and time, and the
 * backends ask the descriptor, so that a new operator is a new file and a line of GRAPH_OPERATORS
 * (graph.h). How a device computes it stands in that backend's table of kernels. */
#pragma once

#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* What an operator's work is like: times are measured, reported and predicted by it. */
enum cost_class {
    COST_LINEAR,
    COST_CONVOLUTION,
    COST_POOLING,
    COST_NORMALISATION,
    COST_ELEMENTWISE, /* activations, dropout, add, casts */
    COST_EMBEDDING,
    COST_LOSS,
    COST_OPTIMIZER,
    COST_CLASS_COUNT
};

/* The three products of a layer with weights. */
enum product_pass {
    PRODUCT_NONE,
    PRODUCT_FORWARD,         /* x weight -> y */
    PRODUCT_BACKWARD_DATA,   /* dy weight -> dx */
    PRODUCT_BACKWARD_WEIGHTS /* x dy -> dweight */
};

/* Whose storage the first output may take over. Element i of it then depends on element i of that
 * input alone, and no other input is read behind it. */
enum storage_reuse { REUSE_NONE, REUSE_FIRST_INPUT, REUSE_ANY_INPUT };

/* The node that graph_recompute() appends to do a forward node again. */
struct operator_repetition {
    enum graph_op op;
    int inputs;  /* it reads the first `inputs` inputs of the forward node */
    int outputs; /* and behind them so many outputs, from the second one on; gives the first one */
};

struct differentiation;

struct graph_operator {
    enum cost_class cost_class;
    /* Not PRODUCT_NONE: the first two inputs are multiplied, and graph_lower_precision() rounds
     * them before. */
    enum product_pass product;
    enum storage_reuse reuse;
    bool is_loss;       /* ends the forward part: differentiation begins with it */
    bool is_view;       /* the result has the operand's elements, in its storage where it can */
    bool is_free;       /* costs nothing on most devices */
    bool is_cheap;      /* costs little more than reading its input: worth doing again */
    bool joins_samples; /* when training, the result of a sample depends on the others */
    const struct operator_repetition *repetition; /* NULL: the same operator once more */
    /* Floating-point operations of a node (cost.h); NULL: none. */
    double (*flops)(const struct graph *graph, const struct graph_node *node);
    /* Bytes moved; NULL: every operand read once, every result written once. */
    double (*bytes)(const struct graph *graph, const struct graph_node *node);
    /* The word that tells nodes of different speed apart; NULL, or "": there is none. */
    const char *(*variant)(const struct graph *graph, const struct graph_node *node);
    /* Appends the nodes that make the gradients by the inputs (operators/operators.h) from `dy`,
     * that by the first output (-1 for a loss). NULL: it has no gradient. */
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
