/* rank.h: puts many things in order by a number. */
#pragma once

#include "scheduler/workspace.h"

struct ranked {
    uint64_t key;
    size_t index;
};

/* Ascending by key; equal ones stay as they were. `other`: room for as many. O(count). */
void rank_sort(struct ranked *items, struct ranked *other, size_t count);
