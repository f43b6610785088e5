/* rank.h: sorts items by a number. */
#pragma once

#include "scheduler/workspace.h"

struct ranked {
    uint64_t key;
    size_t index;
};

/* Sorts in ascending order of the key. The sort is stable. `other`: scratch space for `count`
 * items. O(count). */
void rank_sort(struct ranked *items, struct ranked *other, size_t count);
