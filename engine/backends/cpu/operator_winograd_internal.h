/* operator_winograd_internal.h: shared by the files operator_winograd*.c. */
#pragma once

#include "engine/backends/cpu/program.h"

struct winograd_state {
    struct convolution_tensors tensors;
    /* tensors of images: the one that is transformed first, and the result */
    int32_t source, result;
    int64_t channels, out_channels; /* of source and result */
    struct winograd_shape shape;    /* of source and result */
    int64_t sample_tiles, tiles, chunk;
    bool divided; /* the tiles are divided into program->parts tasks, whatever their sample */
    int tasks;
    bool divides_frequencies;
    int64_t weight_stride; /* floats from one frequency to the next */
    /* floats within the node's workspace, or the thread's scratch */
    int64_t source_offset, result_offset, weight_offset;
    int64_t partial_offset, partial_stride; /* gradients of weights and bias, by task */
};

/* ---- operator_winograd.c --------------------------------------------------------------------- */

/* The address `offset` floats into the step's workspace. */
float *winograd_workspace_at(const struct step *step, int64_t offset);
/* The address of the task's transformed images, which begin at `offset`. */
float *winograd_images_at(const struct backend_program *program, const struct step *step, int task,
                          int64_t offset);
/* The task's samples, if only whole samples are divided; and its tiles. */
struct range winograd_task_samples(const struct backend_program *program,
                                   const struct winograd_state *state, int task);
struct range winograd_task_tiles(const struct backend_program *program,
                                 const struct winograd_state *state, int task);
/* `count` tiles from the first one on, of images that have room for `rows`. */
struct winograd_tiles winograd_tiles_of(const struct backend_program *program, int64_t first,
                                        int64_t count, int64_t rows, int64_t channels);
/* The product of `tiles` tiles, for these frequencies only. */
struct winograd_product winograd_product_of(const struct backend_program *program,
                                            const struct winograd_state *state, int64_t tiles,
                                            struct range frequencies);
extern const struct range winograd_all_frequencies;
/* The task's part of the numbers from 0 to count - 1. */
struct range winograd_share(int64_t count, int task, int tasks);
/* The task's pairs of blocks of input and output channels, for work on the weights. */
struct range winograd_weight_pairs(const struct backend_program *program,
                                   const struct winograd_state *state, int task);

/* Works on the tiles at `row` of transformed images that have room for `rows`. */
typedef void winograd_tiles_function(struct backend_program *program, const struct step *step,
                                     int task, struct range tiles, int64_t rows, int64_t row);

/* Transforms the tiles of `source`. */
void winograd_transform_source(struct backend_program *program, const struct step *step, int task,
                               struct range tiles, int64_t rows, int64_t row);
/* Calls the function for all tiles of the task, at their places among those of the batch. */
void winograd_run_on_batch(struct backend_program *program, const struct step *step, int task,
                           winograd_tiles_function *function);
/* Adds a step with state->tasks tasks. NULL: out of memory. */
struct step *winograd_add_plain_step(struct backend_program *program, int32_t index,
                                     step_function *run);
/* The same, and declares an access to the whole workspace, since tasks have strided parts of it. */
struct step *winograd_add_step(struct backend_program *program, int32_t index, step_function *run,
                               bool writes);

/* ---- operator_winograd_data.c ---------------------------------------------------------------- */

/* Adds the steps of forward or of the gradient by the data. 0 or -ENOMEM. */
int winograd_add_data_steps(struct backend_program *program, int32_t index,
                            const struct winograd_state *state);

/* ---- operator_winograd_weights.c ------------------------------------------------------------- */

/* 0 or -ENOMEM. */
int winograd_add_gradient_steps(struct backend_program *program, int32_t index,
                                const struct winograd_state *state);
