/* suspend_main.c: traind-suspend, the process that asks NVIDIA's driver to take the GPUs from a
 * job's processes and to give them back. The shim starts one for each request, as the job's user:
 * the driver reaches a process through its folder in /proc, which that user may open, and neither
 * the daemon nor the shim loads the driver. It prints one line of JSON. */
#include "base/log.h"
#include "proto/json.h"
#include "worker/suspend/gpu_pairs.h"
#include "worker/suspend/suspend.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: traind-suspend suspend LIBRARY TIMEOUT_MS PID...\n"
    "       traind-suspend resume LIBRARY [OLD_UUID=NEW_UUID[,...]|-] PID...\n"
    "Takes the GPUs from processes without ending them, or gives them back. traind-shim starts it.\n";

static int print_report(const struct suspend_report *report)
{
    static const char *const names[] = {
        [SUSPEND_DONE] = "done", [SUSPEND_KEPT] = "kept", [SUSPEND_LOST] = "lost"};
    struct json_object *json = json_object_new_object();

    json_set_string(json, "outcome", names[report->outcome]);
    json_set_int(json, "contexts", report->contexts);
    if (report->message[0])
        json_set_string(json, "message", report->message);
    puts(json_text(json, NULL));
    json_object_put(json);
    return report->outcome == SUSPEND_DONE ? 0 : 1;
}

static int read_pids(char *const *arguments, int count, pid_t *pids)
{
    for (int i = 0; i < count; i++) {
        char *end;
        long pid = strtol(arguments[i], &end, 10);

        if (*end || end == arguments[i] || pid <= 0 || pid > INT_MAX)
            return -EINVAL;
        pids[i] = (pid_t)pid;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct suspend_report report = {.outcome = SUSPEND_KEPT};
    struct cuda_gpu_pair pairs[GPU_PAIRS_MAX];
    bool resumes = argc > 1 && strcmp(argv[1], "resume") == 0;
    struct cuda_driver driver;
    struct error error;
    int pair_count = 0, count = argc - 4;
    pid_t *pids;

    log_configure("traind-suspend", LOG_LEVEL_INFO);
    pids = count > 0 ? calloc((size_t)count, sizeof *pids) : NULL;
    if (!pids || (!resumes && strcmp(argv[1], "suspend") != 0) ||
        read_pids(argv + 4, count, pids) < 0 ||
        (resumes && (pair_count = gpu_pairs_parse(argv[3], pairs)) < 0)) {
        fputs(usage, stderr);
        free(pids);
        return 2;
    }
    /* the driver is to list all GPUs, whatever the job is shown */
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (cuda_driver_load(argv[2], &driver, &error) < 0)
        snprintf(report.message, sizeof report.message, "%.500s", error.text);
    else if (resumes)
        suspend_resume(&driver, pids, count, pairs, pair_count, &report);
    else
        suspend_processes(&driver, pids, count, (unsigned int)strtoul(argv[3], NULL, 10), &report);
    free(pids);
    return print_report(&report);
}
