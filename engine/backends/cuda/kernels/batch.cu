/* batch.cu: makes batches of raw samples that are on the device: picks them by the epoch's order,
 * augments and normalises them, and writes them in the layout and type of the program's input. One
 * launch does this for several steps. A thread makes a few pixels with all their channels, so that
 * neighbouring threads read and write neighbouring addresses. */
#include "engine/backends/cuda/kernels/batch.h"
#include "engine/backends/cuda/kernels/values.cuh"

/* Pixels of a thread. It loads their raw elements before it uses the first one. */
constexpr int PIXELS = 4;

/* One of the samples that are mixed into a row. */
struct drawn_sample {
    struct sample_geometry geometry;
    uint32_t index;
};

__device__ static void draw_sample(const struct cuda_batch *batch,
                                   const struct cuda_scalars *scalars, int64_t row,
                                   struct drawn_sample *drawn)
{
    drawn->index = batch->order[scalars->first + row];
    if (batch->augmented && sample_has_geometry(&batch->set))
        drawn->geometry = sample_draw(&batch->set, scalars->epoch, drawn->index);
}

template <typename Raw>
__device__ static inline float sample_value(const struct cuda_batch *batch,
                                            const struct drawn_sample *drawn, int32_t channel,
                                            int32_t pixel, int32_t source)
{
    const struct sample_set *set = &batch->set;
    const Raw *raw = (const Raw *)set->raw + drawn->index * set->stride +
                     (int64_t)channel * set->height * set->width;

    return sample_normalise(set, channel, pixel, source, source < 0 ? 0 : (float)raw[source]);
}

/* What a block makes: a row of one of the batches. */
struct place {
    int64_t row;
    const struct cuda_scalars *scalars;
    char *samples, *targets; /* of the batch */
};

__device__ static struct place find_place(const struct cuda_batch *batch,
                                          const struct cuda_scalars *scalars)
{
    const int64_t step = blockIdx.x / batch->rows;
    struct place place;

    place.row = blockIdx.x - step * batch->rows;
    place.scalars =
        (const struct cuda_scalars *)((const char *)scalars + step * batch->scalars_stride);
    place.samples = (char *)batch->samples + step * batch->samples_stride;
    place.targets = batch->targets ? (char *)batch->targets + step * batch->targets_stride : NULL;
    return place;
}

/* Writes the row's target. The block that makes the row's first pixels does this. */
__device__ static void make_target(const struct cuda_batch *batch, const struct place *place,
                                   uint32_t own, uint32_t other)
{
    const struct cuda_scalars *scalars = place->scalars;
    const int64_t row = place->row;

    if (!place->targets)
        return;
    if (batch->target_width > 0) {
        for (int32_t i = threadIdx.x; i < batch->target_width; i += BLOCK)
            ((float *)place->targets)[row * batch->target_width + i] =
                batch->values[(int64_t)own * batch->target_width + i];
    } else if (batch->augmented && batch->soft) {
        for (int32_t c = threadIdx.x; c < batch->classes; c += BLOCK)
            ((float *)place->targets)[row * batch->classes + c] =
                sample_probability(c, batch->labels[own], batch->labels[other], scalars->soft_low,
                                   scalars->soft_own, scalars->soft_other);
    } else if (threadIdx.x == 0) {
        ((int32_t *)place->targets)[row] = batch->labels[own];
    }
}

