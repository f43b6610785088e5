/* process_memory.h: the memory that all processes of an attempt hold: its first process, all its
 * descendants, and those that the shim adopted. Reads /proc, so it runs on the thread pool. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The memory of one attempt, kept from one reading to the next; all zero before the first. */
struct process_memory {
    uint64_t bytes; /* held bytes; a page that several of its processes share counts once */
    size_t processes;

    /* the last time that shared pages were counted, which is expensive */
    uint64_t resident_then, bytes_then;
    size_t processes_then;
    double not_before; /* CLOCK_MONOTONIC: when they may be counted again */
};

/* Reads the memory. `first`: the attempt's first process; `alone`: it makes no others. What cannot
 * be read stays as it was. */
void process_memory_read(pid_t first, bool alone, struct process_memory *memory);
