/* host_probe.h: how much of this machine's processor and memory traind may use. */
#pragma once

#include "base/error.h"

#include <stdint.h>

enum { CPU_FEATURES_MAX = 32 };

struct host_probe {
    char model[128];       /* "AMD EPYC 7763 64-Core Processor" */
    char id[64];           /* stable name: machine id and "cpu", hashed */
    double cores;          /* min(affinity, cpu.max of every cgroup above us); may be a fraction */
    int threads;           /* threads to run: max(1, floor(cores)) */
    uint64_t memory_total; /* bytes: min(MemTotal, memory.max of every cgroup above us) */
    const char *features[CPU_FEATURES_MAX]; /* "avx2", "fma", …: static strings */
    int feature_count;
};

/* Reads /proc and /sys/fs/cgroup below `root` ("" for the real ones; tests pass a folder). */
int host_probe_read(const char *root, struct host_probe *probe, struct error *error);

/* The part of the last ten seconds in which a task waited for "cpu" or "memory" (Linux pressure
 * stall information, Documentation/accounting/psi.rst: `some avg10`). NAN if the kernel does not
 * report it. */
double host_probe_pressure(const char *root, const char *resource);

/* Bytes that all programs use now: memory_total minus what is available to us. Fast; reads two
 * small files. */
uint64_t host_probe_memory_used(const char *root, const struct host_probe *probe);

/* Seconds for which the machine's cores have been busy, summed over the cores, since it started; in
 * steps of 10 ms. NAN if the kernel does not report them. */
double host_probe_busy_seconds(const char *root);
