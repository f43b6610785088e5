/* cores.h: how many cores this process may really use. */
#pragma once

/* The whole cores that affinity and the control group's cpu.max (its own and those above it) leave,
 * at least 1. `cgroup_root` is where the hierarchy is mounted ("/sys/fs/cgroup"), `membership` the
 * file that names the process's group in it ("/proc/self/cgroup"); absent ones limit nothing. */
int cores_usable(const char *cgroup_root, const char *membership);
