/* memory_plan.c: see memory_plan.h. The arena is laid out so:
 *
 *   weights and statistics, averages, optimizer state, gradients that accumulate: persistent,
 *       those of requests[0]
 *   the workspace that the programs share, staging: for the whole session
 *   activations, gradients, workspaces of nodes: transient
 *
 * The transient part begins at the same offset for every request and is as long as the longest. */
#include "engine/graph/memory_plan.h"

#include "base/alignment.h"
#include "base/cleanup.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const memory_class_names[] = {
    [MEMORY_WEIGHTS] = "weights",     [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer", [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace", [MEMORY_STAGING] = "staging",
    [MEMORY_AVERAGES] = "averages",   [MEMORY_DATA] = "device_data",
};
DEFINE_STRING_TABLE(memory_class, enum memory_class, memory_class_names)

/* A range of the transient part. Tensors that live at different times may share it. */
struct block {
    size_t bytes, offset; /* multiples of MEMORY_ALIGNMENT; in the transient part */
    int32_t first, last;  /* the first and the last step in which it is used */
    int32_t number;       /* tensor, or tensor_count + node for a workspace */
    enum memory_class kind;
};

/* The lifetime of a tensor while a request is planned. Tensors that share storage have a
 * representative (find_representative()). Only its members count, apart from `parent`. */
struct lifetime {
    int32_t parent;      /* the tensor itself if it is a representative */
    int32_t first, last; /* steps */
    size_t bytes;        /* a multiple of MEMORY_ALIGNMENT */
    size_t exact_bytes;
    bool persistent;
    bool pinned; /* never overwritten in place: an input, or read after the run */
};

/* The state of planning one request. */
struct planning {
    const struct memory_request *request;
    struct memory_placement *placement;
    struct lifetime *lifetimes; /* per tensor */
    struct block *blocks;       /* by offset once placed */
    int32_t block_count;
    size_t extent; /* the bytes of the transient part */
};

/* One persistent tensor of requests[0]. */
struct persistent_entry {
    const char *name;
    size_t bytes, offset;
};

static enum memory_class class_of_role(enum tensor_role role)
{
    switch (role) {
    case TENSOR_PARAMETER:
    case TENSOR_STATISTIC:
        return MEMORY_WEIGHTS;
    case TENSOR_GRADIENT:
        return MEMORY_GRADIENTS;
    case TENSOR_OPTIMIZER:
        return MEMORY_OPTIMIZER;
    case TENSOR_AVERAGE:
        return MEMORY_AVERAGES;
    case TENSOR_INPUT:
        return MEMORY_STAGING;
    case TENSOR_STATE:
    case TENSOR_ACTIVATION:
        break;
    }
    return MEMORY_ACTIVATIONS;
}

static int32_t step_of(const struct memory_request *request, int32_t node)
{
    return request->node_step ? request->node_step[node] : node;
}

static int32_t find_representative(const struct planning *p, int32_t tensor)
{
    while (p->lifetimes[tensor].parent != tensor)
        tensor = p->lifetimes[tensor].parent;
    return tensor;
}

/* Extends the lifetime of the storage of `tensor` to `step`. */
static void touch(struct planning *p, int32_t tensor, int32_t step)
{
    struct lifetime *l = &p->lifetimes[find_representative(p, tensor)];

    if (step < l->first)
        l->first = step;
    if (step > l->last)
        l->last = step;
}

/* Finds the representatives from the aliases that the backend chose. */
static int resolve_aliases(struct planning *p, struct error *error)
{
    const struct memory_request *request = p->request;
    const struct graph *graph = request->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        int32_t root = i, hops = 0;

        while (request->tensor_alias && request->tensor_alias[root] >= 0) {
            root = request->tensor_alias[root];
            if (root >= graph->tensor_count || hops++ > graph->tensor_count)
                return error_set(error, -EINVAL, "the aliases of tensor '%s' lead nowhere",
                                 graph->tensors[i].name);
        }
        p->lifetimes[i] =
            (struct lifetime){.parent = root, .first = INT32_MAX, .last = -1, .pinned = false};
    }
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        struct lifetime *l = &p->lifetimes[p->lifetimes[i].parent];

        if (request->tensor_bytes[i] > l->exact_bytes)
            l->exact_bytes = request->tensor_bytes[i];
        l->bytes = align_up(l->exact_bytes, MEMORY_ALIGNMENT);
        l->persistent |= graph_tensor_is_persistent(graph, i);
        l->pinned |= graph->tensors[i].role == TENSOR_INPUT;
    }
    return 0;
}

