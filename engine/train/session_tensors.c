/* session_tensors.c: the tensors of a session that last from step to step: names, sizes, reading
 * and writing. See session.h. */
#include "engine/train/initial_values.h"
#include "engine/train/session_internal.h"

#include <errno.h>
#include <string.h>

/* The tensor whose numbers it has: of an average those of which it is one. */
static int32_t numbers_of(const struct session *session, int index)
{
    int32_t tensor = session->persistent[index];
    const struct graph_tensor *found = &session_graph(session)->tensors[tensor];

    return found->role == TENSOR_AVERAGE ? found->parameter : tensor;
}

int session_tensor(const struct session *session, int index, struct session_tensor *tensor)
{
    const struct graph *graph = session_graph(session);
    const struct graph_tensor *found, *numbers;

    if (index < 0 || index >= session->persistent_count)
        return -ENOENT;
    found = &graph->tensors[session->persistent[index]];
    numbers = &graph->tensors[numbers_of(session, index)];
    *tensor = (struct session_tensor){
        .name = found->role == TENSOR_GRADIENT || found->role == TENSOR_AVERAGE
                    ? graph->tensors[found->parameter].name
                    : found->name,
        .role = found->role,
        .type = found->type,
        .shape = graph_shape_in_files(found->role == TENSOR_AVERAGE ? numbers : found),
        .bytes = (size_t)graph_shape_elements(&found->shape) * tensor_type_bytes(found->type),
        .evaluated = session->config.average
                         ? found->role == TENSOR_AVERAGE
                         : found->role == TENSOR_PARAMETER || found->role == TENSOR_STATISTIC,
        .constant = graph_tensor_is_constant(numbers)};
    return 0;
}

void session_draw_constant(const struct session *session, int index, void *values)
{
    initial_values_draw(session_graph(session), numbers_of(session, index), session->config.seed,
                        values);
}

void *session_scratch(struct session *session)
{
    return session->scratch;
}

/* The first program of the kind, which has all of its state; NULL: there is none. */
static const struct session_program *first_program(const struct session *session, bool training)
{
    for (int i = 0; i < session->program_count; i++)
        if (session->programs[i].training == training)
            return &session->programs[i];
    return NULL;
}

static size_t state_bytes(const struct graph *graph, int32_t tensor)
{
    const struct graph_tensor *t = &graph->tensors[tensor];

    return t->role == TENSOR_STATE
               ? (size_t)graph_shape_elements(&t->shape) * tensor_type_bytes(t->type)
               : 0;
}

size_t session_scratch_bytes(const struct session *session)
{
    const struct session_program *evaluation = first_program(session, false);
    struct session_tensor tensor;
    size_t most = 0;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
        most = tensor.bytes > most ? tensor.bytes : most;
    for (int32_t t = 0; evaluation && t < evaluation->graph.tensor_count; t++)
        most =
            state_bytes(&evaluation->graph, t) > most ? state_bytes(&evaluation->graph, t) : most;
    return most;
}

int session_clear_states(struct session *session, bool training, struct error *error)
{
    const struct session_program *program = first_program(session, training);
    int r = 0;

    for (int32_t t = 0; program && r == 0 && t < program->graph.tensor_count; t++) {
        size_t bytes = state_bytes(&program->graph, t);

        if (!bytes)
            continue;
        memset(session->scratch, 0, bytes);
        r = session->config.backend->tensor_write(program->program, t, session->scratch, error);
    }
    return r;
}

int session_read(struct session *session, int index, void *canonical, struct error *error)
{
    return session->config.backend->tensor_read(session->programs[0].program,
                                                session->persistent[index], canonical, error);
}

int session_write(struct session *session, int index, const void *canonical, struct error *error)
{
    return session->config.backend->tensor_write(session->programs[0].program,
                                                 session->persistent[index], canonical, error);
}
