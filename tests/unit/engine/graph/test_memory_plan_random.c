/* test_memory_plan_random.c: the memory plan on random graphs. A plan is right if running the
 * graphs in it never destroys a value that is still needed. The test simulates that. Each cell of
 * 64 bytes remembers whose value it holds. Every node first finds its inputs intact, then
 * writes. */
#include "base/philox.h"
#include "engine/graph/forward.h"
#include "engine/graph/memory_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS_MAX = 3, WIDTHS = 3 };

struct random {
    uint64_t seed, index;
};

static int draw(struct random *random, int below)
{
    return (int)(philox_draw(random->seed, philox_stream(PHILOX_TEST, 0), random->index++).word[0] %
                 (uint32_t)below);
}

/* ---- random graphs and what a backend might ask for them ------------------------------------ */

/* A chain of layers with shortcuts; the same seed gives the same model for every batch. */
static void build_random(struct graph *graph, struct random random, int64_t batch, bool training,
                         bool accumulate)
{
    static const int64_t widths[WIDTHS] = {8, 24, 100};
    struct optimizer_config optimizer = {
        .kind = (enum optimizer_kind)draw(&random, OPTIMIZER_NADAM + 1),
        .momentum = draw(&random, 2) ? 0.9 : 0.0};
    int32_t latest[WIDTHS] = {-1, -1, -1}, x;
    int layers = 1 + draw(&random, 25), at = 0;
    struct error error = {0};
    char name[16];

    graph_init(graph, batch, training);
    graph->accumulate = accumulate;
    graph_input(graph, TENSOR_FLOAT32, (int64_t[]){2, 5}, 2);
    x = graph_linear(graph, graph_flatten(graph, graph->input, "flatten"), "first", widths[0],
                     true);
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        switch (draw(&random, 6)) {
        case 0:
        case 1:
            latest[at] = x;
            at = draw(&random, WIDTHS);
            x = graph_linear(graph, x, name, widths[at], draw(&random, 2));
            break;
        case 2:
            x = graph_activation(graph, x, name, (enum activation_kind)draw(&random, 5));
            break;
        case 3:
            x = graph_dropout(graph, x, name, 0.25f);
            break;
        case 4:
            x = graph_batch_norm(graph, x, name, 1e-5f, 0.1f);
            break;
        case 5:
            if (latest[at] >= 0)
                x = graph_add(graph, x, latest[at], name);
            latest[at] = x;
            break;
        }
    }
    graph_cross_entropy(graph, graph_linear(graph, x, "last", 10, true));
    if (training &&
        (graph_differentiate(graph, &error) || graph_add_optimizer(graph, &optimizer, &error)))
        fail_msg("%s", error.text);
    if (graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

/* The arrays behind a memory_request. */
struct choices {
    size_t *tensor_bytes, *node_workspace;
    int32_t *tensor_alias, *node_step;
    struct memory_touch *touches;
    int touch_count;
};

/* Whether the result of `node` is read by `reader` alone. */
static bool read_only_by(const struct graph *graph, int32_t tensor, int32_t reader)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].input[k] == tensor && i != reader)
                return false;
    return true;
}

/* Nodes that read what later ones read, or write what only later ones make: tensors of activations
 * and gradients that have storage of their own. */
static void touch_random(const struct graph *graph, struct random *random, struct choices *choices)
{
    int count = draw(random, 4);

    choices->touches = calloc((size_t)count + 1, sizeof *choices->touches);
    choices->touch_count = 0;
    for (int i = 0; i < count; i++) {
        int32_t tensor = draw(random, graph->tensor_count);
        const struct graph_tensor *t = &graph->tensors[tensor];

        if ((t->role != TENSOR_ACTIVATION && t->role != TENSOR_GRADIENT) || t->producer < 0 ||
            !choices->tensor_bytes[tensor] || choices->tensor_alias[tensor] >= 0)
            continue;
        choices->touches[choices->touch_count++] =
            (struct memory_touch){tensor, draw(random, graph->node_count)};
    }
}

/* Padded tensors, inputs read in place, reshapes as aliases, activations fused into the node that
 * makes their input, workspaces. Only the batch may differ between the requests of a model. */
