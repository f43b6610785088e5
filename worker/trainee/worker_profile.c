/* worker_profile.c: see worker_profile.h. The time of an operator is the sum over all lanes,
 * divided by the number of lanes that did any work. Together with waiting and idle time these add
 * up to the steps' time. */
#include "worker/trainee/worker_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Winograd's algorithm F(4x4, 3x3) needs 36 products for 16 results, and the definition 144. Its
 * transforms are not counted, because a ceiling is a lower bound of the work. */
#define WINOGRAD_ARITHMETIC 0.25

/* A row of a table: an operator, or a layer. */
struct row {
    char name[GRAPH_NAME_MAX];
    int64_t calls;
    double seconds, flops, bytes;
    double arithmetic, memory; /* seconds at the ceilings, of the nodes that each of them bounds */
};

struct rows {
    struct row *row; /* room for one row per node */
    int count;
};

static bool is_depthwise(const struct graph_node *node)
{
    return graph_node_operator(node)->cost_class == COST_CONVOLUTION &&
           node->attributes.conv.groups > 1;
}

/* For example "conv2d_backward_data" or "depthwise_conv2d". */
static void operator_name(const struct graph_node *node, char name[GRAPH_NAME_MAX])
{
    snprintf(name, GRAPH_NAME_MAX, "%s%s", is_depthwise(node) ? "depthwise_" : "",
             graph_op_to_string(node->op));
}

/* The layer's name: of an update's node, which has its parameter's name, the part before the last
 * dot. */
static void layer_name(const struct graph_node *node, char name[GRAPH_NAME_MAX])
{
    char *dot;

    snprintf(name, GRAPH_NAME_MAX, "%s", node->name);
    dot = node->phase == GRAPH_UPDATE ? strrchr(name, '.') : NULL;
    if (dot)
        *dot = '\0';
}

static struct row *row_for(struct rows *rows, const char *name)
{
    for (int i = 0; i < rows->count; i++)
        if (strcmp(rows->row[i].name, name) == 0)
            return &rows->row[i];
    snprintf(rows->row[rows->count].name, GRAPH_NAME_MAX, "%s", name);
    return &rows->row[rows->count++];
}

/* The part of the definition's operations that the node's method really needs. */
static double arithmetic_done(const struct profile *profile, int32_t node)
{
    struct node_description description;

    session_describe_node(profile->session, profile->graph, node, &description);
    return strstr(description.method, "wino") ? WINOGRAD_ARITHMETIC : 1;
}

/* `done`: see arithmetic_done(). */
static void row_add(struct row *row, const struct profile_sum *sum, int lanes,
                    const struct cost *cost, double done, enum tensor_type type,
                    const struct calibration *calibration)
{
    double calls = (double)sum->calls, arithmetic = 0, memory = 0;

    if (calibration && cost->kernels > 0) {
        arithmetic = done * cost->flops / calibration_flops(calibration, type) * calls;
        memory = cost->bytes / calibration_bandwidth(calibration, cost->bytes) * calls;
    }

    row->calls += sum->calls;
    row->seconds += (double)sum->nanoseconds * 1e-9 / lanes;
    row->flops += cost->flops * calls;
    row->bytes += cost->bytes * calls;
    if (arithmetic > memory)
        row->arithmetic += arithmetic;
    else
        row->memory += memory;
}

static int compare_rows(const void *a, const void *b)
{
    double left = ((const struct row *)a)->seconds, right = ((const struct row *)b)->seconds;

    return (left < right) - (left > right);
}

static struct json_object *rows_json(struct rows *rows, const char *key, double total)
{
    struct json_object *list = json_object_new_array();

    qsort(rows->row, (size_t)rows->count, sizeof *rows->row, compare_rows);
    for (int i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        struct json_object *json = json_object_new_object();
        double ceiling = row->arithmetic + row->memory;

        json_set_string(json, key, row->name);
        json_set_int(json, "calls", row->calls);
        json_set_double(json, "seconds", row->seconds);
        json_set_double(json, "share", total > 0 ? row->seconds / total : 0);
        json_set_double(json, "flops", row->flops);
        json_set_double(json, "bytes", row->bytes);
        json_set_string(json, "bound",
                        ceiling <= 0                    ? NULL
                        : row->arithmetic > row->memory ? "arithmetic"
                                                        : "memory");
        json_set(json, "ceiling_share",
                 ceiling > 0 && row->seconds > 0 ? json_new_double(ceiling / row->seconds) : NULL);
        json_object_array_add(list, json);
    }
    return list;
}

