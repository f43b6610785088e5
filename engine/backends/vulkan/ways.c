/* ways.c: see ways.h. */
#include "engine/backends/vulkan/ways.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* The number of the way that a text names, by its whole name or by what stands before a "-" in it;
 * -1: it names none of these. */
static int find_way(const struct ways *ways, const char *text)
{
    const size_t length = text ? strlen(text) : 0;

    for (int i = 0; length > 0 && i < ways->count; i++) {
        const char *name = ways->names[i];

        if (strncmp(name, text, length) == 0 && (name[length] == '\0' || name[length] == '-'))
            return i;
    }
    return -1;
}

/* Does the work so many times. Receives the seconds until that has ended. */
static int time_way(struct recorder *recorder, const struct ways *ways, int way, int runs,
                    double *seconds, struct error *error)
{
    struct recorder own = {.program = recorder->program};
    struct backend_device *device = recorder->program->device;
    int r = queue_begin(device, false, &own.commands, error);

    if (r < 0)
        return r;
    for (int i = 0; r == 0 && i < runs; i++) {
        r = ways->record(&own, ways->work, way, error);
        queue_barrier(device, own.commands); /* as between the nodes of a step */
    }
    if (r < 0) {
        queue_discard(device, own.commands);
        return r;
    }
    *seconds = clock_monotonic();
    r = queue_finish(device, own.commands, error);
    *seconds = clock_monotonic() - *seconds;
    return r;
}

/* The seconds of one run, the least of several measurements: each of so many runs that what it
 * takes to submit them counts little. INFINITY: a first look says that it is more than `most`. */
static int measure_way(struct recorder *recorder, const struct ways *ways, int way, double most,
                       double *least, struct error *error)
{
    enum { RUNS_MAX = 64, TIMES = 3 };
    const double wanted = 0.002;
    double seconds = 0;
    int runs, r = time_way(recorder, ways, way, 1, &seconds, error); /* compiles it, too */

    if (r == 0)
        r = time_way(recorder, ways, way, 1, &seconds, error);
    *least = INFINITY;
    if (r < 0 || seconds > most)
        return r;
    runs = seconds > wanted ? 1 : RUNS_MAX * seconds < wanted ? RUNS_MAX : (int)(wanted / seconds);
    for (int i = 0; r == 0 && i < TIMES; i++) {
        r = time_way(recorder, ways, way, runs, &seconds, error);
        *least = fmin(*least, seconds / runs);
    }
    return r;
}

static int measure_all(struct recorder *recorder, const struct ways *ways, int *best,
                       struct error *error)
{
    /* a way is left out if it takes `slow` times as long as the best, and `host` seconds more */
    const double slow = 2, host = 50e-6;
    double least = INFINITY, seconds;
    int r = 0;

    for (int i = 0; r == 0 && i < ways->count; i++) {
        r = measure_way(recorder, ways, i, slow * least + host, &seconds, error);
        if (r == 0 && seconds < least) {
            least = seconds;
            *best = i;
        }
    }
    return r;
}

int record_fastest(struct recorder *recorder, const struct ways *ways, struct error *error)
{
    struct backend_device *device = recorder->program->device;
    char key[CHOICES_KEY_MAX];
    int best = ways->count > 1 ? find_way(ways, device->tile) : 0, r = 0;

    if (best < 0 && device->measures) {
        ways->write_key(recorder, ways->work, key);
        best = find_way(ways, choice_table_find(device->choices, key));
        if (best < 0 && recorder->rehearses) {
            r = measure_all(recorder, ways, &best, error);
            if (r < 0)
                return r;
            best = find_way(ways, choice_table_add(device->choices, key, ways->names[best]));
        }
    }
    return ways->record(recorder, ways->work, best < 0 ? 0 : best, error);
}