static void choose_random(const struct graph *graph, struct random random, struct choices *choices,
                          struct memory_request *request)
{
    size_t padding = draw(&random, 2) ? 40 : 0;
    bool keep_input = draw(&random, 2), fuse = draw(&random, 2), workspaces = draw(&random, 2);

    choices->tensor_bytes = calloc((size_t)graph->tensor_count, sizeof(size_t));
    choices->tensor_alias = calloc((size_t)graph->tensor_count, sizeof(int32_t));
    choices->node_workspace = calloc((size_t)graph->node_count, sizeof(size_t));
    choices->node_step = calloc((size_t)graph->node_count, sizeof(int32_t));
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];

        choices->tensor_alias[i] = -1;
        choices->tensor_bytes[i] =
            (size_t)graph_shape_elements(&t->shape) * tensor_type_bytes(t->type) + padding;
        if (t->role == TENSOR_INPUT && !keep_input)
            choices->tensor_bytes[i] = 0;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t x = node->input[0];

        choices->node_step[i] = i;
        if (workspaces && draw(&random, 3) == 0)
            choices->node_workspace[i] = 1 + (size_t)draw(&random, 5000);
        if (node->op == OP_RESHAPE) {
            choices->tensor_bytes[node->output[0]] = 0;
            choices->tensor_alias[node->output[0]] = x;
        }
        if (fuse && node->op == OP_ACTIVATION && i && graph->tensors[x].producer == i - 1 &&
            read_only_by(graph, x, i) &&
            (graph->nodes[i - 1].op == OP_LINEAR || graph->nodes[i - 1].op == OP_ADD)) {
            choices->tensor_bytes[x] = 0;
            choices->tensor_alias[x] = node->output[0];
            choices->node_step[i - 1] = i;
        }
    }
    touch_random(graph, &random, choices);
    *request = (struct memory_request){.graph = graph,
                                       .touches = choices->touches,
                                       .touch_count = choices->touch_count,
                                       .tensor_bytes = choices->tensor_bytes,
                                       .tensor_alias = choices->tensor_alias,
                                       .node_workspace = choices->node_workspace,
                                       .node_step = choices->node_step,
                                       .shared_workspace = (size_t)draw(&random, 2) * 1000};
}

static void choices_release(struct choices *choices)
{
    free(choices->tensor_bytes);
    free(choices->tensor_alias);
    free(choices->node_workspace);
    free(choices->node_step);
    free(choices->touches);
}

/* ---- playing a plan through ------------------------------------------------------------------ */

struct arena {
    const char **owner; /* per cell: the name of the value that it holds */
    size_t cells;
};

/* The name of the tensor whose value lies where `tensor` does. */
static const char *value_of(const struct memory_request *request, int32_t tensor)
{
    while (request->tensor_alias[tensor] >= 0)
        tensor = request->tensor_alias[tensor];
    return request->graph->tensors[tensor].name;
}

static size_t bytes_of(const struct memory_request *request, int32_t tensor)
{
    while (request->tensor_alias[tensor] >= 0)
        tensor = request->tensor_alias[tensor];
    return request->tensor_bytes[tensor];
}

static void arena_write(struct arena *arena, size_t offset, size_t bytes, const char *value)
{
    if (!bytes) {
        assert_true(offset == SIZE_MAX);
        return;
    }
    assert_int_equal(offset % MEMORY_ALIGNMENT, 0);
    assert_true(offset / MEMORY_ALIGNMENT + (bytes + 63) / 64 <= arena->cells);
    for (size_t i = 0; i < (bytes + 63) / 64; i++)
        arena->owner[offset / 64 + i] = value;
}

static void arena_expect(const struct arena *arena, size_t offset, size_t bytes, const char *value)
{
    for (size_t i = 0; i < (bytes + 63) / 64; i++)
        if (arena->owner[offset / 64 + i] != value &&
            strcmp(arena->owner[offset / 64 + i], value) != 0)
            fail_msg("'%s' was overwritten by '%s'", value, arena->owner[offset / 64 + i]);
}

static void tensor_expect(const struct arena *arena, const struct memory_request *request,
                          const struct memory_placement *placement, int32_t tensor)
{
    if (tensor >= 0)
        arena_expect(arena, placement->tensor_offset[tensor], bytes_of(request, tensor),
                     value_of(request, tensor));
}