/* Adds the tables of operators, of layers, and of time outside operators. */
static int add_tables(struct json_object *json, const struct profile *profile,
                      const struct profile_totals *totals, const struct calibration *calibration,
                      struct error *error)
{
    const struct graph *graph = profile->graph;
    size_t nodes = (size_t)graph->node_count;
    AUTO_FREE struct row *memory = calloc(2 * nodes + 1, sizeof *memory);
    struct rows operators = {memory, 0}, layers = {memory + nodes, 0};
    double total = (double)totals->nanoseconds * 1e-9, lanes = totals->lanes ? totals->lanes : 1;

    if (!memory)
        return error_set_errno(error, -ENOMEM, "cannot sum the profile up");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        struct cost cost = graph_node_cost(graph, node);
        double done;
        char name[GRAPH_NAME_MAX];

        if (totals->nodes[i].calls == 0) /* another node does its work */
            continue;
        done = arithmetic_done(profile, i);
        operator_name(node, name);
        row_add(row_for(&operators, name), &totals->nodes[i], totals->lanes, &cost, done,
                graph->compute_type, calibration);
        layer_name(node, name);
        row_add(row_for(&layers, name), &totals->nodes[i], totals->lanes, &cost, done,
                graph->compute_type, calibration);
    }
    json_set(json, "operators", rows_json(&operators, "operator", total));
    json_set(json, "layers", rows_json(&layers, "layer", total));
    json_set_double(json, "waiting_seconds", (double)totals->waiting * 1e-9 / lanes);
    json_set_double(json, "idle_seconds", (double)totals->idle * 1e-9 / lanes);
    return 0;
}

/* ---- the trace ---- */

/* Writes, for example, "64x128, 128x10 -> 64x10". */
static void shapes_format(const struct graph *graph, const struct graph_node *node, char *text,
                          size_t size)
{
    size_t used = 0;

    for (int i = 0; i < node->input_count + node->output_count && used < size; i++) {
        bool input = i < node->input_count;
        int32_t tensor = input ? node->input[i] : node->output[i - node->input_count];
        char shape[128];

        if (tensor < 0)
            continue;
        graph_shape_format(&graph->tensors[tensor].shape, shape, sizeof shape);
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == node->input_count ? (used ? " -> " : "-> ")
                                 : used                 ? ", "
                                                        : "",
                                 shape);
    }
}

static struct json_object *nodes_json(const struct graph *graph)
{
    struct json_object *list = json_object_new_array();

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        struct json_object *json = json_object_new_object();
        struct cost cost = graph_node_cost(graph, node);
        char text[512] = "";

        json_set_string(json, "layer", node->name);
        operator_name(node, text);
        json_set_string(json, "operator", text);
        json_set_string(json, "phase", graph_phase_to_string(node->phase));
        shapes_format(graph, node, text, sizeof text);
        json_set_string(json, "shapes", text);
        json_set_double(json, "flops", cost.flops);
        json_set_double(json, "bytes", cost.bytes);
        json_object_array_add(list, json);
    }
    return list;
}

/* A lane's events before `end` as numbers, four per event: node (-1: waiting), task, nanoseconds
 * since the previous event, duration in nanoseconds. */
static struct json_object *lane_json(const struct profile_lane *lane, int64_t origin, int64_t end)
{
    struct json_object *json = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    for (int64_t i = 0; i < lane->count && lane->events[i].begin < end; i++) {
        const struct profile_event *event = &lane->events[i];

        fprintf(stream, "%s%d %d %lld %lld", i ? " " : "", (int)event->node, (int)event->task,
                (long long)(event->begin - origin), (long long)(event->end - event->begin));
        origin = event->end;
    }
    if (fclose(stream) == 0)
        json = json_object_new_string_len(text, (int)size);
    free(text);
    return json;
}

static struct json_object *numbers_json(const int64_t *numbers, int count)
{
    struct json_object *list = json_object_new_array();

    for (int i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(numbers[i]));
    return list;
}

/* How many of the first runs have events that fit into `bytes`. */
static int runs_that_fit(const struct profile *profile, size_t bytes)
{
    enum { EVENT_BYTES = 28 }; /* "1234 7 123456789 123456789 " */
    int64_t events = 0;

    for (int i = 0; i < profile->lane_count; i++)
        events += profile->recorder.lanes[i].count;
    if (events == 0 || (size_t)events <= bytes / EVENT_BYTES)
        return profile->run_count;
    return (int)((double)profile->run_count * (double)bytes / (double)(events * EVENT_BYTES));
}

