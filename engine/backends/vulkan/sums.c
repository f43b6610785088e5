/* sums.c: see sums.h. */
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256, ACROSS_MAX = 16 };

/* How many results a workgroup has: several, where neighbours lie side by side, so that it reads
 * whole lines of memory. */
static uint32_t choose_across(const struct strided_sums *sums)
{
    uint32_t across = 1;

    while (sums->result_inner_stride == 1 && across < ACROSS_MAX && across < sums->result_inner)
        across *= 2;
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
                                  .groups = {record_groups(sums->results, across)}};

    return record_launch(recorder, &launch, error);
}
