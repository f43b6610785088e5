/* profile_trace.c: profile_write_trace() writes complete events ("ph": "X") of Chromium's "Trace
 * Event Format" (2016), with times in microseconds.
 *
 * Lane i is thread i of process 1. An operator's events lie within its phase's event, and that lies
 * within the step's. An outer event is written before the events inside it. */
#include "proto/profile_view.h"

#include <errno.h>
#include <string.h>

/* Two hours: the longest event, so that the sum of all events of a message does not overflow. */
static const long long NANOSECONDS_MAX = 7200LL * 1000 * 1000 * 1000;

struct lane_event {
    long long node, task, begin, end; /* nanoseconds since the trace's beginning */
};

struct trace_writer {
    FILE *output;
    struct json_object *trace, *nodes, *runs;
    bool comma;
};

/* An element of an array; NULL: it is not an array, or is shorter. */
static struct json_object *item(struct json_object *array, size_t index)
{
    return json_object_is_type(array, json_type_array) ? json_object_array_get_idx(array, index)
                                                       : NULL;
}

static double time_of(struct json_object *run, size_t index)
{
    return json_object_get_double(item(run, index));
}

/* `name` and `arguments` are JSON already. */
static void write_event(struct trace_writer *writer, const char *name, const char *category,
                        size_t lane, double begin, double end, const char *arguments)
{
    fprintf(writer->output,
            "%s{\"name\":%s,\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"ts\":%.3f,"
            "\"dur\":%.3f%s%s}",
            writer->comma ? ",\n" : "\n", name, category, lane, begin * 1e-3, (end - begin) * 1e-3,
            arguments ? ",\"args\":" : "", arguments ? arguments : "");
    writer->comma = true;
}

static void write_names(struct trace_writer *writer, const char *process, size_t lanes)
{
    JSON_AUTO struct json_object *name = json_object_new_string(process);

    fprintf(writer->output,
            "\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":%s}}",
            json_text(name, NULL));
    for (size_t i = 0; i < lanes; i++)
        fprintf(writer->output,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%zu,"
                "\"args\":{\"name\":\"thread %zu\"}}",
                i, i);
    writer->comma = true;
}

static int parse_lane(const char *text, struct lane_event **events, size_t *count,
                      struct error *error)
{
    size_t blanks = 0, capacity;
    long long end = 0;

    for (const char *c = text; *c; c++)
        blanks += *c == ' ';
    capacity = (blanks + 4) / 4;
    *events = calloc(capacity, sizeof **events);
    if (!*events)
        return error_set_errno(error, -ENOMEM, "cannot read the trace");
    for (*count = 0; *text && *count < capacity; ++*count) {
        struct lane_event *event = &(*events)[*count];
        long long numbers[4];

        for (int i = 0; i < 4; i++) {
            char *behind;

            numbers[i] = strtoll(text, &behind, 10);
            if (behind == text || numbers[i] < -NANOSECONDS_MAX || numbers[i] > NANOSECONDS_MAX)
                return error_set(error, -EINVAL, "the profile's trace is not well formed");
            text = behind;
        }
        *event = (struct lane_event){numbers[0], numbers[1], end + numbers[2],
                                     end + numbers[2] + numbers[3]};
        end = event->end;
    }
    return 0;
}

static struct json_object *node_of(const struct trace_writer *writer,
                                   const struct lane_event *event)
{
    return event->node >= 0 ? item(writer->nodes, (size_t)event->node) : NULL;
}

/* The end of the first run that ends after `time`; a very late time if there is none. */
static double run_end(const struct trace_writer *writer, double time)
{
    for (size_t i = 0; i < json_object_array_length(writer->runs); i++) {
        double end = time_of(item(writer->runs, i), 2);

        if (time < end)
            return end;
    }
    return 1e300;
}

static void write_node_event(struct trace_writer *writer, size_t lane,
                             const struct lane_event *event)
{
    struct json_object *node = node_of(writer, event);
    JSON_AUTO struct json_object *arguments = json_object_new_object(), *name = NULL;
    char text[256];

    if (!node) {
        write_event(writer, "\"wait\"", "wait", lane, (double)event->begin, (double)event->end,
                    NULL);
        return;
    }
    snprintf(text, sizeof text, "%s %s", json_get_string(node, "layer", ""),
             json_get_string(node, "operator", ""));
    name = json_object_new_string(text);
    json_set_string(arguments, "shapes", json_get_string(node, "shapes", ""));
    json_set_double(arguments, "flops", json_get_double(node, "flops", 0));
    json_set_double(arguments, "bytes", json_get_double(node, "bytes", 0));
    json_set_int(arguments, "task", event->task);
    write_event(writer, json_text(name, NULL), "operator", lane, (double)event->begin,
                (double)event->end, json_text(arguments, NULL));
}