/* Makes the trace. The tables already use a part of `most_bytes`. */
static struct json_object *trace_json(const struct profile *profile, struct json_object *tables,
                                      size_t most_bytes)
{
    enum { RUN_BYTES = 512 }; /* of one run with its spans */
    struct json_object *trace = json_object_new_object(), *runs = json_object_new_array();
    struct json_object *spans = json_object_new_array(), *lanes = json_object_new_array();
    struct json_object *nodes = nodes_json(profile->graph);
    size_t used = (size_t)profile->run_count * RUN_BYTES, length;
    int count;
    int64_t origin, end;

    json_text(tables, &length);
    used += length;
    json_text(nodes, &length);
    used += length;
    count = used < most_bytes ? runs_that_fit(profile, most_bytes - used) : 0;
    origin = count ? profile->runs[0].begin : 0;
    end = count ? profile->runs[count - 1].end : 0;
    if (count && profile->span_count && profile->spans[0].begin < origin)
        origin = profile->spans[0].begin;
    for (int i = 0; i < count; i++) {
        const struct profile_run *run = &profile->runs[i];

        json_object_array_add(
            runs, numbers_json((int64_t[]){run->batch, run->begin - origin, run->end - origin}, 3));
    }
    for (int i = 0; i < profile->span_count && profile->spans[i].begin < end; i++) {
        const struct profile_span *span = &profile->spans[i];
        struct json_object *json = json_object_new_object();

        json_set_string(json, "phase", profile_phase_to_string(span->phase));
        json_set_int(json, "begin", span->begin - origin);
        json_set_int(json, "end", span->end - origin);
        json_object_array_add(spans, json);
    }
    for (int i = 0; i < profile->lane_count && count; i++)
        json_object_array_add(lanes, lane_json(&profile->recorder.lanes[i], origin, end));
    json_set(trace, "runs", runs);
    json_set(trace, "spans", spans);
    json_set(trace, "lanes", lanes);
    if (used >= most_bytes) { /* only with several thousand nodes */
        json_object_put(nodes);
        nodes = json_object_new_array();
    }
    json_set(trace, "nodes", nodes);
    return trace;
}

/* ---- whole profile ---- */

static struct json_object *phases_json(const struct profile *profile)
{
    struct json_object *json = json_object_new_object();

    for (int i = 0; i < PROFILE_PHASE_COUNT; i++)
        json_set_double(json, profile_phase_to_string((enum profile_phase)i), profile->seconds[i]);
    return json;
}

struct json_object *worker_profile_json(const struct worker_setup *setup,
                                        const struct profile *profile,
                                        const struct calibration *calibration, size_t most_bytes,
                                        struct error *error)
{
    struct json_object *json = json_object_new_object(), *told = NULL;
    struct profile_totals totals;
    int r = profile_sum_up(profile, &totals, error);

    if (r == 0)
        r = add_tables(json, profile, &totals, calibration, error);
    if (r < 0) {
        json_object_put(json);
        free(totals.nodes);
        return NULL;
    }
    json_set_string(json, "device", setup->device_info.name);
    json_set_string(json, "model", setup->device_info.model);
    json_set_int(json, "threads", profile->lane_count);
    json_set_int(json, "threads_used", totals.lanes);
    json_set_string(json, "precision", tensor_type_to_string(setup->precision.type));
    json_set_int(json, "batch_size", profile->graph->batch);
    json_set_int(json, "batches", profile->run_count);
    json_set_int(json, "first_batch", profile->run_count ? profile->runs[0].batch : 0);
    json_set_double(json, "seconds", (double)totals.nanoseconds * 1e-9);
    json_set(json, "phases", phases_json(profile));
    if (calibration) {
        told = json_object_new_object();
        json_set_double(told, "flops_per_second",
                        calibration_flops(calibration, profile->graph->compute_type));
        json_set_double(told, "bytes_per_second", calibration_bandwidth(calibration, 1e18));
        json_set_double(told, "cache_bytes_per_second", calibration_bandwidth(calibration, 1));
    }
    json_set(json, "ceilings", told);
    json_set(json, "trace", trace_json(profile, json, most_bytes));
    free(totals.nodes);
    return json;
}
