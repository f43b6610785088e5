/* optimizer_config.h: what an optimizer is set to, and which parameters have which settings. */
#pragma once

#include "proto/optimizer_kinds.h"

#include <stdbool.h>
#include <stdint.h>

/* The optimizers; semantics are PyTorch's (torch.optim). Each has a descriptor (optimizer.h). */
enum optimizer_kind {
#define KIND(upper, lower, ...) OPTIMIZER_##upper,
    OPTIMIZER_KINDS(KIND)
#undef KIND
};
/* Settings are double, as in PyTorch: 1 - 0.999f differs from 0.001 by a relative error above
 * 1e-5. */
struct optimizer_config {
    enum optimizer_kind kind;
    double momentum;  /* SGD, RMSprop, Muon */
    bool nesterov;    /* SGD, Muon */
    double dampening; /* SGD */
    /* added to the gradient (coupled); AdamW, Lion, Muon and optionally NAdam shrink the weights
     * instead (decoupled) */
    double weight_decay;
    bool decoupled_weight_decay; /* NAdam */
    double beta1, beta2;         /* Adam, AdamW, NAdam, Lion */
    double epsilon;              /* added to the square root; Adadelta: added to its radicand */
    double alpha;                /* RMSprop's smoothing constant, Adadelta's rho */
    double learning_rate_decay;  /* Adagrad */
    double initial_square_sum;   /* Adagrad: torch's initial_accumulator_value */
    double momentum_decay;       /* NAdam */
    int iterations;              /* Muon: iterations of Newton-Schulz */
    bool match_adamw;            /* Muon: steps as large as AdamW's (torch's match_rms_adamw) */
};

/* The kinds of parameters that an optimizer group takes. */
enum parameter_kinds {
    PARAMETERS_ALL,
    PARAMETERS_WEIGHTS, /* those of two or more dimensions: weights of layers, embeddings */
    PARAMETERS_VECTORS, /* the others: biases, scale and shift of normalisations */
    PARAMETERS_HIDDEN   /* weights of linear layers, except the layer that makes the output */
};

/* Parameters that are updated with the same settings. */
struct optimizer_group {
    enum parameter_kinds kinds;
    /* shell patterns for names ("*.bias"); one match is enough. NULL: all names */
    const char *const *patterns;
    int pattern_count;
    double learning_rate_scale; /* multiplies the step's learning rate */
    struct optimizer_config config;
};