/* Whether the node may overwrite this input with its output. */
static bool may_overwrite(const struct memory_placement *placement, const struct graph_node *node,
                          int k)
{
    bool in_place = node->op == OP_ADD || node->op == OP_ACTIVATION || node->op == OP_DROPOUT ||
                    ((node->op == OP_ACTIVATION_BACKWARD || node->op == OP_CHANNEL_SCALE ||
                      node->op == OP_CHANNEL_SCALE_BACKWARD) &&
                     k == 0) ||
                    node->op == OP_DROPOUT_BACKWARD;

    return in_place &&
           placement->tensor_offset[node->input[k]] == placement->tensor_offset[node->output[0]];
}

/* Whether a node of the same step makes the tensor: then it is intact only afterwards. */
static bool made_in_step(const struct memory_request *request, int32_t tensor, int32_t step)
{
    int32_t producer = request->graph->tensors[tensor].producer;

    return producer >= 0 && request->node_step[producer] == step;
}

/* A node of the step reads a tensor that an earlier node made. Or it writes one that a later node
 * makes, which must find it unchanged. */
static void play_touches(struct arena *arena, const struct memory_request *request,
                         const struct memory_placement *placement, int32_t step)
{
    for (int i = 0; i < request->touch_count; i++) {
        int32_t tensor = request->touches[i].tensor;
        int32_t touched = request->node_step[request->touches[i].node];
        int32_t made = request->node_step[request->graph->tensors[tensor].producer];

        if ((touched == step && made < step) || (made == step && touched < step))
            tensor_expect(arena, request, placement, tensor);
        if (touched == step && made > step)
            arena_write(arena, placement->tensor_offset[tensor], bytes_of(request, tensor),
                        value_of(request, tensor));
    }
}

static void play_step(struct arena *arena, const struct memory_request *request,
                      const struct memory_placement *placement, int32_t step)
{
    static const char scratch[] = "a node's workspace";
    const struct graph *graph = request->graph;

    play_touches(arena, request, placement, step);
    for (int pass = 0; pass < 2; pass++) { /* 0: inputs, workspaces, outputs; 1: all is intact */
        for (int32_t i = 0; i < graph->node_count; i++) {
            const struct graph_node *node = &graph->nodes[i];

            if (request->node_step[i] != step)
                continue;
            for (int k = 0; k < node->input_count; k++)
                if (node->input[k] >= 0 && (pass || !made_in_step(request, node->input[k], step)) &&
                    !(pass && may_overwrite(placement, node, k)))
                    tensor_expect(arena, request, placement, node->input[k]);
            for (int k = 0; k < node->output_count && pass; k++)
                tensor_expect(arena, request, placement, node->output[k]);
            if (pass)
                arena_expect(arena, placement->workspace_offset[i], request->node_workspace[i],
                             scratch);
        }
        for (int32_t i = 0; i < graph->node_count && !pass; i++) {
            const struct graph_node *node = &graph->nodes[i];

            if (request->node_step[i] != step)
                continue;
            arena_write(arena, placement->workspace_offset[i], request->node_workspace[i], scratch);
            for (int k = 0; k < node->output_count; k++)
                arena_write(arena, placement->tensor_offset[node->output[k]],
                            bytes_of(request, node->output[k]), value_of(request, node->output[k]));
        }
    }
}

/* One run of one graph. */
static void play(struct arena *arena, const struct memory_request *request,
                 const struct memory_placement *placement)
{
    const struct graph *graph = request->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_INPUT)
            arena_write(arena, placement->tensor_offset[i], bytes_of(request, i),
                        value_of(request, i));
    for (int32_t step = 0; step < graph->node_count; step++)
        play_step(arena, request, placement, step);
    tensor_expect(arena, request, placement, graph->output);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_GRADIENT || graph_tensor_is_persistent(graph, i))
            tensor_expect(arena, request, placement, i);
}

/* Writes the persistent tensors, the shared workspace and the staging area, plays all
 * graphs twice and finds what outlives a run unharmed. */
