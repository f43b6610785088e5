/* alignment.h: sizes and offsets that are multiples. */
#pragma once

#include <stddef.h>

/* The smallest multiple of `alignment` that is not below `bytes`. */
static inline size_t align_up(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}
