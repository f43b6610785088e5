/* ways.h: work that can be done in several ways, such as a product by tiles of several shapes. The
 * fastest is found by a measurement when a program is bound, and kept in a file for the device and
 * its driver. All ways give the same bits. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

enum { WAYS_MAX = 8 };

struct ways {
    const void *work; /* what `record` gets */
    int (*record)(struct recorder *recorder, const void *work, int way, struct error *error);
    int count;
    char names[WAYS_MAX][CHOICES_TEXT_MAX]; /* which the file has, and TRAIND_VULKAN_TILE */
    /* What decides which is the fastest. A key is written only where one is looked for. */
    void (*write_key)(const struct recorder *recorder, const void *work, char key[CHOICES_KEY_MAX]);
};

/* Records the work in the fastest way that is known; in the first one where none is. */
int record_fastest(struct recorder *recorder, const struct ways *ways, struct error *error);
