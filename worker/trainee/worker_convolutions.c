/* worker_convolutions.c: see worker_convolutions.h. */
#include "worker/trainee/worker_convolutions.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/train/convolutions.h"
#include "worker/trainee/worker_child.h"
#include "worker/trainee/worker_kept.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kind[] = "convolutions";
static const char together[] = "together";

/* Larger batches are measured as BATCH_MAX. Once a plan's measurements have taken seconds_max, the
 * device decides about the remaining shapes until a later plan measures them. */
enum { BATCH_MAX = 64, KEY_BYTES = 160, VERSION = 6 };
static const double seconds_max = 20;

struct measurements {
    struct worker_setup *setup;
    struct json_object *kept; /* {key: {letter: [seconds of each direction]}} */
    struct backend_device *device;
    bool measures; /* whether shapes that are not kept are measured */
    bool lacks;    /* some shape was neither kept nor measured */
    double seconds;
};

/* Formats everything, besides the device, that decides the methods and their times. The methods
 * also depend on the whole model, through its parts. */
static void format_key(const struct convolution_shape *shape, char key[KEY_BYTES])
{
    const struct conv_attributes *a = &shape->attributes;

    snprintf(key, KEY_BYTES,
             "%s-%dparts-%lldx%lldx%lldx%lld-%lld-k%dx%d-s%dx%d-d%dx%d-p%dx%d-g%d%s%s",
             shape->methods, shape->parts, (long long)shape->batch, (long long)shape->channels,
             (long long)shape->height, (long long)shape->width, (long long)shape->out_channels,
             a->kernel[0], a->kernel[1], a->stride[0], a->stride[1], a->dilation[0], a->dilation[1],
             a->padding[0], a->padding[1], a->groups, shape->bias ? "-bias" : "",
             shape->samples ? "-samples" : "");
}

/* Times as JSON; null: too slow to be measured. */
static struct json_object *times_json(const struct convolution_times *times)
{
    struct json_object *json = json_object_new_object();

    for (int i = 0; i < times->count; i++) {
        struct json_object *list = json_object_new_array();

        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            json_object_array_add(list, isfinite(times->ways[i].seconds[d])
                                            ? json_object_new_double(times->ways[i].seconds[d])
                                            : NULL);
        json_set(json, (char[]){times->ways[i].letter, '\0'}, list);
    }
    json_set(json, together, json_object_new_string(times->together));
    return json;
}

/* Reads the times of one method; false: not a list with a time or null for each direction. */
static bool read_way(struct json_object *list, double seconds[CONVOLUTION_DIRECTIONS])
{
    if (!json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) != CONVOLUTION_DIRECTIONS)
        return false;
    for (size_t d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        struct json_object *time = json_object_array_get_idx(list, d);
        double value = json_object_get_double(time);

        if (time && !json_object_is_type(time, json_type_double) &&
            !json_object_is_type(time, json_type_int))
            return false;
        seconds[d] = time && value > 0 ? value : INFINITY;
    }
    return true;
}

/* Reads a letter of the shape's methods for each direction. */
static bool read_together(struct json_object *text, const struct convolution_shape *shape,
                          char letters[CONVOLUTION_DIRECTIONS + 1])
{
    const char *own =
        json_object_is_type(text, json_type_string) ? json_object_get_string(text) : "";

    if (strlen(own) != CONVOLUTION_DIRECTIONS)
        return false;
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
        if (own[d] != '-' && !strchr(shape->methods + 1, own[d]))
            return false;
    memcpy(letters, own, CONVOLUTION_DIRECTIONS + 1);
    return true;
}

/* Reads the times of the shape's methods, which must include the device's own; false: the file is
 * damaged. */
static bool read_times(struct json_object *json, const struct convolution_shape *shape,
                       struct convolution_times *times)
{
    bool has_own = false;

