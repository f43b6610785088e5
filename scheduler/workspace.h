/* workspace.h: an arena that the caller provides. The routine that lays out a computation's memory
 * runs twice: first without an arena, to count the bytes, then with one. */
#pragma once

#include "base/alignment.h"

#include <stddef.h>
#include <stdint.h>

struct workspace {
    char *memory; /* aligned to WORKSPACE_ALIGNMENT; NULL: only count */
    size_t size, taken;
};

enum { WORKSPACE_ALIGNMENT = 16 };

static inline size_t workspace_round(size_t bytes)
{
    return align_up(bytes, WORKSPACE_ALIGNMENT);
}

/* Takes the next piece, or returns NULL while only counting. The caller counted first, so there is
 * enough memory. */
static inline void *workspace_take(struct workspace *workspace, size_t count, size_t size)
{
    void *piece = workspace->memory ? workspace->memory + workspace->taken : NULL;

    workspace->taken += workspace_round(count * size);
    return piece;
}

/* The bytes that are left. */
static inline size_t workspace_left(const struct workspace *workspace)
{
    return workspace->size - workspace->taken;
}
