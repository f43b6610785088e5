/* session.h: one graph on the CPU backend for the tests of the backend: opened, planned and bound.
 * Every failure ends the test program with its sentence. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"

struct test_session {
    const struct backend *backend;
    struct backend_device *device;
    struct backend_program *program;
    struct backend_buffer *buffer;
    struct memory_plan plan;
    const struct graph *graph;
};

struct test_session_options {
    int threads;     /* at least 1 */
    int tasks;       /* 0: as the backend chooses */
    int kernels;     /* index into kernels_available() */
    int image_block; /* channels of a block of images: 8, 16; 0: as the backend has it */
    /* stores images channels-last instead of in blocks, if `image_block` is not 0 */
    bool channels_last;
    bool emulate_precision; /* every compute type, whatever the processor has */
    bool native_bfloat16;   /* uses oneDNN's bfloat16 even if it is slow */
    enum { TILES_NEVER, TILES_ALWAYS, TILES_AS_DEVICE } tiles; /* images in tiles, in bfloat16 */
    bool plain_tiles;                /* tiles are multiplied without AMX */
    const char *direct_convolutions; /* device_choose_convolutions(); NULL: "" */
};

/* The graph must outlive the session. */
void test_session_open(struct test_session *session, const struct graph *graph,
                       const struct test_session_options *options);
void test_session_close(struct test_session *session);
/* Draws every persistent tensor's first values with `seed`. */
void test_session_initialize(struct test_session *session, uint64_t seed);
void test_session_write(struct test_session *session, int32_t tensor, const void *values);
void test_session_read(struct test_session *session, int32_t tensor, void *values);
void test_session_input(struct test_session *session, int32_t tensor, const void *values);
void test_session_run(struct test_session *session, unsigned phases,
                      const struct step_scalars *scalars);
