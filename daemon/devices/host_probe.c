/* host_probe.c: finds out how much of this machine's processor and memory traind may use. The
 * affinity mask and the limits of this process's cgroup (v2) and of those above it count, not only
 * the hardware. */
#include "daemon/devices/host_probe.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/sha256.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a small file whole; NULL if it cannot be read. */
static char *read_text(const char *root, const char *path)
{
    char full[PATH_MAX];
    char *text = NULL;
    FILE *file;
    size_t capacity = 0;

    snprintf(full, sizeof full, "%s%s", root, path);
    file = fopen(full, "re");
    if (!file)
        return NULL;
    if (getdelim(&text, &capacity, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Finds the line that begins with `key` and returns what follows the blanks and the colon behind
 * it; NULL if there is no such line. The value ends at `line_length()`, because the text is not
 * cut there: further fields can be found in it. */
static char *find_field(char *text, const char *key)
{
    size_t length = strlen(key);

    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && strchr(" \t:", line[length]))
            return line + length + strspn(line + length, " \t:");
    }
    return NULL;
}

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

static uint64_t read_meminfo(const char *root, const char *key)
{
    AUTO_FREE char *text = read_text(root, "/proc/meminfo");
    const char *value = find_field(text, key);

    return value ? strtoull(value, NULL, 10) * 1024 : 0;
}

/* ---- cgroups --------------------------------------------------------------------------------- */

/* The path of this process in the unified hierarchy, "/" for its root; NULL if there is none. The
 * caller frees it. */
static char *find_cgroup(const char *root)
{
    AUTO_FREE char *text = read_text(root, "/proc/self/cgroup");
    char *line = text ? strstr(text, "0::/") : NULL;

    if (!line)
        return NULL;
    line += 3;
    line[line_length(line)] = '\0';
    return memory_copy_text(line);
}

/* Calls `look` with the folder of this process's cgroup and of each one above it. */
static void look_upwards(const char *root, void (*look)(const char *folder, void *data), void *data)
{
    AUTO_FREE char *cgroup = find_cgroup(root);

    while (cgroup) {
        char folder[PATH_MAX];

        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root,
                 strcmp(cgroup, "/") ? cgroup : "");
        look(folder, data);

        char *slash = strrchr(cgroup, '/');
        if (!slash || strcmp(cgroup, "/") == 0)
            break;
        slash[slash == cgroup] = '\0';
    }
}

static void look_at_cores(const char *folder, void *data)
{
    AUTO_FREE char *content = read_text(folder, "/cpu.max");
    double *cores = data, quota, period;

    if (content && sscanf(content, "%lf %lf", &quota, &period) == 2 && period > 0 &&
        quota / period < *cores)
        *cores = quota / period;
}

/* The limit of the cgroup in `folder`; false when it has none. */
static bool read_memory_limit(const char *folder, uint64_t *limit)
{
    AUTO_FREE char *content = read_text(folder, "/memory.max");

    return content && sscanf(content, "%" SCNu64, limit) == 1; /* "max" is not a number: no limit */
}

static void look_at_memory_limit(const char *folder, void *data)
{
    uint64_t *total = data, limit;

    if (read_memory_limit(folder, &limit) && limit < *total)
        *total = limit;
}

/* The memory left below the limit. File cache that the kernel can drop easily counts as free. */
static void look_at_memory_left(const char *folder, void *data)
{
    AUTO_FREE char *content = read_text(folder, "/memory.current");
    AUTO_FREE char *statistics = read_text(folder, "/memory.stat");
    const char *cache = find_field(statistics, "inactive_file");
    uint64_t *left = data, limit, used;

    if (!content || !read_memory_limit(folder, &limit))
        return;
    used = strtoull(content, NULL, 10);
    if (cache) {
        uint64_t droppable = strtoull(cache, NULL, 10);
        used -= droppable < used ? droppable : used;
    }
    used = used < limit ? used : limit;
    if (limit - used < *left)
        *left = limit - used;
}

/* ---- the probe ------------------------------------------------------------------------------- */

