/* process_memory.h: what all processes of an attempt hold: its first one, those that it made,
 * theirs, and whom the shim took over from them. Reads /proc, so it runs on the thread pool. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of one attempt, from one reading to the next; all zero before the first. */
struct process_memory {
    uint64_t bytes; /* held: a page that several of its processes share counts once */
    size_t processes;

    /* the last time that shared pages were told apart, which is dear */
    uint64_t resident_then, bytes_then;
    size_t processes_then;
    double not_before; /* CLOCK_MONOTONIC, when that may be done again */
};

/* Reads it anew. `first`: the attempt's first process; `alone`: it makes no others. What cannot be
 * read is as it was. */
void process_memory_read(pid_t first, bool alone, struct process_memory *memory);
