/* limits.h: the cores and the memory that this process may use, limited by its CPU affinity, its
 * control group and that group's ancestors. `cgroup_root` is the mount point of the hierarchy
 * ("/sys/fs/cgroup"), `membership` the file that names the process' group in it
 * ("/proc/self/cgroup"). A missing file means no limit. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Whole cores by affinity and cpu.max, at least 1. */
int limits_cores(const char *cgroup_root, const char *membership);
/* Bytes of memory: the machine's, or the smallest memory.max. */
uint64_t limits_memory(const char *cgroup_root, const char *membership);
/* Bytes of a core's second-level cache; 1 MiB where the system does not tell. */
size_t limits_cache(void);
