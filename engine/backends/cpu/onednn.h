/* onednn.h: the parts of oneDNN that the CPU backend uses: matrix products, convolutions, and their
 * layouts and reorders. The files onednn*.c are the only ones that include oneDNN's header, because
 * version 3 drops the descriptor interface of version 2. Every primitive is created for one thread,
 * and runs in the thread that calls it, on that thread's stream: the backend divides the work
 * itself (threads.h). */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct onednn;             /* engine, and one stream per thread */
struct onednn_product;     /* c = a b, matrices */
struct onednn_convolution; /* one direction of a convolution over a number of samples */
struct onednn_reorder;     /* a copy between two layouts */
struct onednn_call;        /* a primitive with its arguments */

/* The layout of a tensor in memory, and its type. Opaque: a copy of oneDNN's memory descriptor. */
enum { ONEDNN_LAYOUT_BYTES = 704 };
struct onednn_layout {
    _Alignas(8) unsigned char descriptor[ONEDNN_LAYOUT_BYTES];
};

int onednn_open(int threads, struct onednn **onednn, struct error *error);
void onednn_close(struct onednn *onednn);
/* Each thread calls this first, before primitives are created. It limits OpenMP to one thread,
 * because the team has the threads. */
void onednn_thread_begin(void);
/* Frees the primitives that oneDNN keeps in its cache although they were freed. */
void onednn_trim(void);
/* "oneDNN 2.6.3" into `text`. */
void onednn_version(char *text, size_t size);

/* Whether oneDNN multiplies bfloat16 on this processor. FAST: by its own instructions, faster than
 * float32. SLOW: by other instructions. */
enum onednn_bfloat16 { ONEDNN_BFLOAT16_NONE, ONEDNN_BFLOAT16_SLOW, ONEDNN_BFLOAT16_FAST };
enum onednn_bfloat16 onednn_bfloat16(void);
/* The instructions for bfloat16, "avx512_bf16 amx_bf16", or "". */
const char *onednn_bfloat16_features(void);

/* The row-major float32 layout of the same extents. */
void onednn_layout_plain_like(const struct onednn_layout *like, struct onednn_layout *plain);
/* The layout of float32 weights [groups][out][in][height][width], whose out and in are those of a
 * group, row-major. */
void onednn_layout_plain_weights(const int64_t extent[5], struct onednn_layout *layout);
int64_t onednn_layout_extent(const struct onednn_layout *layout, int axis);
/* The part of a layout with `count` elements from `first` on along the axis. Its addresses count
 * from the beginning of the whole. -ERROR_UNSUPPORTED: they are not whole blocks. */
int onednn_layout_part(const struct onednn_layout *whole, int axis, int64_t first, int64_t count,
                       struct onednn_layout *part);
/* Whether a separate float32 tensor in `layout` has the same bytes as `part` of another tensor
 * (onednn_layout_part()), whose first byte is at `offset` there. */
int onednn_layout_lies_within(const struct onednn_layout *layout, const struct onednn_layout *part,
                              size_t *offset);
/* The layout of a depthwise convolution's weights: [channels / block][height][width][block]; block
 * is 1, 8, 16 or all channels. */
void onednn_layout_depthwise(int64_t channels, const int64_t kernel[2], int64_t block,
                             struct onednn_layout *layout);
/* The layout of weights [out, in, height, width] in blocks of `block` channels of both, 8 or 16:
 * OIhw16i16o. */
void onednn_layout_blocked_weights(const int64_t extent[4], int block,
                                   struct onednn_layout *layout);
/* The layout of the same weights in vectors of `lanes` channels out, 8 or 16: Ohwi16o. */
void onednn_layout_vectors_of_weights(const int64_t extent[4], int lanes,
                                      struct onednn_layout *layout);
/* The layout of the same weights as [height][width][out][in]. */
void onednn_layout_spatial_first(const int64_t extent[4], struct onednn_layout *layout);
size_t onednn_layout_bytes(const struct onednn_layout *layout);
int onednn_layout_equal(const struct onednn_layout *a, const struct onednn_layout *b);

/* c[rows, columns] = a[rows, depth] b[depth, columns]. The matrices are row-major, without gaps.
 * (oneDNN 2.6 also multiplies matrices with gaps between rows, but then allocates from the heap in
 * every call.) */
struct onednn_product_shape {
    int64_t rows, columns, depth;
    int a_transposed; /* a is [depth, rows] */
    int b_transposed; /* b is [columns, depth] */
    int bias;         /* of the columns */
    int relu;         /* c = max(0, …) */
    int accumulate;   /* c is added to */
    int bfloat16;     /* a and b; c and the bias are float32 in any case */
};

int onednn_product_create(struct onednn *onednn, const struct onednn_product_shape *shape,
                          struct onednn_product **product, struct error *error);
void onednn_product_free(struct onednn_product *product);
size_t onednn_product_scratch_bytes(const struct onednn_product *product);

/* The layout of images: [sample][channel / block][pixel][channel % block]; block is 1, 8, 16 or all
 * channels. */
enum onednn_images { ONEDNN_NCHW, ONEDNN_NCHW8C, ONEDNN_NCHW16C, ONEDNN_NHWC };

