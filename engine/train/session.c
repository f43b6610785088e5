/* session.c: see session.h. */
#include "engine/train/session.h"

#include "base/alignment.h"
#include "base/clock.h"
#include "engine/graph/forward.h"
#include "engine/train/initial_values.h"
#include "engine/train/session_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static struct session_program *session_program_for(struct session *session, bool training,
                                                   int64_t batch, int64_t steps)
{
    for (int i = 0; i < session->program_count; i++) {
        struct session_program *program = &session->programs[i];

        if (program->training == training && program->batch == batch && program->steps == steps)
            return program;
    }
    return NULL;
}

static int64_t largest(const int64_t batches[SESSION_BATCH_SIZES_MAX])
{
    int64_t found = 0;

    for (int i = 0; i < SESSION_BATCH_SIZES_MAX; i++)
        found = batches[i] > found ? batches[i] : found;
    return found;
}

static void read_bytes(const struct session_config *config, struct graph *graph)
{
    int32_t layer = config->bytes && !config->quantization && config->backend->multiplies_bytes
                        ? graph_find_bytes_layer(graph, config->bytes)
                        : -1;

    if (layer >= 0 &&
        config->backend->multiplies_bytes(
            config->device, graph->tensors[graph->nodes[layer].input[0]].shape.extent[1]))
        graph_read_bytes(graph, layer, config->bytes);
}

/* Builds the model's graph and passes it through all that the session's configuration asks for. */
static int build_graph(const struct session_config *config, struct graph *graph, bool training,
                       struct error *error)
{
    int r;

    graph->accumulate = training && config->accumulate;
    graph->nondeterministic = training && config->nondeterministic;
    graph->rounds_parameters = training && config->rounds_parameters;
    graph->constant_weights =
        !training && config->constant_weights_from && graph->batch >= config->constant_weights_from;
    r = config->build(config->build_context, graph, error);
    if (r == 0 && !training)
        read_bytes(config, graph);
    if (r == 0 && training)
        r = graph_differentiate(graph, error);
    if (r == 0 && training)
        r = graph_recompute(graph, &config->recompute, error);
    if (r == 0)
        r = graph_round_weights(graph, error);
    if (r == 0)
        r = graph_carry_states(graph, error);
    if (r == 0)
        r = graph_lower_precision(
            graph, !training && config->quantization ? TENSOR_FLOAT32 : config->compute_type,
            error);
    if (r == 0 && !training && config->quantization)
        r = graph_quantize(graph, config->quantization, error);
    if (r == 0 && !training && config->observes)
        r = graph_observe(graph, error);
    if (r == 0 && training && config->groups)
        r = graph_add_optimizer_groups(graph, config->groups, config->group_count, error);
    else if (r == 0 && training)
        r = graph_add_optimizer(graph, &config->optimizer, error);
    if (r == 0 && training && config->layer_decay > 0)
        r = graph_decay_layers(graph, config->layer_decay, error);
    if (r == 0 && config->average)
        r = training ? graph_add_averages(graph, error) : graph_read_averages(graph, error);
    return r == 0 ? graph_finish(graph, error) : r;
}

static int check_supported(const struct session_config *config, const struct graph *graph,
                           struct error *error)
{
    const struct backend *backend = config->backend;

    for (int32_t i = 0; backend->supports && i < graph->node_count; i++) {
        char reason[256] = "";
        const struct graph_node *node = &graph->nodes[i];

        if (!backend->supports(config->device, graph, node, reason))
            return error_set(error, -ERROR_UNSUPPORTED, "%s does not run %s: %s", backend->name,
                             graph_op_to_string(node->op), reason);
    }
    return 0;
}

/* Builds the graph and the program of one batch size and length, unless they exist. */
static int session_add_program(struct session *session, bool training, int64_t batch, int64_t steps,
                               struct error *error)
{
    const struct session_config *config = &session->config;
    struct session_program *added;
    int r;

    if (batch <= 0 || session_program_for(session, training, batch, steps))
        return 0;
    added = &session->programs[session->program_count];
    *added = (struct session_program){.training = training, .batch = batch, .steps = steps};
    graph_init(&added->graph, batch, training);
    added->graph.steps = steps;
    added->graph.streams =
        largest(training ? config->training_batches : config->evaluation_batches);
    session->program_count++;
    r = build_graph(config, &added->graph, training, error);
    if (r < 0 && steps)
        return error_prefix(error, "batches of %lld steps", (long long)steps);
    if (r < 0 && training && added != session->programs)
        return error_prefix(error, "the last batch of an epoch, of size %lld", (long long)batch);
    if (r == 0)
        r = check_supported(config, &added->graph, error);
    if (r < 0)
        return r;
    return config->backend->program_prepare(
        config->device, &added->graph,
        added == session->programs ? NULL : session->programs[0].program, &added->program, error);
}

