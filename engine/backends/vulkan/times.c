/* times.c: see times.h. */
#include "engine/backends/vulkan/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES_MAX = 8192, LABEL_MAX = 120, LINES_MAX = 60 };

struct launch_time {
    char label[LABEL_MAX]; /* "": the begin of a step */
    double seconds;
    int count;
};

struct vulkan_times {
    VkQueryPool pool;
    int count, steps;
    struct launch_time times[TIMES_MAX];
};

void times_open(struct backend_device *device)
{
    const char *wanted = getenv("TRAIND_VULKAN_TIMES");
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                        .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                        .queryCount = TIMES_MAX};

    if (!wanted || strcmp(wanted, "yes") != 0 ||
        !device->properties.limits.timestampComputeAndGraphics)
        return;
    device->times = calloc(1, sizeof *device->times);
    if (device->times && device->library.CreateQueryPool(device->device, &info, NULL,
                                                         &device->times->pool) != VK_SUCCESS) {
        free(device->times);
        device->times = NULL;
    }
}

static void write_time(struct recorder *recorder, const char *label)
{
    struct backend_device *device = recorder->program->device;
    struct vulkan_times *times = device->times;

    if (times->count == TIMES_MAX)
        return;
    snprintf(times->times[times->count].label, LABEL_MAX, "%s", label);
    device->library.CmdResetQueryPool(recorder->commands, times->pool, (uint32_t)times->count, 1);
    device->library.CmdWriteTimestamp(recorder->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                      times->pool, (uint32_t)times->count);
    times->count++;
}

void times_begin(struct recorder *recorder)
{
    struct vulkan_times *times = recorder->program->device->times;

    if (!times)
        return;
    recorder->is_timed = true;
    times->steps++;
    write_time(recorder, "");
}

void times_add(struct recorder *recorder, enum vulkan_shader shader, const uint32_t groups[3])
{
    const struct graph *graph = recorder->program->graph;
    char label[LABEL_MAX];

    if (!recorder->is_timed)
        return;
    snprintf(label, sizeof label, "%-26s %5" PRIu32 "x%" PRIu32 "x%" PRIu32 " %.60s",
             vulkan_shaders[shader].name, groups[0], groups[1], groups[2],
             recorder->node >= 0 ? graph->nodes[recorder->node].name : "batch");
    write_time(recorder, label);
}

/* ---- what they took -------------------------------------------------------------------------- */

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct launch_time *)a)->label, ((const struct launch_time *)b)->label);
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = ((const struct launch_time *)a)->seconds;
    const double y = ((const struct launch_time *)b)->seconds;

    return (x < y) - (x > y);
}

/* Reads the times of the last run of each step. Returns the seconds of all. */
static double read_times(struct backend_device *device)
{
    struct vulkan_times *times = device->times;
    uint64_t(*values)[2] = calloc(TIMES_MAX, sizeof *values);
    double total = 0;

    if (values && device->library.GetQueryPoolResults(
                      device->device, times->pool, 0, (uint32_t)times->count,
                      TIMES_MAX * sizeof *values, values, sizeof *values,
                      VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) >= 0)
        for (int i = 1; i < times->count; i++) {
            if (!times->times[i].label[0] || !values[i][1] || !values[i - 1][1])
                continue;
            times->times[i].seconds = (double)(values[i][0] - values[i - 1][0]) *
                                      device->properties.limits.timestampPeriod * 1e-9;
            times->times[i].count = 1;
            total += times->times[i].seconds;
        }
    free(values);
    return total;
}

/* Puts those of one label together; they are sorted by it. Returns how many there are then. */
static int join_times(struct launch_time *times, int count)
{
    int joined = 0;

    for (int i = 0; i < count; i++) {
        if (!times[i].count)
            continue;
        if (joined > 0 && strcmp(times[joined - 1].label, times[i].label) == 0) {
            times[joined - 1].seconds += times[i].seconds;
            times[joined - 1].count++;
        } else {
            times[joined++] = times[i];
        }
    }
    return joined;
}

void times_close(struct backend_device *device)
{
    struct vulkan_times *times = device->times;
    double total;
    int count;

    if (!times)
        return;
    total = read_times(device);
    qsort(times->times, (size_t)times->count, sizeof *times->times, compare_labels);
    count = join_times(times->times, times->count);
    qsort(times->times, (size_t)count, sizeof *times->times, compare_seconds);
    fprintf(stderr, "%s: %d steps were timed, %.3f ms in all; ms and launches of all of them:\n",
            device->name, times->steps, total * 1e3);
    for (int i = 0; i < count && i < LINES_MAX; i++)
        fprintf(stderr, "%9.3f %5d  %s\n", times->times[i].seconds * 1e3, times->times[i].count,
                times->times[i].label);
    device->library.DestroyQueryPool(device->device, times->pool, NULL);
    free(times);
    device->times = NULL;
}
