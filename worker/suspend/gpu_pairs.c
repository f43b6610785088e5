/* gpu_pairs.c: see gpu_pairs.h. */
#include "worker/suspend/gpu_pairs.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

int gpu_pairs_parse(char *text, struct cuda_gpu_pair pairs[GPU_PAIRS_MAX])
{
    char *state, *pair;
    int count = 0;

    if (strcmp(text, "-") == 0)
        return 0;
    for (pair = strtok_r(text, ",", &state); pair; pair = strtok_r(NULL, ",", &state)) {
        char *after = strchr(pair, '=');

        if (!after || count == GPU_PAIRS_MAX)
            return -EINVAL;
        *after++ = '\0';
        if (cuda_uuid_parse(pair, &pairs[count].before) < 0 ||
            cuda_uuid_parse(after, &pairs[count].after) < 0)
            return -EINVAL;
        count++;
    }
    return count;
}

/* The GPUs of the machine; 0 if the driver does not list them. */
static int list_gpus(const struct cuda_driver *driver, struct cuda_uuid gpus[GPU_PAIRS_MAX])
{
    int count = 0, device;

    if (!driver->device_count || !driver->device || !driver->device_uuid ||
        driver->device_count(&count) != CUDA_RESULT_SUCCESS || count > GPU_PAIRS_MAX)
        return 0;
    for (int i = 0; i < count; i++)
        if (driver->device(&device, i) != CUDA_RESULT_SUCCESS ||
            driver->device_uuid(&gpus[i], device) != CUDA_RESULT_SUCCESS)
            return 0;
    return count;
}

static bool is_before(const struct cuda_gpu_pair *pairs, int count, const struct cuda_uuid *gpu)
{
    for (int i = 0; i < count; i++)
        if (memcmp(&pairs[i].before, gpu, sizeof *gpu) == 0)
            return true;
    return false;
}

static bool is_after(const struct cuda_gpu_pair *pairs, int count, const struct cuda_uuid *gpu)
{
    for (int i = 0; i < count; i++)
        if (memcmp(&pairs[i].after, gpu, sizeof *gpu) == 0)
            return true;
    return false;
}

/* The first of the GPUs from `*next` on that no pair has as its new one. NULL: there is none. */
static const struct cuda_uuid *next_free(const struct cuda_gpu_pair *pairs, int count,
                                         const struct cuda_uuid *gpus, int gpu_count, int *next)
{
    while (*next < gpu_count)
        if (!is_after(pairs, count, &gpus[(*next)++]))
            return &gpus[*next - 1];
    return NULL;
}

int gpu_pairs_complete(const struct cuda_driver *driver, struct cuda_gpu_pair pairs[GPU_PAIRS_MAX],
                       int count)
{
    struct cuda_uuid gpus[GPU_PAIRS_MAX];
    int gpu_count = list_gpus(driver, gpus), all = count, next = 0;

    if (count > gpu_count)
        return count;
    for (int i = 0; i < gpu_count; i++)
        if (!is_before(pairs, count, &gpus[i]) && !is_after(pairs, count, &gpus[i]))
            pairs[all++] = (struct cuda_gpu_pair){.before = gpus[i], .after = gpus[i]};
    for (int i = 0; i < gpu_count; i++) {
        const struct cuda_uuid *free_gpu;

        if (is_before(pairs, all, &gpus[i]))
            continue;
        free_gpu = next_free(pairs, all, gpus, gpu_count, &next);
        if (!free_gpu)
            return count;
        pairs[all++] = (struct cuda_gpu_pair){.before = gpus[i], .after = *free_gpu};
    }
    return all;
}