/* `flags`: the names of all features, separated by spaces. */
static void find_features(char *flags, struct host_probe *probe)
{
    /* the features by which kernels and libraries choose code, by x86's and aarch64's names */
    static const char *const known[] = {
        "sse4_2",   "avx",      "f16c",     "fma",         "avx2",        "avx_vnni",
        "avx512f",  "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
        "amx_tile", "amx_int8", "amx_bf16", "asimd",       "asimdhp",     "asimddp",
        "sve",      "sve2",     "i8mm",     "bf16"};

    for (char *state, *flag = strtok_r(flags, " ", &state); flag;
         flag = strtok_r(NULL, " ", &state))
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(flag, known[i]) == 0 && probe->feature_count < CPU_FEATURES_MAX)
                probe->features[probe->feature_count++] = known[i];
}

static void find_model(const char *root, struct host_probe *probe)
{
    AUTO_FREE char *text = read_text(root, "/proc/cpuinfo");
    const char *model = find_field(text, "model name");
    char *flags = find_field(text, "flags");
    size_t model_length = model ? line_length(model) : 0;

    if (!flags)
        flags = find_field(text, "Features");
    if (model_length > 0)
        snprintf(probe->model, sizeof probe->model, "%.*s", (int)model_length, model);
    else
        snprintf(probe->model, sizeof probe->model, "unknown processor");
    if (flags) {
        flags[line_length(flags)] = '\0';
        find_features(flags, probe);
    }
}

/* Makes a name that survives restarts and reveals nothing about the machine. */
static void make_id(const char *root, struct host_probe *probe)
{
    AUTO_FREE char *machine = read_text(root, "/etc/machine-id");
    char digest[SHA256_HEX_SIZE];
    struct sha256 hash;

    sha256_begin(&hash);
    sha256_add(&hash, "traind cpu ", 11);
    if (machine)
        sha256_add(&hash, machine, strlen(machine));
    sha256_add(&hash, probe->model, strlen(probe->model));
    sha256_end(&hash, digest);
    snprintf(probe->id, sizeof probe->id, "cpu-%.16s", digest);
}

int host_probe_read(const char *root, struct host_probe *probe, struct error *error)
{
    cpu_set_t allowed;

    *probe = (struct host_probe){0};
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return error_set_errno(error, -errno, "cannot find out which cores may be used");
    probe->cores = CPU_COUNT(&allowed);
    look_upwards(root, look_at_cores, &probe->cores);
    probe->threads = probe->cores < 2 ? 1 : (int)floor(probe->cores);
    probe->memory_total = read_meminfo(root, "MemTotal");
    if (probe->memory_total == 0)
        return error_set(error, -EIO, "cannot find out how much memory there is (/proc/meminfo)");
    look_upwards(root, look_at_memory_limit, &probe->memory_total);
    find_model(root, probe);
    make_id(root, probe);
    return 0;
}

double host_probe_pressure(const char *root, const char *resource)
{
    char path[64];
    double percent;

    snprintf(path, sizeof path, "/proc/pressure/%s", resource);
    AUTO_FREE char *text = read_text(root, path);
    if (!text || sscanf(text, "some avg10=%lf", &percent) != 1)
        return NAN;
    return percent / 100;
}

uint64_t host_probe_memory_used(const char *root, const struct host_probe *probe)
{
    uint64_t left = read_meminfo(root, "MemAvailable");

    look_upwards(root, look_at_memory_left, &left);
    return left < probe->memory_total ? probe->memory_total - left : 0;
}

double host_probe_busy_seconds(const char *root)
{
    AUTO_FREE char *text = read_text(root, "/proc/stat");
    unsigned long long user, nice, kernel, idle, waiting, interrupts, soft_interrupts;

    /* time that the hypervisor took ("steal") was spent on others, and guests count as user */
    if (!text || sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &kernel,
                        &idle, &waiting, &interrupts, &soft_interrupts) != 7)
        return NAN;
    return (double)(user + nice + kernel + interrupts + soft_interrupts) /
           (double)sysconf(_SC_CLK_TCK);
}