struct onednn_convolution_shape {
    int64_t samples, channels, height, width; /* of x */
    int64_t out_channels, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2]; /* dilation 1: none */
    int64_t groups;
    enum onednn_images order_x, order_y;
    int bias;     /* whether there is one */
    int relu;     /* forward: y = max(0, …) */
    int bfloat16; /* both operands are; the result and the bias are float32 in any case */
};

enum onednn_direction { ONEDNN_FORWARD, ONEDNN_BACKWARD_DATA, ONEDNN_BACKWARD_WEIGHTS };

/* The layout of float32 images. */
void onednn_layout_images(int64_t samples, int64_t channels, int64_t height, int64_t width,
                          enum onednn_images order, struct onednn_layout *layout);

/* Creates the best implementation. If `weights` is NULL, oneDNN chooses the layout of the weights
 * (or of their gradient), else it uses the given one. -ERROR_UNSUPPORTED: oneDNN has no
 * implementation. */
int onednn_convolution_create(struct onednn *onednn, enum onednn_direction direction,
                              const struct onednn_convolution_shape *shape,
                              const struct onednn_layout *weights,
                              struct onednn_convolution **convolution, struct error *error);
/* Whether there is a correct implementation other than oneDNN's reference. Creates nothing that
 * lasts. */
int onednn_convolution_exists(struct onednn *onednn, enum onednn_direction direction,
                              const struct onednn_convolution_shape *shape);
void onednn_convolution_free(struct onednn_convolution *convolution);
void onednn_convolution_weights_layout(const struct onednn_convolution *convolution,
                                       struct onednn_layout *layout);
/* Whether it is oneDNN's reference, which is hundreds of times slower than the others. */
int onednn_convolution_is_reference(const struct onednn_convolution *convolution);
/* Its name: "jit:avx512_core". */
const char *onednn_convolution_implementation(const struct onednn_convolution *convolution);
size_t onednn_convolution_scratch_bytes(const struct onednn_convolution *convolution);

/* ---- convolutions of integers: y = scale (x weights + bias), of images channels last ---- */

struct onednn_int8_convolution;
struct onednn_int8_shape {
    int64_t samples, channels, height, width; /* of x, uint8 */
    int64_t out_channels, out_height, out_width;
    int64_t kernel[2], stride[2], dilation[2];
    int64_t padding[2], padding_end[2]; /* before and behind the image */
    int64_t groups;
    int32_t zero;     /* zero point of x */
    float sum;        /* what y holds is added so many times; 0: it is not */
    int relu;         /* y is at least 0 */
    int gives_floats; /* y is float32, else uint8 */
};

/* `scale` has a factor for each channel of y. The bias, float32, is in units of the sums. `layout`
 * of the weights as for onednn_convolution_create(). */
int onednn_int8_create(struct onednn *onednn, const struct onednn_int8_shape *shape,
                       const float *scale, const struct onednn_layout *layout,
                       struct onednn_int8_convolution **convolution, struct error *error);
void onednn_int8_free(struct onednn_int8_convolution *convolution);
void onednn_int8_weights_layout(const struct onednn_int8_convolution *convolution,
                                struct onednn_layout *layout);
size_t onednn_int8_scratch_bytes(const struct onednn_int8_convolution *convolution);
/* Whether sums of products are exact. Without VNNI oneDNN adds two products in 16 bits, which hold
 * no more than 32,767; so weights have to be from -64 to 64. */
int onednn_int8_is_exact(void);
int onednn_int8_bind(struct onednn *onednn, const struct onednn_int8_convolution *convolution,
                     const void *x, const void *weights, const void *bias, const void *y,
                     void *scratch, struct onednn_call **call, struct error *error);
/* onednn_layout_plain_weights() of integers of 8 bits. */
void onednn_layout_plain_int8(const int64_t extent[5], struct onednn_layout *layout);

int onednn_reorder_create(struct onednn *onednn, const struct onednn_layout *from,
                          const struct onednn_layout *to, struct onednn_reorder **reorder,
                          struct error *error);
void onednn_reorder_free(struct onednn_reorder *reorder);

/* A primitive bound to its memory: to run it, only the thread is given. Each call belongs to one
 * task, whose scratch no other task uses at the same time. The primitive must outlive it. */
struct onednn_call;

/* One of a and b may be NULL: then onednn_call_set_source() sets it later. */
int onednn_product_bind(struct onednn *onednn, const struct onednn_product *product, const void *a,
                        const void *b, const void *bias, void *c, void *scratch,
                        struct onednn_call **call, struct error *error);
/* Forward reads x, weights, bias and writes y; backward data reads y (the gradient) and weights and
 * writes x; backward weights reads x and y and writes weights and bias. */
int onednn_convolution_bind(struct onednn *onednn, const struct onednn_convolution *convolution,
                            const void *x, const void *weights, const void *bias, const void *y,
                            void *scratch, struct onednn_call **call, struct error *error);
int onednn_reorder_bind(struct onednn *onednn, const struct onednn_reorder *reorder,
                        const void *from, void *to, struct onednn_call **call, struct error *error);
/* Sets a new address for the x of a convolution, the `from` of a reorder, or the operand of a
 * product that was NULL. */
void onednn_call_set_source(struct onednn_call *call, const void *source);
/* Runs the call. oneDNN allocates its list of arguments, and frees it before this returns. 0 or
 * -EIO. */
int onednn_call_run(const struct onednn_call *call, int thread);
void onednn_call_free(struct onednn_call *call);