template <typename Raw, typename Value>
__global__ void batch_kernel(struct cuda_batch batch, const struct cuda_scalars *first)
{
    __shared__ struct drawn_sample own, other;
    const struct sample_set *set = &batch.set;
    const struct place place = find_place(&batch, first);
    const int64_t row = place.row;
    const int32_t pixels = set->height * set->width;
    const bool moves = batch.augmented && sample_has_geometry(set);
    const bool mixes = batch.augmented && batch.mixes;
    const bool pairs = mixes || (batch.augmented && batch.soft);
    Value *result = (Value *)place.samples + row * set->channels * pixels;

    if (threadIdx.x == 0)
        draw_sample(&batch, place.scalars, row, &own);
    if (threadIdx.x == 32 && pairs)
        draw_sample(&batch, place.scalars, row > 0 ? row - 1 : batch.rows - 1, &other);
    __syncthreads();
    if (blockIdx.y == 0)
        make_target(&batch, &place, own.index, other.index);
    for (int32_t first = blockIdx.y * PIXELS * BLOCK + threadIdx.x; first < pixels;
         first += gridDim.y * PIXELS * BLOCK) {
        int32_t pixel[PIXELS], source[PIXELS], other_source[PIXELS];

#pragma unroll
        for (int k = 0; k < PIXELS; k++) {
            const int32_t p = pixel[k] = min(first + k * BLOCK, pixels - 1);

            source[k] = moves ? sample_source(set, &own.geometry, p) : p;
            other_source[k] = moves && mixes ? sample_source(set, &other.geometry, p) : p;
        }
        for (int32_t c = 0; c < set->channels; c++) {
            float value[PIXELS];

#pragma unroll
            for (int k = 0; k < PIXELS; k++)
                value[k] = sample_value<Raw>(&batch, &own, c, pixel[k], source[k]);
            if (mixes)
#pragma unroll
                for (int k = 0; k < PIXELS; k++)
                    value[k] = sample_mix(
                        value[k], sample_value<Raw>(&batch, &other, c, pixel[k], other_source[k]),
                        place.scalars->share);
#pragma unroll
            for (int k = 0; k < PIXELS; k++)
                if (first + k * BLOCK < pixels)
                    result[batch.channels_last ? pixel[k] * set->channels + c
                                               : c * pixels + pixel[k]] =
                        from_float<Value>(value[k]);
        }
    }
}

template <typename Raw>
__global__ void symbols_kernel(struct cuda_batch batch, const struct cuda_scalars *first)
{
    const struct place place = find_place(&batch, first);
    const uint32_t index = batch.order[place.scalars->first + place.row];
    const Raw *raw = (const Raw *)batch.set.raw + index * batch.set.stride;
    const int32_t width = batch.set.width;

    if (blockIdx.y == 0)
        make_target(&batch, &place, index, index);
    for (int32_t i = blockIdx.y * BLOCK + threadIdx.x; i < width; i += gridDim.y * BLOCK)
        ((int32_t *)place.samples)[place.row * width + i] = (int32_t)raw[i];
}

template <typename Raw>
static cudaError_t launch(const struct cuda_batch *batch, const struct cuda_scalars *scalars,
                          dim3 grid, cudaStream_t stream)
{
    switch (batch->type) {
    case TENSOR_BFLOAT16:
        batch_kernel<Raw, __nv_bfloat16><<<grid, BLOCK, 0, stream>>>(*batch, scalars);
        break;
    case TENSOR_FLOAT16:
        batch_kernel<Raw, __half><<<grid, BLOCK, 0, stream>>>(*batch, scalars);
        break;
    default:
        batch_kernel<Raw, float><<<grid, BLOCK, 0, stream>>>(*batch, scalars);
        break;
    }
    return cudaGetLastError();
}

cudaError_t cuda_make_batch(const struct cuda_batch *batch, const struct cuda_scalars *scalars,
                            cudaStream_t stream)
{
    int64_t pixels = (int64_t)batch->set.height * batch->set.width;
    int64_t each = batch->symbols ? BLOCK : PIXELS * BLOCK, parts = (pixels + each - 1) / each;
    dim3 grid((unsigned)(batch->rows * batch->steps), (unsigned)(parts < 1024 ? parts : 1024));

    if (batch->symbols) {
        if (batch->bytes)
            symbols_kernel<uint8_t><<<grid, BLOCK, 0, stream>>>(*batch, scalars);
        else
            symbols_kernel<int32_t><<<grid, BLOCK, 0, stream>>>(*batch, scalars);
        return cudaGetLastError();
    }
    return batch->bytes ? launch<uint8_t>(batch, scalars, grid, stream)
                        : launch<float>(batch, scalars, grid, stream);
}