/* Finds the first and the last step of every tensor. */
static void find_lifetimes(struct planning *p)
{
    const struct graph *graph = p->request->graph;
    int32_t end = graph->node_count ? graph->node_count - 1 : 0;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] >= 0)
                touch(p, node->input[k], step_of(p->request, i));
        for (int k = 0; k < node->output_count; k++)
            touch(p, node->output[k], step_of(p->request, i));
    }
    for (int i = 0; i < p->request->touch_count; i++)
        touch(p, p->request->touches[i].tensor, step_of(p->request, p->request->touches[i].node));
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].role == TENSOR_INPUT)
            touch(p, i, 0);
        if (graph->tensors[i].role == TENSOR_GRADIENT || i == graph->output ||
            i == graph->input_gradient) {
            touch(p, i, end);
            p->lifetimes[find_representative(p, i)].pinned = true;
        }
    }
}

/* Lets the output of node `index` take over the storage of an input that dies there. Their elements
 * must have the same size: otherwise a thread would overwrite what another one still has to
 * read. */
static void reuse_in_place(struct planning *p, int32_t index)
{
    const struct graph_node *node = &p->request->graph->nodes[index];
    int32_t step = step_of(p->request, index), y = find_representative(p, node->output[0]);
    struct lifetime *result = &p->lifetimes[y];

    bool first_only = graph_node_operator(node)->reuse == REUSE_FIRST_INPUT;
    int candidates = first_only ? 1 : node->input_count;

    /* a cast of weights may also change their order */
    if (node->op == OP_CAST && !p->request->graph->tensors[node->input[0]].batched)
        return;
    for (int k = 0; k < candidates; k++) {
        int32_t x = find_representative(p, node->input[k]);
        struct lifetime *source = &p->lifetimes[x];

        if (x == y || source->persistent || source->pinned || result->persistent ||
            source->last != step || result->first != step || !source->bytes ||
            source->exact_bytes != result->exact_bytes)
            continue;
        result->parent = x;
        source->last = result->last;
        source->pinned = result->pinned;
        return;
    }
}

static int reuse_storage(struct planning *p)
{
    const struct graph *graph = p->request->graph;
    AUTO_FREE int32_t *nodes_of_step = calloc((size_t)graph->node_count + 1, sizeof *nodes_of_step);

    if (!nodes_of_step)
        return -ENOMEM;
    for (int32_t i = 0; i < graph->node_count; i++)
        nodes_of_step[step_of(p->request, i)]++;
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph_node_operator(&graph->nodes[i])->reuse != REUSE_NONE &&
            nodes_of_step[step_of(p->request, i)] == 1)
            reuse_in_place(p, i);
    return 0;
}

/* Larger blocks first. The other criteria make the order total, so that plans do not depend on the
 * sorting algorithm. */
static int blocks_compare_size(const void *a, const void *b)
{
    const struct block *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Collects the transient blocks: the storage of tensors, and the workspaces of nodes. */
static void collect_blocks(struct planning *p)
{
    const struct memory_request *request = p->request;
    const struct graph *graph = request->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct lifetime *l = &p->lifetimes[i];

        if (l->parent == i && l->bytes && !l->persistent && l->last >= 0)
            p->blocks[p->block_count++] =
                (struct block){.bytes = l->bytes,
                               .first = l->first,
                               .last = l->last,
                               .number = i,
                               .kind = class_of_role(graph->tensors[i].role)};
    }
    for (int32_t i = 0; request->node_workspace && i < graph->node_count; i++)
        if (request->node_workspace[i])
            p->blocks[p->block_count++] =
                (struct block){.bytes = align_up(request->node_workspace[i], MEMORY_ALIGNMENT),
                               .first = step_of(request, i),
                               .last = step_of(request, i),
                               .number = graph->tensor_count + i,
                               .kind = MEMORY_WORKSPACE};
    qsort(p->blocks, (size_t)p->block_count, sizeof *p->blocks, blocks_compare_size);
}

