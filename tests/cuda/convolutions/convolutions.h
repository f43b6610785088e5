/* convolutions.h: shared by the checks of convolutions and the measurements of their times:
 * problems, numbers in every type, sums in double on the host, and our own kernels with the
 * interface of cuDNN's plans. */
#pragma once

#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/kernels/kernels.h"

enum { PART_BYTES = 8 << 20 }; /* of workspace that our own kernels take */

struct layer {
    int channels, size, outputs, kernel, stride, padding, dilation, groups;
    int count; /* in its network */
};

/* Ends the program if the call failed. */
void expect_cuda(cudaError_t status, const char *what);
void *allocate_device(size_t bytes);
int64_t elements(const int64_t extent[4]);
struct convolution_problem problem_of(const struct layer *layer, int64_t batch,
                                      enum convolution_pass pass, enum tensor_type type);

extern const char *const pass_text[CONVOLUTION_PASSES];
void print_choice(const struct convolution_choice *choice);

/* -1 to 1 */
float draw(uint64_t stream, uint64_t index);
size_t type_bytes(enum tensor_type type);
void store(void *to, int64_t index, float value, enum tensor_type type);

/* Operands on the device, and the expected values of all three tensors in double: x, weight, y. */
struct tensors {
    const int64_t *extent[3];
    enum tensor_type type[3];
    double *want[3];
    struct convolution_operands operands;
    float *bias;
};
void make_tensors(const struct convolution_problem *p, struct tensors *tensors);
void release_tensors(struct tensors *tensors);
/* The normalised mean squared error of the result. */
double compare(const struct convolution_problem *p, const struct tensors *tensors);

/* `accumulate`: adds to the gradient of the weights. */
typedef cudaError_t own_kernel(const struct convolution_problem *p,
                               const struct convolution_operands *operands, bool accumulate,
                               cudaStream_t stream);
own_kernel run_depthwise, run_stem, run_weights_tf32, run_direct, run_narrow, run_pointwise;
own_kernel run_implicit_tall, run_implicit_square, run_implicit_narrow,
    run_implicit_wide; /* tiles of that shape */

/* times.c: finds the best plans for the convolutions of ResNet-18 (CIFAR-10) within `seconds`
 * seconds; with `variants` also those with fused neighbours and other results. */
void time_convolutions(double seconds, bool variants);
/* hunt.c: tries all ways of `count` random convolutions, in every type and direction, and prints
 * those that are wrong, crash or hang. Another process works with the GPU and is begun again after
 * each such end; this one must not have used CUDA. Returns an exit status. */
int hunt_convolutions(int count, uint64_t seed);
