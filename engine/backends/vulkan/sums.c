/* sums.c: see sums.h. */
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256, ACROSS_MIN = 16, GROUPS_ENOUGH = 256 };

/* How many results a workgroup has: several, where neighbours lie side by side, so that it reads
 * whole lines of memory. Its other invocations share their terms, so that few results keep the
 * device busy, too. */
static uint32_t choose_across(const struct strided_sums *sums)
{
    uint32_t across = WORKGROUP;

    if (sums->result_inner_stride != 1)
        return 1;
    while (across > ACROSS_MIN && WORKGROUP / across < sums->terms &&
           sums->results / across < GROUPS_ENOUGH)
        across /= 2;
    while (across > 1 && across / 2 >= sums->result_inner)
        across /= 2;
    return across;
}

int record_sums(struct recorder *recorder, const struct strided_sums *sums, struct error *error)
{
    const uint32_t across = choose_across(sums);
    const struct {
        VkDeviceAddress x, a, b, sums;
        uint32_t results, terms;
        uint32_t result_inner, result_outer_stride, result_inner_stride;
        uint32_t term_inner, term_outer_stride, term_inner_stride;
        float factor;
        uint32_t unused;
    } push = {.x = sums->x,
              .a = sums->a,
              .b = sums->b,
              .sums = sums->sums,
              .results = (uint32_t)sums->results,
              .terms = (uint32_t)sums->terms,
              .result_inner = (uint32_t)sums->result_inner,
              .result_outer_stride = (uint32_t)sums->result_outer_stride,
              .result_inner_stride = (uint32_t)sums->result_inner_stride,
              .term_inner = (uint32_t)sums->term_inner,
              .term_outer_stride = (uint32_t)sums->term_outer_stride,
              .term_inner_stride = (uint32_t)sums->term_inner_stride,
              .factor = sums->factor};
    const struct launch launch = {.shader = SHADER_sums,
                                  .constants = {WORKGROUP, across, sums->term, sums->accumulate},
                                  .constant_count = 4,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 4,
                                  .groups = {record_groups(sums->results, across)}};

    return record_launch(recorder, &launch, error);
}

int record_row_sums(struct recorder *recorder, const struct row_sums *sums, struct error *error)
{
    const struct strided_sums strided = {.x = sums->x,
                                         .sums = sums->sums,
                                         .results = sums->columns,
                                         .result_inner = sums->columns,
                                         .result_inner_stride = 1,
                                         .terms = sums->rows,
                                         .term_inner = 1,
                                         .term_outer_stride = sums->stride,
                                         .factor = 1,
                                         .term = TERM_SAME,
                                         .accumulate = sums->accumulate};

    return record_sums(recorder, &strided, error);
}

int record_sum_parts(struct recorder *recorder, VkDeviceAddress parts_sums, int64_t parts,
                     int64_t count, VkDeviceAddress sums, bool accumulate, struct error *error)
{
    enum { PARTS_WORKGROUP = 64 };
    const struct {
        VkDeviceAddress parts_sums, sums;
        uint32_t count, parts;
    } push = {parts_sums, sums, (uint32_t)count, (uint32_t)parts};
    const struct launch launch = {.shader = SHADER_sum_parts,
                                  .constants = {PARTS_WORKGROUP, accumulate},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(count, PARTS_WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}