/* Places blocks[index] into the smallest gap between the blocks that live at the same time, or
 * behind them. Moves it among the placed ones, so that [0, index] stays sorted by offset. */
static void place_block(struct planning *p, int32_t index)
{
    struct block block = p->blocks[index];
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    int32_t position = 0;

    for (int32_t i = 0; i < index; i++) {
        const struct block *other = &p->blocks[i];

        if (other->last < block.first || other->first > block.last)
            continue;
        if (other->offset > end && other->offset - end >= block.bytes &&
            other->offset - end < best_gap) {
            best = end;
            best_gap = other->offset - end;
        }
        if (other->offset + other->bytes > end)
            end = other->offset + other->bytes;
    }
    block.offset = best != SIZE_MAX ? best : end;
    while (position < index && p->blocks[position].offset <= block.offset)
        position++;
    memmove(&p->blocks[position + 1], &p->blocks[position],
            (size_t)(index - position) * sizeof block);
    p->blocks[position] = block;
    if (block.offset + block.bytes > p->extent)
        p->extent = block.offset + block.bytes;
}

/* Checks that even an arrangement without any reuse has a possible size. Then no sum below can
 * overflow. */
static int check_request(const struct memory_request *request, struct error *error)
{
    const struct graph *graph = request->graph;
    size_t total = request->shared_workspace;
    bool overflow = total > PTRDIFF_MAX / 16;

    for (int32_t i = 0; i < graph->tensor_count; i++)
        overflow |= __builtin_add_overflow(total, request->tensor_bytes[i], &total) ||
                    __builtin_add_overflow(total, MEMORY_ALIGNMENT, &total);
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (request->node_workspace)
            overflow |= __builtin_add_overflow(total, request->node_workspace[i], &total) ||
                        __builtin_add_overflow(total, MEMORY_ALIGNMENT, &total);
        if (step_of(request, i) < 0 || step_of(request, i) >= graph->node_count)
            return error_set(error, -EINVAL, "node %d has the impossible step %d", i,
                             step_of(request, i));
    }
    if (overflow || total > PTRDIFF_MAX / 16)
        return error_set(error, -EOVERFLOW,
                         "the model needs more memory than any machine has; reduce its layers or "
                         "the batch size");
    return 0;
}

/* Plans the transient part of one request. */
static int plan_transient(struct planning *p, struct error *error)
{
    const struct graph *graph = p->request->graph;
    size_t tensors = (size_t)graph->tensor_count, nodes = (size_t)graph->node_count;
    int result;

    p->lifetimes = calloc(tensors + 1, sizeof *p->lifetimes);
    p->blocks = calloc(tensors + nodes + 1, sizeof *p->blocks);
    p->placement->tensor_offset = malloc((tensors + 1) * sizeof(size_t));
    p->placement->workspace_offset = malloc((nodes + 1) * sizeof(size_t));
    if (!p->lifetimes || !p->blocks || !p->placement->tensor_offset ||
        !p->placement->workspace_offset)
        return error_no_memory(error, "the memory plan");
    for (size_t i = 0; i < tensors; i++)
        p->placement->tensor_offset[i] = SIZE_MAX;
    for (size_t i = 0; i < nodes; i++)
        p->placement->workspace_offset[i] = SIZE_MAX;
    result = check_request(p->request, error);
    if (!result)
        result = resolve_aliases(p, error);
    if (result)
        return result;
    find_lifetimes(p);
    if (reuse_storage(p))
        return error_no_memory(error, "the memory plan");
    collect_blocks(p);
    for (int32_t i = 0; i < p->block_count; i++)
        place_block(p, i);
    return 0;
}

static int entries_compare(const void *a, const void *b)
{
    return strcmp(((const struct persistent_entry *)a)->name,
                  ((const struct persistent_entry *)b)->name);
}

static const struct persistent_entry *find_entry(const struct persistent_entry *entries,
                                                 size_t count, const char *name)
{
    const struct persistent_entry key = {.name = name};

    return bsearch(&key, entries, count, sizeof key, entries_compare);
}

/* Lays out the request's persistent tensors of the role, and appends them to the entries. */
static void plan_role(const struct planning *p, enum tensor_role role, struct memory_plan *plan,
                      struct persistent_entry *entries, size_t *count)
{
    const struct graph *graph = p->request->graph;
    size_t sorted = *count;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct lifetime *l = &p->lifetimes[i];