static void play_plan(const struct memory_request *requests, int count, size_t staging_bytes,
                      const struct memory_plan *plan)
{
    static const char shared[] = "shared workspace";
    struct arena arena = {.cells = plan->arena_bytes / 64};

    assert_int_equal(plan->arena_bytes % 64, 0);
    arena.owner = calloc(arena.cells + 1, sizeof *arena.owner);
    for (size_t i = 0; i < arena.cells; i++)
        arena.owner[i] = "nothing";
    arena_write(&arena, plan->staging_offset, staging_bytes, "staging");
    for (int i = 0; i < count; i++)
        arena_write(&arena, plan->placements[i].shared_workspace_offset,
                    requests[i].shared_workspace, shared);
    for (int32_t i = 0; i < requests[0].graph->tensor_count; i++)
        if (graph_tensor_is_persistent(requests[0].graph, i))
            arena_write(&arena, plan->placements[0].tensor_offset[i], requests[0].tensor_bytes[i],
                        requests[0].graph->tensors[i].name);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < count; i++)
            play(&arena, &requests[i], &plan->placements[i]);
    arena_expect(&arena, plan->staging_offset, staging_bytes, "staging");
    for (int i = 0; i < count; i++)
        arena_expect(&arena, plan->placements[i].shared_workspace_offset,
                     requests[i].shared_workspace, shared);
    free(arena.owner);
}

/* The arena ends where the last thing in it does, and the classes add up to it. */
static void check_totals(const struct memory_request *requests, int count, size_t staging_bytes,
                         const struct memory_plan *plan)
{
    size_t end = staging_bytes ? plan->staging_offset + (staging_bytes + 63) / 64 * 64 : 0, sum = 0;

    for (int i = 0; i < count; i++) {
        const struct memory_placement *placement = &plan->placements[i];
        const struct graph *graph = requests[i].graph;

        for (int32_t k = 0; k < graph->tensor_count; k++) {
            size_t bytes = (bytes_of(&requests[i], k) + 63) / 64 * 64;

            if (bytes && placement->tensor_offset[k] + bytes > end)
                end = placement->tensor_offset[k] + bytes;
        }
        for (int32_t k = 0; k < graph->node_count; k++) {
            size_t bytes = (requests[i].node_workspace[k] + 63) / 64 * 64;

            if (bytes && placement->workspace_offset[k] + bytes > end)
                end = placement->workspace_offset[k] + bytes;
        }
        if (requests[i].shared_workspace && placement->shared_workspace_offset + 1024 > end)
            end = placement->shared_workspace_offset + 1024;
    }
    assert_int_equal(end, plan->arena_bytes);
    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        sum += plan->class_bytes[i];
    assert_int_equal(sum, plan->arena_bytes);
}

static void check_equal(const struct memory_request *requests, const struct memory_plan *a,
                        const struct memory_plan *b)
{
    assert_int_equal(a->arena_bytes, b->arena_bytes);
    assert_memory_equal(a->class_bytes, b->class_bytes, sizeof a->class_bytes);
    for (int i = 0; i < a->placement_count; i++) {
        const struct graph *graph = requests[i].graph;

        assert_memory_equal(a->placements[i].tensor_offset, b->placements[i].tensor_offset,
                            (size_t)graph->tensor_count * sizeof(size_t));
        assert_memory_equal(a->placements[i].workspace_offset, b->placements[i].workspace_offset,
                            (size_t)graph->node_count * sizeof(size_t));
    }
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct random random = {.seed = seed};
        bool accumulate = draw(&random, 2);
        size_t staging_bytes = (size_t)draw(&random, 3) * 777;
        struct graph graphs[REQUESTS_MAX];
        struct choices choices[REQUESTS_MAX];
        struct memory_request requests[REQUESTS_MAX];
        struct memory_plan plan, again;
        struct error error = {0};

        for (int i = 0; i < REQUESTS_MAX; i++) {
            build_random(&graphs[i], random, i == 1 ? 3 : 32, i < 2, accumulate);
            choose_random(&graphs[i], random, &choices[i], &requests[i]);
        }
        if (memory_plan_make(requests, REQUESTS_MAX, staging_bytes, &plan, &error) ||
            memory_plan_make(requests, REQUESTS_MAX, staging_bytes, &again, &error))
            fail_msg("seed %d: %s", (int)seed, error.text);
        play_plan(requests, REQUESTS_MAX, staging_bytes, &plan);
        check_totals(requests, REQUESTS_MAX, staging_bytes, &plan);
        check_equal(requests, &plan, &again);
        memory_plan_release(&plan);
        memory_plan_release(&again);
        for (int i = 0; i < REQUESTS_MAX; i++) {
            choices_release(&choices[i]);
            graph_release(&graphs[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
