/* past.c: see past.h. */
#include "client/top/past.h"

#include "proto/json.h"

#include <math.h>
#include <string.h>

enum {
    PAST_SECONDS = MEASUREMENTS_SLOT_SECONDS * MEASUREMENTS_SLOTS,
    ANSWER_MILLISECONDS = 1000 /* keys are not read meanwhile */
};

/* Puts the buckets of one quantity, of which 1 is `whole`, into the measurements. */
static void series_put(struct measurements *measurements, const char *device,
                       struct json_object *series, enum measured_value value, double whole,
                       double seconds, double now)
{
    struct json_object *times = json_get(series, "times"), *means = json_get(series, "means");
    size_t count = times && means ? json_object_array_length(times) : 0;
    double values[MEASURED_VALUES];

    if (!(whole > 0) || !(seconds > 0) || count > json_object_array_length(means))
        return;
    for (size_t i = 0; i < MEASURED_VALUES; i++)
        values[i] = NAN;
    for (size_t i = 0; i < count; i++) {
        double from = json_object_get_double(json_object_array_get_idx(times, i));
        double to =
            fmin(from + seconds, now) - MEASUREMENTS_SLOT_SECONDS; /* the next one begins then */

        values[value] = json_object_get_double(json_object_array_get_idx(means, i)) / whole;
        measurements_put(measurements, device, from, fmax(from, to), values);
    }
}

/* False: the daemon does not answer, or keeps no history. */
static bool device_load(struct invocation *invocation, struct json_object *device, double now,
                        struct measurements *measurements)
{
    struct json_object *parameters = json_object_new_object(), *all;
    const char *name = json_get_string(device, "name", "?");
    struct varlink_reply reply;
    struct error error;
    double seconds;

    json_set_string(parameters, "device", name);
    json_set_double(parameters, "from", now - PAST_SECONDS);
    json_set_double(parameters, "to", now);
    if (connection_call_quietly(invocation, ANSWER_MILLISECONDS, "History", parameters, &reply,
                                &error) < 0)
        return false;
    seconds = json_get_double(reply.parameters, "seconds", 0);
    all = json_get(reply.parameters, "series");
    for (size_t i = 0; all && i < json_object_array_length(all); i++) {
        struct json_object *series = json_object_array_get_idx(all, i);
        const char *quantity = json_get_string(series, "quantity", "");

        if (strcmp(quantity, "utilisation") == 0)
            series_put(measurements, name, series, MEASURED_UTILISATION, 1, seconds, now);
        else if (strcmp(quantity, "memory_used") == 0)
            series_put(measurements, name, series, MEASURED_MEMORY,
                       json_get_double(device, "memory_total", 0), seconds, now);
    }
    varlink_reply_release(&reply);
    return true;
}

void past_load(struct invocation *invocation, struct json_object *devices, double now,
               struct measurements *measurements)
{
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++)
        if (!device_load(invocation, json_object_array_get_idx(devices, i), now, measurements))
            return;
}
