/* workspace.h: memory that a caller hands in, given out piece by piece. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct workspace {
    char *at, *end;
};

enum { WORKSPACE_ALIGNMENT = 16 };

static inline size_t workspace_round(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* NULL when it does not fit. */
static inline void *workspace_take(struct workspace *workspace, size_t count, size_t size)
{
    size_t bytes = workspace_round(count * size);
    void *piece = workspace->at;

    if (bytes > (size_t)(workspace->end - workspace->at))
        return NULL;
    workspace->at += bytes;
    return piece;
}