    *times = (struct convolution_times){0};
    if (!json_object_is_type(json, json_type_object))
        return false;
    if (!read_together(json_get(json, together), shape, times->together))
        return false;
    json_object_object_foreach (json, letter, list) {
        bool is_own = strcmp(letter, "-") == 0;

        if (strcmp(letter, together) == 0)
            continue;
        if (times->count == CONVOLUTION_METHODS_MAX || strlen(letter) != 1 ||
            (!is_own && !strchr(shape->methods + 1, *letter)) ||
            !read_way(list, times->ways[times->count].seconds))
            return false;
        times->ways[times->count++].letter = *letter;
        has_own = has_own || is_own;
    }
    return has_own;
}

/* Finds the kept times of the shape, or measures and keeps them. */
static int find_times(void *context, const struct convolution_shape *shape,
                      struct convolution_times *times)
{
    struct measurements *measurements = context;
    struct error error = {0};
    char key[KEY_BYTES];
    double begin = clock_monotonic();
    int r;

    format_key(shape, key);
    if (read_times(json_get(measurements->kept, key), shape, times))
        return 0;
    measurements->lacks = true;
    if (!measurements->measures || measurements->seconds > seconds_max)
        return -ERROR_UNSUPPORTED;
    r = convolution_measure(measurements->setup->backend, measurements->device, shape, times,
                            &error);
    measurements->seconds += clock_monotonic() - begin;
    if (r < 0) {
        log_warning("convolution %s: %s", key, error.text);
        return r;
    }
    json_set(measurements->kept, key, times_json(times));
    return 0;
}

static int choose(struct measurements *measurements, struct error *error)
{
    struct worker_setup *setup = measurements->setup;
    int64_t batch = setup->spec.training.batch;
    struct graph graph;
    int r;

    graph_init(&graph, batch > 0 && batch < BATCH_MAX ? batch : BATCH_MAX, true);
    r = worker_setup_build(setup, &graph, error);
    if (r == 0)
        convolutions_choose(setup->backend, measurements->device, &graph, find_times, measurements,
                            setup->spec.training.direct_convolutions);
    graph_release(&graph);
    return r;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Runs in the child. It leaves the parent's device open, whose threads the child does not have. */
static struct json_object *measure_here(void *data)
{
    struct measurements *measurements = data;
    struct worker_setup *setup = measurements->setup;
    struct backend_device_config config = {.threads = setup->device_info.threads};
    struct error error;

    measurements->measures = true;
    return setup->backend->device_open(&config, &measurements->device, &error) < 0 ||
                   choose(measurements, &error) < 0
               ? NULL
               : measurements->kept;
}

/* Measures in a child process: otherwise the code that libraries generate for all trials would
 * stay in this process and distort the plan's memory. Returns the kept times with the new ones,
 * or NULL. */
static struct json_object *measure(struct measurements *measurements)
{
    int status;
    struct json_object *kept = worker_child_ask(measure_here, measurements, &status);

    if (!kept)
        log_warning("the convolutions could not be measured; the device does them as it thinks "
                    "best");
    return kept;
}

int worker_convolutions_choose(struct worker_setup *setup, bool measures, struct error *error)
{
    JSON_AUTO struct json_object *kept = NULL, *measured = NULL;
    struct measurements measurements = {.setup = setup, .device = setup->device};
    char path[PATH_MAX];
    int r;

    if (!convolutions_have_choice(setup->backend) || setup->precision.type != TENSOR_FLOAT32)
        return 0;
    kept = worker_kept_read(kind, VERSION, &setup->device_info);
    if (!kept)
        kept = worker_kept_begin(VERSION, &setup->device_info);
    measurements.kept = kept;
    r = choose(&measurements, error);
    if (r < 0 || !measurements.lacks || !measures)
        return r;
    measured = measure(&measurements);
    if (!measured)
        return 0;
    measurements.kept = measured;
    worker_kept_write(kind, &setup->device_info, measured, path);
    return choose(&measurements, error);
}