static int session_add_programs(struct session *session, bool training, struct error *error)
{
    const struct session_config *config = &session->config;
    const int64_t *batches = training ? config->training_batches : config->evaluation_batches;
    int r = 0;

    for (int i = 0; r == 0 && i < SESSION_BATCH_SIZES_MAX; i++)
        r = session_add_program(session, training, batches[i], 0, error);
    for (int i = 0; r == 0 && i < config->length_count; i++)
        r = session_add_program(session, training, batches[0], config->lengths[i], error);
    return r;
}

static int session_list_tensors(struct session *session, struct error *error)
{
    static const enum tensor_role order[] = {TENSOR_PARAMETER, TENSOR_STATISTIC, TENSOR_AVERAGE,
                                             TENSOR_STATE,     TENSOR_OPTIMIZER, TENSOR_GRADIENT};
    const struct graph *graph = &session->programs[0].graph;

    session->persistent = calloc((size_t)graph->tensor_count + 1, sizeof *session->persistent);
    if (!session->persistent)
        return error_set_errno(error, -ENOMEM, "cannot list the tensors of the model");
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        for (int32_t t = 0; t < graph->tensor_count; t++) {
            if (graph->tensors[t].role == order[i] && graph_tensor_is_persistent(graph, t))
                session->persistent[session->persistent_count++] = t;
        }
    }
    return 0;
}

static int session_plan(struct session *session, struct error *error)
{
    struct memory_request requests[PROGRAMS_MAX];
    int r;

    for (int i = 0; i < session->program_count; i++)
        session->config.backend->program_memory(session->programs[i].program, &requests[i]);
    r = memory_plan_make(requests, session->program_count, session->config.staging_bytes,
                         &session->plan, error);
    session->planned = r == 0;
    for (int i = 0; r == 0 && i < session->config.data_count; i++)
        session->data_offset[i] = memory_plan_append(
            &session->plan, MEMORY_DATA,
            session->config.backend->data_bytes(session->config.device, &session->config.data[i]));
    return r;
}

int session_prepare(const struct session_config *config, struct session **session,
                    struct error *error)
{
    struct session *made = calloc(1, sizeof *made);
    int r = 0;

    if (!made)
        return error_set_errno(error, -ENOMEM, "cannot make a session");
    made->config = *config;
    if (config->backend->device_choose_convolutions)
        r = config->backend->device_choose_convolutions(
            config->device, config->direct_convolutions ? config->direct_convolutions : "", error);
    r = r == 0 ? session_add_programs(made, true, error) : r;
    r = r == 0 ? session_add_programs(made, false, error) : r;
    if (r == 0 && made->program_count == 0)
        r = error_set(error, -EINVAL, "a session needs at least one batch size");
    if (r == 0)
        r = session_list_tensors(made, error);
    if (r == 0)
        r = session_plan(made, error);
    if (r < 0) {
        session_free(made);
        return r;
    }
    *session = made;
    return 0;
}

static int session_draw_weights(struct session *session, struct error *error)
{
    const struct graph *graph = &session->programs[0].graph;
    struct session_tensor tensor;

    session->scratch = malloc(session_scratch_bytes(session) + 1);
    if (!session->scratch)
        return error_set_errno(error, -ENOMEM, "cannot draw the initial weights");
    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        int r;

        if (tensor.role == TENSOR_GRADIENT)
            break;
        if (tensor.type == TENSOR_INT8)
            continue; /* the caller writes it, with its scale */
        if ((tensor.role == TENSOR_OPTIMIZER || tensor.role == TENSOR_STATE) &&
            graph->tensors[session->persistent[i]].initializer.kind == INITIALIZER_ZEROS)
            continue; /* the buffer is zero already */
        initial_values_draw(graph, session->persistent[i], session->config.seed, session->scratch);
        if (session->config.rounds_parameters && tensor.role == TENSOR_PARAMETER)
            tensor_type_round(session->config.compute_type, session->scratch,
                              graph_shape_elements(&tensor.shape));
        r = session_write(session, i, session->scratch, error);
        if (r < 0)
            return r;
    }
    return 0;
}

static int session_bind(struct session *session, struct error *error)
{
    int r = 0;

    for (int i = 0; r == 0 && i < session->program_count; i++)
        r = session->config.backend->program_bind(
            session->programs[i].program, &session->plan.placements[i], session->buffer, error);
    return r;
}

