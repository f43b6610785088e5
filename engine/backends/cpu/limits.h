/* limits.h: how much of the machine this process may really use: what affinity and its control
 * group and those above it leave. `cgroup_root` is where the hierarchy is mounted
 * ("/sys/fs/cgroup"), `membership` the file that names the process's group in it
 * ("/proc/self/cgroup"); absent ones limit nothing. */
#pragma once

#include <stdint.h>

/* Whole cores by affinity and cpu.max, at least 1. */
int limits_cores(const char *cgroup_root, const char *membership);
/* Bytes of memory: the machine's, or the smallest memory.max. */
uint64_t limits_memory(const char *cgroup_root, const char *membership);
