/* recurrent.h: the kernels of recurrent layers (engine/graph/operators/recurrent.c): one time step
 * for some samples ("rows") and some of the H units, forward or backward. The product of the state
 * and the weights stays in registers until the gates are calculated from it.
 *
 * A task walks over the time steps. The states lie side by side in memory of their own, because
 * the rows of a batch [B,T,...] at one time step are T rows apart, often a power of two. The order
 * of a sum depends neither on the rows nor on the units of a call, so they may be divided among
 * threads in any way. */
#pragma once

#include "engine/backends/cpu/kernels/amx_tiles.h"
#include "engine/backends/cpu/kernels/int8.h"
#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* Vectors of units that the backward kernel works on together. */
enum { RECURRENT_BACKWARD_VECTORS = 4 };

/* The rows' lengths, and which step of them it is. */
struct recurrent_time {
    int64_t step, steps;    /* of `steps`, counted from the beginning of the sequence */
    bool reverse;           /* the layer reads from the last step to the first */
    const int32_t *lengths; /* of all rows; NULL: all have `steps` */
};

/* Where an array of the batch is at this time step: of row r at start + r * row. */
struct recurrent_array {
    float *start; /* NULL: absent */
    int64_t row;
};

/* The product of the input at this time step: of gate g, row r and unit u of panel p, at
 * start + p * panel + r * row + g * gate + u. */
struct recurrent_product {
    float *start;
    int64_t panel, row, gate;
};

/* The state's product in bfloat16, by AMX, in place of `weights`. A step rounds what the next one
 * multiplies. */
struct recurrent_bfloat16 {
    const uint16_t *weights; /* from recurrent_pack_bfloat16 */
    /* [B][row]: what is multiplied, NULL if it is 0; and what this step gives the next. An odd
     * depth is filled up with a 0 */
    const uint16_t *before;
    uint16_t *after;
    int64_t row; /* numbers from one row to the next, even */
};

struct recurrent_forward {
    enum recurrent_cell cell;
    int64_t hidden;
    struct recurrent_time time;
    const float *weights; /* from recurrent_pack */
    const float *bias;    /* of the state's product */
    /* [B][H]: the state before, NULL if it is 0 for all rows; behind the step; of LSTM the cell's
     * content, which changes in place */
    const float *before;
    float *after, *content;
    struct recurrent_product input; /* W x + bias */
    struct recurrent_array gates;   /* kept for the gradient: absent in evaluation */
    struct recurrent_array cells;   /* LSTM, the same */
    struct recurrent_array output;
    const struct int8_state *int8; /* recurrent_forward_int8: in place of `weights`; else NULL */
    const struct recurrent_bfloat16 *bfloat16; /* NULL: the product is one of float32 */
};

struct recurrent_backward {
    enum recurrent_cell cell;
    int64_t hidden;
    struct recurrent_time time;
    const float *weights; /* from recurrent_pack */
    /* [B][gates H]: gradients by what the state's product gives, of the step that the layer reads
     * next (NULL: none), and of this one */
    const float *behind;
    float *here;
    /* [B][H]: gradient by the cell's content (LSTM) or by the part of the state that is kept (GRU),
     * from the next step; becomes that for the step before */
    float *carried;
    struct recurrent_array dy, gates;
    /* LSTM: the cells, GRU: the output; at this step, and at the step that the layer read before,
     * which is not read at a row's first one */
    struct recurrent_array memory, memory_before;
    struct recurrent_array memory_first; /* what stands for memory_before at a row's first step;
                                            absent: 0 */
    struct recurrent_array dinput;       /* may be `gates` of an LSTM */
    const struct recurrent_bfloat16 *bfloat16; /* of `behind` and `here`; NULL: as above */
};

/* The product of the layer's input and its weights: y = W x + bias. */
struct recurrent_input {
    int64_t gates, hidden, depth; /* depth: features of x, in bfloat16 even */
    const float *weights;         /* from recurrent_pack_input */
    const float *bias;            /* [gates H]; NULL: none */
    struct recurrent_array x;     /* [depth] */
    /* in place of `weights` and x.start, by AMX; from recurrent_pack_input_bfloat16. NULL: none */
    const uint16_t *bfloat16_weights, *bfloat16_x;
    struct recurrent_product y;
};

/* clang-format off */
#define RECURRENT_KERNEL_LIST(KERNEL)                                                              \
    /* Copies the weights [gates H, H] in the order in which recurrent_forward reads them, for     \
     * panels `first` to `end` of `vector` units (the last one is filled up with 0), or in that of \
     * recurrent_backward, for panels of RECURRENT_BACKWARD_VECTORS times as many units. */        \
    KERNEL(void, recurrent_pack,                                                                   \
           (const float *weights, int64_t gates, int64_t hidden, bool backward, int64_t first,     \
            int64_t end, float *packed))                                                           \
    /* The same for AMX, rounded: [panel][two of the depth][vector of units][unit][2]. A vector has\
     * AMX_LANES units. Forward a panel has one vector for each gate. Backward it has              \
     * RECURRENT_BACKWARD_VECTORS vectors. */                                                      \
    KERNEL(void, recurrent_pack_bfloat16,                                                          \
           (const float *weights, int64_t gates, int64_t hidden, bool backward, int64_t first,     \
            int64_t end, uint16_t *packed))                                                        \
    /* Rounds rows of the state that is carried, `depth` of them */                                \
    KERNEL(void, recurrent_round,                                                                  \
           (const float *x, int64_t rows, int64_t depth, uint16_t *rounded, int64_t row))          \
    /* The same of the weights [gates H, depth] of the input, for recurrent_input. */               \
    KERNEL(void, recurrent_pack_input,                                                             \
           (const float *weights, int64_t gates, int64_t hidden, int64_t depth, int64_t first,     \
            int64_t end, float *packed))                                                           \
    /* The same in the order of recurrent_pack_bfloat16; `depth` is even */                         \
    KERNEL(void, recurrent_pack_input_bfloat16,                                                    \
           (const uint16_t *weights, int64_t gates, int64_t hidden, int64_t depth, int64_t first,  \
            int64_t end, uint16_t *packed))                                                        \
    KERNEL(void, recurrent_input, (const struct recurrent_input *product, int64_t rows))           \
    /* rows and panels `first` to `end` */                                                         \
    KERNEL(void, recurrent_forward,                                                                \
           (const struct recurrent_forward *step, int64_t first_row, int64_t end_row,              \
            int64_t first_panel, int64_t end_panel))                                               \
    /* The same, where the state's product is one of integers, for groups of INT8_LANES units */    \
    KERNEL(void, recurrent_forward_int8,                                                           \
           (const struct recurrent_forward *step, int64_t first_row, int64_t end_row,              \
            int64_t first_group, int64_t end_group))                                               \
    KERNEL(void, recurrent_backward,                                                               \
           (const struct recurrent_backward *step, int64_t first_row, int64_t end_row,             \
            int64_t first_panel, int64_t end_panel))                                               \
    /* to[r * columns + c] = a[r * a_row + c] b[r * b_row + c] */                                  \
    KERNEL(void, rows_multiply,                                                                    \
           (const float *a, int64_t a_row, const float *b, int64_t b_row, int64_t rows,            \
            int64_t columns, float *to, int64_t to_row))
/* clang-format on */
