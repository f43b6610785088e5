/* limits.c: see limits.h. Reads control groups of version 2 only. A file cpu.max holds "max PERIOD"
 * or "QUOTA PERIOD" in microseconds; memory.max holds "max" or a number of bytes. */
#include "engine/backends/cpu/limits.h"

#include "base/cleanup.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads the limit from the file of one group; infinity: it has none. */
typedef double group_limit_function(FILE *file);

static double read_cores(FILE *file)
{
    double quota, period;

    return fscanf(file, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : INFINITY;
}

static double read_bytes(FILE *file)
{
    unsigned long long bytes;

    return fscanf(file, "%llu", &bytes) == 1 ? (double)bytes : INFINITY; /* "max" is no number */
}

static double group_limit(const char *root, const char *group, const char *name,
                          group_limit_function *read)
{
    char path[2 * PATH_MAX];
    AUTO_FCLOSE FILE *file = NULL;

    snprintf(path, sizeof(path), "%s%s/%s", root, group, name);
    file = fopen(path, "re");
    return file ? read(file) : INFINITY;
}

/* The smallest limit among the process's group and the groups above it. */
static double cgroup_limit(const char *root, const char *membership, const char *name,
                           group_limit_function *read)
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
            limit = fmin(limit, group_limit(root, group, name, read));
        }
    }
    return limit;
}

int limits_cores(const char *cgroup_root, const char *membership)
{
    double limit = cgroup_limit(cgroup_root, membership, "cpu.max", read_cores);
    cpu_set_t set;
    int cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = CPU_COUNT(&set);
    if (limit < cores)
        cores = limit < 1 ? 1 : (int)limit;
    return cores;
}

uint64_t limits_memory(const char *cgroup_root, const char *membership)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    double limit = cgroup_limit(cgroup_root, membership, "memory.max", read_bytes);

    return limit < (double)memory ? (uint64_t)limit : memory;
}

size_t limits_cache(void)
{
    enum { USUAL = 1 << 20 };
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes > 0 ? (size_t)bytes : USUAL;
}