/* Lengths for batches of whole sequences. */
static int session_fill_lengths(struct session *session, struct error *error)
{
    const struct session_config *config = &session->config;
    const struct graph *graph = session_graph(session);
    int64_t training = largest(config->training_batches);
    int64_t evaluation = largest(config->evaluation_batches);
    int64_t most = training > evaluation ? training : evaluation;

    if (graph->lengths < 0)
        return 0;
    session->whole = aligned_alloc(
        MEMORY_ALIGNMENT, align_up((size_t)most * sizeof *session->whole, MEMORY_ALIGNMENT));
    if (!session->whole)
        return error_set_errno(error, -ENOMEM, "cannot hold the lengths of sequences");
    for (int64_t i = 0; i < most; i++)
        session->whole[i] = (int32_t)graph->tensors[graph->input].shape.extent[1];
    return 0;
}

int session_allocate(struct session *session, struct error *error)
{
    const struct backend *backend = session->config.backend;
    int r = backend->buffer_create(session->config.device, session->plan.arena_bytes,
                                   &session->buffer, error);

    if (r == 0)
        r = session_fill_lengths(session, error);
    if (r < 0)
        return r;
    if (session->config.staging_bytes && !backend->buffer_host(session->buffer))
        return error_set(error, -ERROR_UNSUPPORTED, "%s has no memory that the host can fill",
                         backend->name);
    if (session->config.staging_bytes && backend->buffer_stage)
        r = backend->buffer_stage(session->buffer, session->plan.staging_offset,
                                  session->config.staging_bytes, error);
    if (r == 0)
        r = session_bind(session, error);
    for (int i = 0; r == 0 && i < session->config.data_count; i++)
        r = backend->data_create(session->config.device, &session->config.data[i], session->buffer,
                                 session->data_offset[i], &session->data[i], error);
    return r < 0 ? r : session_draw_weights(session, error);
}

int session_rehearse(struct session *session, struct error *error)
{
    const struct backend *backend = session->config.backend;
    int r;

    if (!backend->buffer_reserve)
        return 0;
    r = backend->buffer_reserve(session->config.device, session->plan.arena_bytes, &session->buffer,
                                error);
    return r < 0 ? r : session_bind(session, error);
}

void session_free(struct session *session)
{
    if (!session)
        return;
    for (int i = session->program_count - 1; i >= 0; i--) {
        if (session->programs[i].program)
            session->config.backend->program_free(session->programs[i].program);
    }
    for (int i = 0; i < SESSION_DATA_MAX; i++) {
        if (session->data[i])
            session->config.backend->data_free(session->data[i]);
    }
    if (session->buffer)
        session->config.backend->buffer_free(session->buffer);
    if (session->planned)
        memory_plan_release(&session->plan);
    for (int i = 0; i < session->program_count; i++)
        graph_release(&session->programs[i].graph);
    free(session->persistent);
    free(session->whole);
    free(session->scratch);
    free(session);
}

const struct memory_plan *session_memory(const struct session *session)
{
    return &session->plan;
}

const struct graph *session_graph(const struct session *session)
{
    return &session->programs[0].graph;
}

const struct graph *session_graph_for(const struct session *session, bool training, int64_t count,
                                      int64_t steps)
{
    for (int i = 0; i < session->program_count; i++) {
        const struct session_program *program = &session->programs[i];

        if (program->training == training && program->batch == count && program->steps == steps)
            return &program->graph;
    }
    return NULL;
}

bool session_reads_bytes(const struct session *session)
{
    const struct graph *graph = session_graph(session);

    return graph->input >= 0 && graph->tensors[graph->input].type == TENSOR_UINT8;
}

int64_t session_parameter_count(const struct session *session)
{
    const struct graph *graph = session_graph(session);
    int64_t count = 0;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            count += graph_shape_elements(&graph->tensors[i].shape);
    }
    return count;
}

size_t session_input_bytes(const struct graph *graph, int32_t tensor)
{
    const struct graph_tensor *input;

    if (tensor < 0)
        return 0;
    input = &graph->tensors[tensor];
    return align_up((size_t)graph_shape_elements(&input->shape) * tensor_type_bytes(input->type),
                    MEMORY_ALIGNMENT);
}

void *session_staging(const struct session *session)
{
    if (!session->buffer || !session->config.staging_bytes)
        return NULL;
    return (uint8_t *)session->config.backend->buffer_host(session->buffer) +
           session->plan.staging_offset;
}

static int session_run(struct session *session, struct session_program *program,
                       const struct session_batch *batch, unsigned phases,
                       const struct step_scalars *scalars, struct error *error)
{
    const struct backend *backend = session->config.backend;
    const struct graph *graph = &program->graph;
    int r = backend->program_set_input(program->program, graph->input, batch->samples, error);

    if (r == 0 && graph->target >= 0)
        r = backend->program_set_input(program->program, graph->target, batch->targets, error);
    if (r == 0 && graph->lengths >= 0)
        r = backend->program_set_input(program->program, graph->lengths,
                                       batch->lengths ? batch->lengths : session->whole, error);
    if (r == 0)
        r = backend->program_run(program->program, phases, scalars, error);
    return r;
}