/* Writes the consecutive events of one phase of a run, including waits between them: first the
 * phase, then the events inside it. Returns the index after them. */
static size_t write_phase(struct trace_writer *writer, size_t lane, const struct lane_event *events,
                          size_t first, size_t count)
{
    struct json_object *node = node_of(writer, &events[first]);
    const char *phase = json_get_string(node, "phase", "");
    double limit = run_end(writer, (double)events[first].begin);
    size_t end = first + 1, last = first;
    JSON_AUTO struct json_object *name = json_object_new_string(phase);

    if (!node) {
        write_node_event(writer, lane, &events[first]);
        return end;
    }
    for (; end < count && (double)events[end].begin < limit; end++) {
        struct json_object *next = node_of(writer, &events[end]);

        if (next && strcmp(json_get_string(next, "phase", ""), phase) != 0)
            break;
        if (next)
            last = end;
    }
    write_event(writer, json_text(name, NULL), "phase", lane, (double)events[first].begin,
                (double)events[last].end, NULL);
    for (size_t i = first; i <= last; i++)
        write_node_event(writer, lane, &events[i]);
    return last + 1;
}

static int write_lane(struct trace_writer *writer, size_t lane, struct error *error)
{
    struct json_object *text = item(json_get(writer->trace, "lanes"), lane);
    AUTO_FREE struct lane_event *events = NULL;
    size_t count = 0;
    int r = parse_lane(text ? json_object_get_string(text) : "", &events, &count, error);

    for (size_t i = 0; r == 0 && i < count;)
        i = write_phase(writer, lane, events, i, count);
    return r;
}

/* Writes the training loop on the first lane: steps, and the work between them. */
static void write_loop(struct trace_writer *writer)
{
    struct json_object *spans = json_get(writer->trace, "spans");

    for (size_t i = 0; i < json_object_array_length(spans); i++) {
        struct json_object *span = item(spans, i);
        JSON_AUTO struct json_object *name =
            json_object_new_string(json_get_string(span, "phase", ""));

        write_event(writer, json_text(name, NULL), "loop", 0, json_get_double(span, "begin", 0),
                    json_get_double(span, "end", 0), NULL);
    }
    for (size_t i = 0; i < json_object_array_length(writer->runs); i++) {
        struct json_object *run = item(writer->runs, i);
        char name[64];

        snprintf(name, sizeof name, "\"step %.0f\"", time_of(run, 0));
        write_event(writer, name, "loop", 0, time_of(run, 1), time_of(run, 2), NULL);
    }
}

/* Writes the profile without its trace. */
static void write_tables(const struct trace_writer *writer, struct json_object *profile)
{
    bool comma = false;

    fprintf(writer->output, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{");
    json_object_object_foreach (profile, key, value) {
        if (strcmp(key, "trace") == 0)
            continue;
        JSON_AUTO struct json_object *name = json_object_new_string(key);

        fprintf(writer->output, "%s\n%s:%s", comma ? "," : "", json_text(name, NULL),
                value ? json_text(value, NULL) : "null");
        comma = true;
    }
    fprintf(writer->output, "}}\n");
}

int profile_write_trace(struct json_object *profile, FILE *output, struct error *error)
{
    struct json_object *trace = json_get(profile, "trace"), *lanes = json_get(trace, "lanes");
    struct trace_writer writer = {.output = output,
                                  .trace = trace,
                                  .nodes = json_get(trace, "nodes"),
                                  .runs = json_get(trace, "runs")};
    int r = 0;

    if (!json_object_is_type(lanes, json_type_array) ||
        !json_object_is_type(writer.nodes, json_type_array) ||
        !json_object_is_type(writer.runs, json_type_array) ||
        !json_object_is_type(json_get(trace, "spans"), json_type_array))
        return error_set(error, -EINVAL, "the profile has no trace");
    fprintf(output, "{\"traceEvents\":[");
    write_names(&writer, json_get_string(profile, "model", "traind"),
                json_object_array_length(lanes));
    write_loop(&writer);
    for (size_t i = 0; r == 0 && i < json_object_array_length(lanes); i++)
        r = write_lane(&writer, i, error);
    write_tables(&writer, profile);
    if (r == 0 && (fflush(output) != 0 || ferror(output)))
        r = error_set(error, -EIO, "cannot write the trace");
    return r;
}

int profile_write_trace_file(struct json_object *profile, const char *path, struct error *error)
{
    AUTO_FCLOSE FILE *file = fopen(path, "we");
    int r;

    if (!file)
        return error_set_errno(error, -errno, "cannot write the trace %s", path);
    r = profile_write_trace(profile, file, error);
    return r == -EIO ? error_set(error, r, "cannot write the trace %s", path) : r;
}
