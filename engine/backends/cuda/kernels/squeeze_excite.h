/* squeeze_excite.h: squeeze and excite of channels-last images in one launch, and its gradient by
 * the image in another one (kernels/squeeze_excite.cu). */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What both have in common. The weights have the type of the images, or are float32. */
struct cuda_squeeze_excite {
    int64_t images, pixels, channels, squeezed; /* numbers between the layers */
    struct cuda_array reduce;                   /* weights [squeezed, channels] */
    struct cuda_array expand;                   /* weights [channels, squeezed] */
    int activation, gate;                       /* enum activation_kind */
    int threads;         /* of the block that has an image: a power of two from 32 to 1,024 */
    struct cuda_array x; /* [images, pixels, channels] */
};
/* Whether a block can have so many threads, its shared memory is enough, and an image is not too
 * large. */
bool cuda_squeeze_excite_fits(const struct cuda_squeeze_excite *s);

/* What a run stores: [images, channels] or [images, squeezed], of the images' type. At NULL: not
 * stored. */
struct cuda_squeeze_excite_results {
    struct cuda_array averages, reduced, hidden, expanded, factors;
    struct cuda_array y; /* as x, which it may overwrite */
};
/* y = x factors, with factors = gate(expand activation(reduce averages(x) + bias) + bias). Biases
 * at NULL are zero. */
cudaError_t cuda_squeeze_excite(const struct cuda_squeeze_excite *s, const float *reduce_bias,
                                const float *expand_bias,
                                const struct cuda_squeeze_excite_results *results,
                                cudaStream_t stream);

struct cuda_squeeze_excite_gradient {
    struct cuda_array dy, factors;
    struct cuda_array gate_saved, activation_saved; /* what the activations saved */
    /* the gradients by the layers' sums, before the activations; at NULL: not stored */
    struct cuda_array dexpanded, dreduced;
    struct cuda_array dx; /* may overwrite dy */
};
cudaError_t cuda_squeeze_excite_backward(const struct cuda_squeeze_excite *s,
                                         const struct cuda_squeeze_excite_gradient *gradient,
                                         cudaStream_t stream);

#ifdef __cplusplus
}
#endif
