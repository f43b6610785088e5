/* workspace.h: memory that a caller hands in, given out piece by piece. A routine that lays out
 * what a computation uses runs twice: without memory, where it only counts what the computation
 * needs at most, and with it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct workspace {
    char *memory; /* aligned to WORKSPACE_ALIGNMENT; NULL: counts */
    size_t size, taken;
};

enum { WORKSPACE_ALIGNMENT = 16 };

static inline size_t workspace_round(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* The next piece; NULL where there is no memory. Whoever takes has made sure by counting that there
 * is as much. */
static inline void *workspace_take(struct workspace *workspace, size_t count, size_t size)
{
    void *piece = workspace->memory ? workspace->memory + workspace->taken : NULL;

    workspace->taken += workspace_round(count * size);
    return piece;
}

/* Bytes that are left. */
static inline size_t workspace_left(const struct workspace *workspace)
{
    return workspace->size - workspace->taken;
}
