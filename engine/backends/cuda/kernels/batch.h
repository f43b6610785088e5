/* batch.h: batches made on the device of raw samples that lie there; see kernels.h. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/backends/cuda/kernels/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_batch {
    struct sample_set set;
    bool bytes;   /* raw elements are uint8, else float32, of symbols int32 */
    bool symbols; /* rows are int32 */
    bool augmented, mixes, soft;
    const uint32_t *order;
    const int32_t *labels; /* or, target_width > 0, values */
    const float *values;
    int32_t target_width, classes;
    int64_t rows; /* of a batch */
    /* Batches of so many steps are made, with what lies so many bytes behind that of the first. */
    int32_t steps;
    int64_t scalars_stride, samples_stride, targets_stride;
    /* where it goes: samples as `type` (enum tensor_type), targets as they are */
    void *samples, *targets; /* targets: NULL where nothing reads them */
    int32_t type;
    bool channels_last;
};

/* Rows order[scalars->first …] for each step. */
cudaError_t cuda_make_batch(const struct cuda_batch *batch, const struct cuda_scalars *scalars,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
