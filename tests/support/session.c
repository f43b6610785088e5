/* session.c: see session.h. */
#include "tests/support/session.h"

#include "engine/backends/cpu/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int result, const struct error *error)
{
    if (!result)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

void test_session_open(struct test_session *session, const struct graph *graph,
                       const struct test_session_options *options)
{
    struct backend_device_config config = {.threads = options->threads,
                                           .emulate_precision = options->emulate_precision};
    struct memory_request request;
    struct error error = {0};

    memset(session, 0, sizeof(*session));
    session->backend = backend_cpu();
    session->graph = graph;
    expect(session->backend->device_open(&config, &session->device, &error), &error);
    if (options->direct_convolutions)
        expect(session->backend->device_choose_convolutions(session->device,
                                                            options->direct_convolutions, &error),
               &error);
    session->device->tasks = options->tasks;
    session->device->kernels = kernels_available()[options->kernels];
    if (options->tiles != TILES_AS_DEVICE)
        session->device->tiles = options->tiles == TILES_ALWAYS;
    if (options->plain_tiles)
        session->device->amx = false;
    if (options->native_bfloat16)
        session->device->native_types |= 1u << TENSOR_BFLOAT16;
    if (options->image_block)
        session->device->image_block = options->image_block;
    if (options->image_block)
        session->device->image_order = IMAGES_IN_BLOCKS;
    if (options->channels_last)
        session->device->image_order = IMAGES_CHANNELS_LAST;
    expect(
        session->backend->program_prepare(session->device, graph, NULL, &session->program, &error),
        &error);
    session->backend->program_memory(session->program, &request);
    expect(memory_plan_make(&request, 1, 0, &session->plan, &error), &error);
    expect(session->backend->buffer_create(session->device, session->plan.arena_bytes,
                                           &session->buffer, &error),
           &error);
    expect(session->backend->program_bind(session->program, &session->plan.placements[0],
                                          session->buffer, &error),
           &error);
}

void test_session_close(struct test_session *session)
{
    session->backend->program_free(session->program);
    session->backend->buffer_free(session->buffer);
    memory_plan_release(&session->plan);
    session->backend->device_close(session->device);
}

void test_session_initialize(struct test_session *session, uint64_t seed)
{
    const struct graph *graph = session->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        float *values;

        if (!graph_tensor_is_persistent(graph, i))
            continue;
        values = calloc((size_t)graph_shape_elements(&graph->tensors[i].shape), sizeof(float));
        graph_initial_values(graph, i, seed, values);
        test_session_write(session, i, values);
        free(values);
    }
}

void test_session_write(struct test_session *session, int32_t tensor, const void *values)
{
    struct error error = {0};

    expect(session->backend->tensor_write(session->program, tensor, values, &error), &error);
}

void test_session_read(struct test_session *session, int32_t tensor, void *values)
{
    struct error error = {0};

    expect(session->backend->tensor_read(session->program, tensor, values, &error), &error);
}

void test_session_input(struct test_session *session, int32_t tensor, const void *values)
{
    struct error error = {0};

    expect(session->backend->program_set_input(session->program, tensor, values, &error), &error);
}

void test_session_run(struct test_session *session, unsigned phases,
                      const struct step_scalars *scalars)
{
    struct error error = {0};

    expect(session->backend->program_run(session->program, phases, scalars, &error), &error);
}
