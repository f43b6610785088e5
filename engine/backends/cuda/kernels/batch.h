/* batch.h: batches that the device makes of raw samples in its memory; see kernels.h. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/backends/cuda/kernels/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_batch {
    struct sample_set set;
    bool bytes;   /* raw elements are uint8; else float32, or int32 for symbols */
    bool symbols; /* rows are int32 */
    bool augmented, mixes, soft;
    const uint32_t *order;
    const int32_t *labels; /* or, target_width > 0, values */
    const float *values;
    int32_t target_width, classes;
    int64_t rows; /* of a batch */
    /* Batches are made for this many steps. The scalars and results of each step are so many bytes
     * behind those of the step before. */
    int32_t steps;
    int64_t scalars_stride, samples_stride, targets_stride;
    /* where it is written: samples as `type` (enum tensor_type), targets in their own type */
    void *samples, *targets; /* targets NULL: no node reads them */
    int32_t type;
    bool channels_last;
};

/* Makes rows order[scalars->first …] for each step. */
cudaError_t cuda_make_batch(const struct cuda_batch *batch, const struct cuda_scalars *scalars,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
