/* cores.c: see cores.h. Control groups of version 2 only: a file cpu.max holds "max PERIOD" or
 * "QUOTA PERIOD" in microseconds. */
#include "engine/backends/cpu/cores.h"

#include "base/cleanup.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The cores that one group's cpu.max grants, infinity without a limit. */
static double group_limit(const char *root, const char *group)
{
    char path[2 * PATH_MAX];
    double quota, period;
    AUTO_FCLOSE FILE *file = NULL;

    snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
    file = fopen(path, "re");
    if (!file || fscanf(file, "%lf %lf", &quota, &period) != 2 || period <= 0)
        return INFINITY;
    return quota / period;
}

/* The smallest limit of the process's group and those above it. */
static double cgroup_limit(const char *root, const char *membership)
{
    char line[PATH_MAX];
    double limit = INFINITY;
    AUTO_FCLOSE FILE *file = fopen(membership, "re");

    while (file && fgets(line, sizeof(line), file)) {
        char *group = line + 3;

        if (strncmp(line, "0::", 3))
            continue;
        group[strcspn(group, "\n")] = '\0';
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
            *end = '\0';
            limit = fmin(limit, group_limit(root, group));
        }
    }
    return limit;
}

int cores_usable(const char *cgroup_root, const char *membership)
{
    double limit = cgroup_limit(cgroup_root, membership);
    cpu_set_t set;
    int cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = CPU_COUNT(&set);
    if (limit < cores)
        cores = limit < 1 ? 1 : (int)limit;
    return cores;
}
