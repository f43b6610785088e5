/* exit_record.c: see exit_record.h. */
#include "daemon/folder/exit_record.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

/* Above what any machine has, and small enough for sums and ratios. */
static const double bytes_max = 0x1p50, seconds_max = 1e12, lines_max = 1e15;

static double time_bound(struct json_object *record, const char *key, double earliest,
                         double latest)
{
    double time = json_get_double(record, key, latest);

    return !(time <= latest) ? latest : time < earliest ? fmin(earliest, latest) : time;
}

void exit_record_bound(struct json_object *record, double earliest, double now)
{
    const struct {
        const char *key;
        double least, most;
    } numbers[] = {
        {"exit_status", 0, 255},
        {"signal", 0, 64}, /* SIGRTMAX */
        {"cpu_seconds", 0, seconds_max},
        {"suspended_seconds", 0, seconds_max},
        {"peak_resident_bytes", 0, bytes_max},
        {"peak_memory_bytes", 0, bytes_max},
        {"spool_bytes", 0, DBL_MAX},
        {"lost_metrics", 0, lines_max},
    };
    double started = time_bound(record, "started", earliest, now);

    json_set_double(record, "started", started);
    json_set_double(record, "ended", time_bound(record, "ended", started, now));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double number = json_get_double(record, numbers[i].key, NAN);

        if (!(number >= numbers[i].least && number <= numbers[i].most))
            json_set(record, numbers[i].key, NULL);
    }
}
