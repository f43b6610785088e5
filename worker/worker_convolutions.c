/* worker_convolutions.c: see worker_convolutions.h. */
#include "worker/worker_convolutions.h"

#include "base/log.h"
#include "engine/train/convolutions.h"
#include "worker/worker_kept.h"

#include <stdio.h>
#include <string.h>

static const char kind[] = "convolutions";

/* A measured time must be shorter by so much to be preferred, so that chance decides nothing. */
static const double margin = 0.8;

/* Larger batches are measured as these; ResNet-18's layers take 4 s, once. */
enum { BATCH_MAX = 64, KEY_BYTES = 96, VERSION = 1 };

static void format_key(const struct convolution_shape *shape, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "%lldx%lldx%lldx%lld-%lld-p%dx%d%s", (long long)shape->batch,
             (long long)shape->channels, (long long)shape->height, (long long)shape->width,
             (long long)shape->out_channels, shape->padding[0], shape->padding[1],
             shape->bias ? "-bias" : "");
}

/* {"chosen": [seconds of each direction], "direct": [the same]} */
static struct json_object *times_json(const struct convolution_times *times)
{
    const double *const lists[] = {times->chosen, times->direct};
    static const char *const names[] = {"chosen", "direct"};
    struct json_object *json = json_object_new_object();

    for (int i = 0; i < 2; i++) {
        struct json_object *list = json_object_new_array();

        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            json_object_array_add(list, json_object_new_double(lists[i][d]));
        json_set(json, names[i], list);
    }
    return json;
}

static double time_of(struct json_object *times, const char *name, int direction)
{
    struct json_object *list = json_get(times, name);

    return json_object_get_double(list ? json_object_array_get_idx(list, (size_t)direction) : NULL);
}

/* The layer's digit: device_choose_convolutions() of backend.h. */
static int digit_of(struct json_object *times)
{
    int digit = 0;

    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        double chosen = time_of(times, "chosen", d), direct = time_of(times, "direct", d);

        if (direct > 0 && direct < margin * chosen)
            digit |= 1 << d;
    }
    return digit;
}

/* The kept times of the shape, or new ones, which `kept` takes. NULL: there is no choice, or it
 * cannot be measured. */
static struct json_object *find_times(struct worker_setup *setup, struct json_object *kept,
                                      const struct convolution_shape *shape, bool *measured)
{
    struct convolution_times times;
    struct error error = {0};
    char key[KEY_BYTES];

    if (!shape->has_choice)
        return NULL;
    format_key(shape, key);
    if (!json_get(kept, key)) {
        if (convolution_measure(setup->backend, setup->device, shape, &times, &error) < 0) {
            log_warning("convolution %s: %s", key, error.text);
            return NULL;
        }
        json_set(kept, key, times_json(&times));
        *measured = true;
    }
    return json_get(kept, key);
}

static int list_layers(struct worker_setup *setup, struct convolution_shape *shapes, int most,
                       int *count, struct error *error)
{
    int64_t batch = setup->spec.training.batch;
    struct graph graph;
    int r;

    graph_init(&graph, batch > 0 && batch < BATCH_MAX ? batch : BATCH_MAX, true);
    r = worker_setup_build(setup, &graph, error);
    if (r == 0)
        *count = convolutions_list(setup->backend, setup->device, &graph, shapes, most);
    graph_release(&graph);
    return r;
}

int worker_convolutions_choose(struct worker_setup *setup, struct error *error)
{
    struct convolution_shape shapes[CONVOLUTION_CHOICES_MAX - 1];
    char *digits = setup->spec.training.direct_convolutions;
    JSON_AUTO struct json_object *kept = NULL;
    bool measured = false;
    char path[PATH_MAX];
    int count = 0, r = 0, used = 0;

    if (convolutions_have_choice(setup->backend) && setup->precision.type == TENSOR_FLOAT32)
        r = list_layers(setup, shapes, CONVOLUTION_CHOICES_MAX - 1, &count, error);
    if (r < 0 || !count)
        return r;
    kept = worker_kept_read(kind, VERSION, &setup->device_info);
    if (!kept)
        kept = worker_kept_begin(VERSION, &setup->device_info);
    for (int i = 0; i < count; i++) {
        struct json_object *times = find_times(setup, kept, &shapes[i], &measured);
        int digit = times ? digit_of(times) : 0;

        digits[i] = (char)('0' + digit);
        if (digit)
            used = i + 1;
    }
    digits[used] = '\0';
    if (measured)
        worker_kept_write(kind, &setup->device_info, kept, path);
    return 0;
}