        if (graph->tensors[i].role != role || !l->persistent || l->parent != i || !l->bytes ||
            find_entry(entries, sorted, graph->tensors[i].name))
            continue;
        entries[(*count)++] = (struct persistent_entry){
            .name = graph->tensors[i].name, .bytes = l->bytes, .offset = plan->arena_bytes};
        plan->class_bytes[class_of_role(role)] += l->bytes;
        plan->arena_bytes += l->bytes;
    }
    qsort(entries, *count, sizeof *entries, entries_compare);
}

/* Lays out the persistent tensors of requests[0], grouped by role, and the carried state that only
 * others have: that of evaluation. Lists them by name. */
static void plan_persistent(const struct planning *plannings, int requests,
                            struct memory_plan *plan, struct persistent_entry *entries,
                            size_t *count)
{
    static const enum tensor_role order[] = {TENSOR_PARAMETER, TENSOR_STATISTIC, TENSOR_AVERAGE,
                                             TENSOR_STATE,     TENSOR_OPTIMIZER, TENSOR_GRADIENT};

    *count = 0;
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        plan_role(&plannings[0], order[k], plan, entries, count);
    for (int i = 1; i < requests; i++)
        plan_role(&plannings[i], TENSOR_STATE, plan, entries, count);
}

/* An upper bound of the entries. */
static size_t count_entries(const struct planning *plannings, int requests)
{
    size_t count = (size_t)plannings[0].request->graph->tensor_count + 1;

    for (int i = 1; i < requests; i++) {
        const struct graph *graph = plannings[i].request->graph;

        for (int32_t t = 0; t < graph->tensor_count; t++)
            count += graph->tensors[t].role == TENSOR_STATE;
    }
    return count;
}

/* Fills in the offsets of persistent tensors, which it finds by name. */
static int match_persistent(struct planning *p, const struct persistent_entry *entries,
                            size_t count, struct error *error)
{
    const struct graph *graph = p->request->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct persistent_entry *entry;
        const struct lifetime *l = &p->lifetimes[i];

        if (l->parent != i || !l->persistent || !l->bytes)
            continue;
        entry = find_entry(entries, count, graph->tensors[i].name);
        if (!entry)
            return error_set(error, -EINVAL,
                             "the graphs of a session differ: the first has no tensor '%s'",
                             graph->tensors[i].name);
        if (entry->bytes != l->bytes)
            return error_set(error, -EINVAL,
                             "the graphs of a session differ: the tensor '%s' takes %zu bytes in "
                             "the first and %zu in another",
                             graph->tensors[i].name, entry->bytes, l->bytes);
        p->placement->tensor_offset[i] = entry->offset;
    }
    return 0;
}

/* Fills in the offsets of transient tensors and of aliases. */
static void publish_offsets(struct planning *p, size_t transient_offset)
{
    const struct graph *graph = p->request->graph;

    for (int32_t i = 0; i < p->block_count; i++) {
        const struct block *block = &p->blocks[i];
        size_t *offset = block->number < graph->tensor_count
                             ? &p->placement->tensor_offset[block->number]
                             : &p->placement->workspace_offset[block->number - graph->tensor_count];

        *offset = transient_offset + block->offset;
    }
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (p->request->tensor_bytes[i] ||
            (p->request->tensor_alias && p->request->tensor_alias[i] >= 0))
            p->placement->tensor_offset[i] = p->placement->tensor_offset[find_representative(p, i)];
}

/* The step with the most live bytes among those in which the transient part reaches its end. */
static int32_t find_peak_step(const struct planning *p)
{
    int32_t peak = 0;
    size_t peak_bytes = 0;

    for (int32_t i = 0; i < p->block_count; i++) {
        const struct block *top = &p->blocks[i];

        if (top->offset + top->bytes != p->extent)
            continue;
        for (int32_t step = top->first; step <= top->last; step++) {
            size_t live = 0;

            for (int32_t k = 0; k < p->block_count; k++)
                if (p->blocks[k].first <= step && step <= p->blocks[k].last)
                    live += p->blocks[k].bytes;
            if (live > peak_bytes) {
                peak_bytes = live;
                peak = step;
            }
        }
    }
    return peak;
}

