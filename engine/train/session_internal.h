/* session_internal.h: what a session holds. Only the files session*.c include it. */
#pragma once

#include "engine/train/session.h"

enum { PROGRAMS_MAX = 2 * SESSION_TRAINING_MAX };

struct session_program {
    struct graph graph;
    struct backend_program *program;
    bool training;
    int64_t batch, steps; /* steps 0: those of the samples */
};

struct session {
    struct session_config config;
    struct session_program programs[PROGRAMS_MAX];
    int program_count;
    struct session_program *latest_training, *latest_evaluation;
    struct memory_plan plan;
    bool planned;
    struct backend_buffer *buffer;
    struct backend_data *data[SESSION_DATA_MAX];
    size_t data_offset[SESSION_DATA_MAX];
    void *scratch;       /* owned */
    int32_t *whole;      /* owned: lengths of sequences without padding, of the largest batch */
    int32_t *persistent; /* the tensor ids of programs[0], in the order of session_tensor() */
    int persistent_count;
};
