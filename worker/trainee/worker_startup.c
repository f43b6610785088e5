/* worker_startup.c: see worker_startup.h. */
#include "worker/trainee/worker_startup.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const startup_phase_names[] = {[STARTUP_EXEC] = "exec",
                                                  [STARTUP_SPECIFICATION] = "specification",
                                                  [STARTUP_DATA] = "data",
                                                  [STARTUP_DEVICE] = "device",
                                                  [STARTUP_PLAN] = "plan",
                                                  [STARTUP_MEMORY] = "memory",
                                                  [STARTUP_CHECKPOINT] = "checkpoint",
                                                  [STARTUP_FIRST_STEP] = "first_step"};
DEFINE_STRING_TABLE(startup_phase, enum startup_phase, startup_phase_names)

/* Seconds since the kernel started this process (proc(5), "starttime"); 0: not known. */
static double process_age(void)
{
    AUTO_FCLOSE FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long ticks = 0;
    char text[1024], *after;
    double age;

    if (!file || !fgets(text, sizeof text, file))
        return 0;
    after = strrchr(text, ')'); /* the program's name may contain any character */
    if (!after || sscanf(after + 1,
                         " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &ticks) != 1)
        return 0;
    age = clock_seconds(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return age > 0 ? age : 0;
}

void worker_startup_begin(struct worker_startup *startup, double taken_at)
{
    double now = clock_monotonic();
    double age = taken_at > 0 ? now - taken_at : process_age();

    *startup = (struct worker_startup){.begin = now - age,
                                       .mark = now,
                                       .phase = STARTUP_SPECIFICATION,
                                       .seconds[STARTUP_EXEC] = age};
}

void worker_startup_enter(struct worker_startup *startup, enum startup_phase phase)
{
    double now = clock_monotonic();

    startup->seconds[startup->phase] += now - startup->mark;
    startup->mark = now;
    startup->phase = phase;
}

bool worker_startup_finish(struct worker_startup *startup)
{
    if (startup->finished)
        return false;
    worker_startup_enter(startup, STARTUP_FIRST_STEP);
    startup->finished = true;
    return true;
}

struct json_object *worker_startup_json(const struct worker_startup *startup,
                                        const struct backend_device_info *info)
{
    struct json_object *json = json_object_new_object(), *parts = NULL;

    for (int i = 0; i < STARTUP_PHASES; i++)
        if (startup->finished || i < (int)startup->phase)
            json_set_double(json, startup_phase_to_string((enum startup_phase)i),
                            startup->seconds[i]);
    json_set_double(json, "total", startup->mark - startup->begin);
    for (int i = 0; i < BACKEND_OPENING_PARTS && info->opening[i].part; i++) {
        if (!parts)
            parts = json_object_new_object();
        json_set_double(parts, info->opening[i].part, info->opening[i].seconds);
    }
    if (parts)
        json_set(json, "device_opening", parts);
    return json;
}

void worker_startup_print(const struct worker_startup *startup,
                          const struct backend_device_info *info)
{
    fputs("start:", stderr);
    for (int i = 0; i < STARTUP_PHASES; i++)
        fprintf(stderr, " %s %.1f ms,", startup_phase_to_string((enum startup_phase)i),
                startup->seconds[i] * 1e3);
    fprintf(stderr, " together %.1f ms", (startup->mark - startup->begin) * 1e3);
    for (int i = 0; i < BACKEND_OPENING_PARTS && info->opening[i].part; i++)
        fprintf(stderr, "%s%s %.1f ms", i ? ", " : "; of the device: ", info->opening[i].part,
                info->opening[i].seconds * 1e3);
    fputc('\n', stderr);
}