/* Adds the transient part, as it is at its peak, to the classes. A gap counts for the block behind
 * it, so that the classes add up to the arena. */
static void count_classes(const struct planning *p, size_t class_bytes[])
{
    int32_t peak = find_peak_step(p);
    size_t end = 0;

    for (int32_t i = 0; i < p->block_count; i++) {
        const struct block *block = &p->blocks[i];

        if (block->first <= peak && peak <= block->last) {
            class_bytes[block->kind] += block->offset + block->bytes - end;
            end = block->offset + block->bytes;
        }
    }
}

static int plan_arena(struct planning *plannings, int count, size_t staging_bytes,
                      struct memory_plan *plan, struct error *error)
{
    AUTO_FREE struct persistent_entry *entries =
        calloc(count_entries(plannings, count), sizeof *entries);
    const struct planning *longest = &plannings[0];
    size_t entry_count, shared_bytes = 0;
    int result;

    if (!entries)
        return error_no_memory(error, "the memory plan");
    for (int i = 0; i < count; i++) {
        result = plan_transient(&plannings[i], error);
        if (result)
            return result;
        if (plannings[i].extent > longest->extent)
            longest = &plannings[i];
    }
    plan_persistent(plannings, count, plan, entries, &entry_count);
    for (int i = 0; i < count; i++) {
        size_t bytes = align_up(plannings[i].request->shared_workspace, MEMORY_ALIGNMENT);

        result = match_persistent(&plannings[i], entries, entry_count, error);
        if (result)
            return result;
        plannings[i].placement->shared_workspace_offset = bytes ? plan->arena_bytes : SIZE_MAX;
        shared_bytes = bytes > shared_bytes ? bytes : shared_bytes;
    }
    plan->class_bytes[MEMORY_WORKSPACE] += shared_bytes;
    plan->arena_bytes += shared_bytes;
    plan->staging_offset = staging_bytes ? plan->arena_bytes : SIZE_MAX;
    plan->class_bytes[MEMORY_STAGING] += align_up(staging_bytes, MEMORY_ALIGNMENT);
    plan->arena_bytes += align_up(staging_bytes, MEMORY_ALIGNMENT);
    for (int i = 0; i < count; i++)
        publish_offsets(&plannings[i], plan->arena_bytes);
    count_classes(longest, plan->class_bytes);
    plan->arena_bytes += longest->extent;
    return 0;
}

int memory_plan_make(const struct memory_request *requests, int count, size_t staging_bytes,
                     struct memory_plan *plan, struct error *error)
{
    struct planning *plannings;
    int result;

    *plan = (struct memory_plan){.staging_offset = SIZE_MAX};
    if (count < 1)
        return error_set(error, -EINVAL, "a memory plan needs at least one graph");
    plannings = calloc((size_t)count, sizeof *plannings);
    plan->placements = calloc((size_t)count, sizeof *plan->placements);
    plan->placement_count = plan->placements ? count : 0;
    if (plannings && plan->placements) {
        for (int i = 0; i < count; i++) {
            plannings[i].request = &requests[i];
            plannings[i].placement = &plan->placements[i];
        }
        result = plan_arena(plannings, count, staging_bytes, plan, error);
        for (int i = 0; i < count; i++) {
            free(plannings[i].lifetimes);
            free(plannings[i].blocks);
        }
    } else {
        result = error_no_memory(error, "the memory plan");
    }
    free(plannings);
    if (result)
        memory_plan_release(plan);
    return result;
}

size_t memory_plan_append(struct memory_plan *plan, enum memory_class kind, size_t bytes)
{
    size_t offset = plan->arena_bytes;

    plan->class_bytes[kind] += align_up(bytes, MEMORY_ALIGNMENT);
    plan->arena_bytes += align_up(bytes, MEMORY_ALIGNMENT);
    return offset;
}

void memory_plan_release(struct memory_plan *plan)
{
    for (int i = 0; i < plan->placement_count; i++) {
        free(plan->placements[i].tensor_offset);
        free(plan->placements[i].workspace_offset);
    }
    free(plan->placements);
    *plan = (struct memory_plan){.staging_offset = SIZE_MAX};
}
