/* shared.h: what host and shaders agree on. C and GLSL: only macros and comments. Structs stand
 * twice, here for C and in common.glsl for GLSL; sizes are asserted. */
#ifndef VULKAN_SHADERS_SHARED_H
#define VULKAN_SHADERS_SHARED_H

/* numbers.glsl: the specialization constant that says which operands have 16 bits, and its bit for
 * bfloat16, else float16 */
#define CONSTANT_TYPES 8
#define TYPES_BFLOAT16 0x80000000u

/* matrix_tiles.glsl: the extents of a cooperative matrix, and how many waves a tile has */
#define CONSTANT_MATRIX_M 9
#define CONSTANT_MATRIX_N 10
#define CONSTANT_MATRIX_K 11
#define CONSTANT_WAVES_M 12
#define CONSTANT_WAVES_N 13
#define CONSTANT_COUNT 14

/* recurrent.glsl: FLAGS */
#define RECURRENT_REVERSE 1
#define RECURRENT_ALIGNED 2 /* lines of units are whole fours */

/* optimizer.comp, lamb.comp, muon.comp: what parameters are rounded to */
#define ROUNDING_NONE 0
#define ROUNDING_BFLOAT16 1
#define ROUNDING_FLOAT16 2

/* pointwise.comp: the operation */
#define POINTWISE_ACTIVATION 0
#define POINTWISE_ACTIVATION_BACKWARD 1
#define POINTWISE_ADD 2
#define POINTWISE_AFFINE 3
#define POINTWISE_LEAKY_RELU 4
#define POINTWISE_LEAKY_RELU_BACKWARD 5
#define POINTWISE_ELU 6
#define POINTWISE_ELU_BACKWARD 7
#define POINTWISE_FUNCTION 8
#define POINTWISE_FUNCTION_BACKWARD 9
#define POINTWISE_COPY 10

/* cross_entropy.comp: what the target is */
#define TARGET_LABELS 0
#define TARGET_TOKENS 1 /* labels, of which some do not count */
#define TARGET_PROBABILITIES 2
#define TARGET_COUNTS 3 /* loss_sum.comp: a row has as many labels as the loss has counted */

/* sums.comp, broadcast.comp: how two numbers are combined. Those of enum broadcast_kind, which
 * general.c asserts, and a number as it is. */
#define TERM_ADD 0
#define TERM_SUBTRACT 1
#define TERM_SUBTRACT_REVERSE 2
#define TERM_MULTIPLY 3
#define TERM_DIVIDE 4
#define TERM_DIVIDE_REVERSE 5
#define TERM_SAME 6

/* muon.comp: which part of the update */
#define MUON_DIRECTION 0
#define MUON_NORMALISE 1
#define MUON_STEP 2

/* batch_norm.comp: where the moments are from */
#define BATCH_NORM_JOINED 0  /* joined from those of parts */
#define BATCH_NORM_KNOWN 1   /* the mean and the inverse of the standard deviation are given */
#define BATCH_NORM_RUNNING 2 /* the running ones */
#define BATCH_NORM_FROZEN 3  /* the running ones, of the gradient */

/* behind.glsl: what a batch norm's gradient lies behind */
#define BEHIND_SECOND 1  /* the sum of two gradients */
#define BEHIND_OPERAND 2 /* an activation whose operand is computed from x */
#define BEHIND_RESULT 4  /* a ReLU whose result is known; the gradient is stored */

/* time_pool.comp: what is made of the steps */
#define TIME_POOL_MEAN 0
#define TIME_POOL_LAST 1
#define TIME_POOL_FIRST 2
#define TIME_POOL_MAXIMUM 3

/* scan.comp: what a chunk makes of zero; results; what it makes of a gradient of zero */
#define SCAN_STATES 0
#define SCAN_RESULTS 1
#define SCAN_GRADIENTS 2

/* batch.comp: how raw elements are stored (enum backend_element), what is done with them, and
 * base/philox.h's stream of the draws */
#define BATCH_UINT8 0
#define BATCH_FLOAT32 1
#define BATCH_INT32 2
#define BATCH_SYMBOLS 1 /* as they are */
#define BATCH_MOVES 2   /* crops, flips or holes */
#define BATCH_FLIPS 4   /* flips among them */
#define BATCH_MIXES 8   /* MixUp */
#define BATCH_SOFT 16   /* targets are probabilities */
#define BATCH_HAS_TARGET 32
#define BATCH_BY_CHANNEL 64 /* means and factors by channel, or by place in the sample */
#define BATCH_BY_PIXEL 128
#define BATCH_STREAM 5

/* product.comp: how the operands lie, and what the result has beside the product */
#define PRODUCT_A_ALONG_K 1 /* neighbours of a row of a lie side by side */
#define PRODUCT_B_ALONG_K 2 /* neighbours of a column of b do */
#define PRODUCT_BIAS 4      /* one number for each column of c */
#define PRODUCT_ADDEND 8    /* d, which may be c itself */
#define PRODUCT_FOLDS 16    /* K is longer than PRODUCT_FOLD */
#define PRODUCT_A_EIGHTS 32 /* a is read by eight neighbours at once; so is b */
#define PRODUCT_B_EIGHTS 64
#define PRODUCT_FOLD 512

/* gradient_norm.comp: the most workgroups for one parameter */
#define SQUARES_GROUPS_MAX 64

#ifndef GL_core_profile
#include "engine/backends/update_rule.h"

#include <stdint.h>

/* What changes from step to step. */
struct shader_scalars {
    uint32_t seed[2], batch[2];
    float loss_factor;    /* the factor of the gradient of the mean loss */
    float unscale;        /* the factor by which gradients are multiplied first */
    float clip_norm;      /* 0: none */
    float clip_value;     /* INFINITY: none */
    float average_share;  /* of a moving average: 1 - decay */
    int32_t finite_alone; /* an update with a gradient that is not finite changes nothing */
    /* of a batch that the device makes: struct backend_batch, and the probabilities of a class, and
     * what the own one has beside that, and the other one (MixUp) */
    uint32_t first, epoch;
    float share, soft_low, soft_own, soft_other;
    float group[][UPDATE_COEFFICIENTS]; /* as many as the graph has groups */
};

/* What a run leaves for the host. */
struct shader_results {
    float loss; /* the sum over the labels that count */
    int32_t labels, correct;
    int32_t skipped; /* the update changed nothing */
};

/* What a program keeps on the device during a run. */
struct shader_control {
    int32_t labels;        /* of the step's loss: those that count */
    float gradient_factor; /* of the update */
    int32_t skipped;
    int32_t unused;
    /* of the gradients' norm: partial sums of gradient_norm.comp */
    float squares[][2];
};
_Static_assert(sizeof(struct shader_scalars) == 64, "as in common.glsl");
_Static_assert(sizeof(struct shader_results) == 16, "as in common.glsl");
_Static_assert(sizeof(struct shader_control) == 16, "as in common.glsl");
#endif
#endif