static int no_program(bool training, int64_t count, int64_t steps, struct error *error)
{
    return error_set(error, -EINVAL,
                     "the session was not made for %s batches of %lld samples and %lld steps",
                     training ? "training" : "evaluation", (long long)count, (long long)steps);
}

int session_step(struct session *session, const struct session_batch *batch, unsigned phases,
                 const struct step_scalars *scalars, struct error *error)
{
    struct session_program *program =
        session_program_for(session, true, batch->count, batch->steps);

    if (!program)
        return no_program(true, batch->count, batch->steps, error);
    session->latest_training = program;
    return session_run(session, program, batch, phases, scalars, error);
}

int session_steps(struct session *session, bool training, int64_t batch, int data,
                  const struct backend_step *steps, int count, struct error *error)
{
    struct session_program *program = session_program_for(session, training, batch, 0);

    if (!program)
        return no_program(training, batch, 0, error);
    *(training ? &session->latest_training : &session->latest_evaluation) = program;
    return session->config.backend->program_run_steps(program->program, session->data[data], steps,
                                                      count, error);
}

struct backend_data *session_data(const struct session *session, int data)
{
    return session->data[data];
}

int session_write_order(struct session *session, int data, int64_t first, int64_t count,
                        const uint32_t *indices, struct error *error)
{
    return session->config.backend->data_write_order(session->data[data], first, count, indices,
                                                     error);
}

int session_gradient_norm(struct session *session, double *norm, struct error *error)
{
    const struct session_program *program = session->latest_training;
    const struct graph *graph = &program->graph;
    double squares = 0;

    for (int32_t t = 0; t < graph->tensor_count; t++) {
        const float *values = session->scratch;
        int r;

        if (graph->tensors[t].role != TENSOR_GRADIENT)
            continue;
        r = session->config.backend->tensor_read(program->program, t, session->scratch, error);
        if (r < 0)
            return r;
        for (int64_t i = 0; i < graph_shape_elements(&graph->tensors[t].shape); i++)
            squares += (double)values[i] * (double)values[i];
    }
    *norm = sqrt(squares);
    return 0;
}

void session_describe_device(const struct session *session, struct backend_device_info *info)
{
    session->config.backend->device_describe(session->config.device, info);
}

double session_seconds(const struct session *session)
{
    const struct backend *backend = session->config.backend;

    if (backend->device_seconds)
        return backend->device_seconds(session->config.device);
    return clock_monotonic();
}

double session_energy(const struct session *session)
{
    const struct backend *backend = session->config.backend;

    return backend->device_energy ? backend->device_energy(session->config.device) : NAN;
}

void session_profile(struct session *session, struct profile_recorder *recorder)
{
    if (session->config.backend->device_profile)
        session->config.backend->device_profile(session->config.device, recorder);
}

void session_describe_node(const struct session *session, const struct graph *graph, int32_t node,
                           struct node_description *description)
{
    const struct backend *backend = session->config.backend;

    *description = (struct node_description){.tasks = 1, .lanes = 1};
    for (int i = 0; i < session->program_count && backend->program_describe; i++)
        if (&session->programs[i].graph == graph)
            backend->program_describe(session->programs[i].program, node, description);
}

int64_t session_profile_events(const struct session *session, int *lanes)
{
    const struct backend *backend = session->config.backend;
    struct backend_device_info info;

    backend->device_describe(session->config.device, &info);
    *lanes = info.threads;
    if (!backend->device_profile || !backend->program_profile_events)
        return 0;
    return backend->program_profile_events(session->programs[0].program);
}

bool session_update_skipped(struct session *session)
{
    return session->config.backend->program_update_skipped(session->latest_training->program);
}

bool session_scales_loss(const struct session *session)
{
    return session->config.backend->program_write_loss_scale != NULL;
}

void session_write_loss_scale(struct session *session, const struct loss_scale *loss_scale)
{
    session->config.backend->program_write_loss_scale(session->programs[0].program, loss_scale);
}

void session_read_loss_scale(const struct session *session, struct loss_scale *loss_scale)
{
    session->config.backend->program_read_loss_scale(session->programs[0].program, loss_scale);
}

int session_evaluate(struct session *session, const struct session_batch *batch,
                     struct error *error)
{
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    struct session_program *program =
        session_program_for(session, false, batch->count, batch->steps);

    if (!program)
        return no_program(false, batch->count, batch->steps, error);
    session->latest_evaluation = program;
    return session_run(session, program, batch, PROGRAM_FORWARD, &scalars, error);
}

int session_read_output(struct session *session, float *output, struct error *error)
{
    struct session_program *program = session->latest_evaluation;

    if (!program)
        return error_set(error, -EINVAL, "nothing was evaluated yet");
    return session->config.backend->tensor_read(program->program, program->graph.output, output,
                                                error);
}
