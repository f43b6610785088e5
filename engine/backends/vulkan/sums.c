/* sums.c: see sums.h. */
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256, COLUMNS_MIN = 16, GROUPS_ENOUGH = 256 };

/* Columns of a workgroup: its other invocations share their rows, so that few columns keep the
 * device busy, too. */
static uint32_t columns_at_once(const struct strided_sums *sums)
{
    uint32_t columns = WORKGROUP;

    while (columns > COLUMNS_MIN && WORKGROUP / columns < sums->rows &&
           sums->columns / columns < GROUPS_ENOUGH)
        columns /= 2;
    return columns;
}

int record_strided_sums(struct recorder *recorder, const struct strided_sums *sums,
                        struct error *error)
{
    const uint32_t columns = columns_at_once(sums);
    const struct {
        VkDeviceAddress x, sums;
        uint32_t rows, stride, columns, unused;
    } push = {.x = sums->x,
              .sums = sums->sums,
              .rows = (uint32_t)sums->rows,
              .stride = (uint32_t)sums->stride,
              .columns = (uint32_t)sums->columns};
    const struct launch launch = {.shader = SHADER_strided_sums,
                                  .constants = {WORKGROUP, sums->accumulate, columns},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(sums->columns, columns)}};

    return record_launch(recorder, &launch, error);
}
