/* convolutions.c: see convolutions.h. */
#include "tests/cuda/convolutions/convolutions.h"

#include "base/philox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expect_cuda(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

void *allocate_device(size_t bytes)
{
    void *memory = NULL;

    expect_cuda(cudaMalloc(&memory, bytes ? bytes : 1), "memory");
    return memory;
}

int64_t elements(const int64_t extent[4])
{
    return extent[0] * extent[1] * extent[2] * extent[3];
}

/* ---- problems -------------------------------------------------------------------------------- */

struct convolution_problem problem_of(const struct layer *layer, int64_t batch,
                                      enum convolution_pass pass, enum tensor_type type)
{
    int extent = layer->dilation * (layer->kernel - 1) + 1;
    int out = (layer->size + 2 * layer->padding - extent) / layer->stride + 1;
    struct convolution_problem problem;

    memset(&problem, 0, sizeof problem);
    problem.pass = pass;
    problem.type = problem.result = type;
    problem.groups = layer->groups;
    memcpy(problem.x, (int64_t[]){batch, layer->channels, layer->size, layer->size},
           sizeof problem.x);
    memcpy(
        problem.weight,
        (int64_t[]){layer->outputs, layer->channels / layer->groups, layer->kernel, layer->kernel},
        sizeof problem.weight);
    memcpy(problem.y, (int64_t[]){batch, layer->outputs, out, out}, sizeof problem.y);
    for (int i = 0; i < 2; i++) {
        problem.stride[i] = layer->stride;
        problem.padding[i] = layer->padding;
        problem.dilation[i] = layer->dilation;
    }
    return problem;
}

const char *const pass_text[CONVOLUTION_PASSES] = {"forward", "data", "weights"};

void print_choice(const struct convolution_choice *choice)
{
    printf("%s engine %lld", choice->compiles ? "compiled" : "", (long long)choice->engine);
    for (int32_t k = 0; k < choice->knob_count; k++)
        printf("%c%d=%lld", k ? ',' : ' ', choice->knobs[k].type,
               (long long)choice->knobs[k].value);
}

/* ---- numbers --------------------------------------------------------------------------------- */

float draw(uint64_t stream, uint64_t index)
{
    struct philox bits = philox_draw(7, philox_stream(PHILOX_TEST, (uint32_t)stream), index);

    return 2 * philox_uniform(bits.word[0]) - 1;
}

static uint16_t to_bfloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bfloat16(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;

    memcpy(&result, &bits, sizeof result);
    return result;
}

size_t type_bytes(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 ? 4 : 2;
}

void store(void *to, int64_t index, float value, enum tensor_type type)
{
    if (type == TENSOR_FLOAT32)
        ((float *)to)[index] = value;
    else if (type == TENSOR_BFLOAT16)
        ((uint16_t *)to)[index] = to_bfloat16(value);
    else
        ((_Float16 *)to)[index] = (_Float16)value;
}

static float load(const void *from, int64_t index, enum tensor_type type)
{
    return type == TENSOR_FLOAT32    ? ((const float *)from)[index]
           : type == TENSOR_BFLOAT16 ? from_bfloat16(((const uint16_t *)from)[index])
                                     : (float)((const _Float16 *)from)[index];
}

/* ---- the reference --------------------------------------------------------------------------- */

static int64_t image_index(const int64_t extent[4], int64_t n, int64_t c, int64_t h, int64_t w)
{
    return ((n * extent[2] + h) * extent[3] + w) * extent[1] + c;
}

/* Adds every product to its sum; the arrays have the device's layout. */
static void add_products(const struct convolution_problem *p, double *x, double *weight, double *y)
{
    int64_t outputs = p->weight[0] / p->groups;

    for (int64_t n = 0; n < p->y[0]; n++)
        for (int64_t o = 0; o < p->y[1]; o++)
            for (int64_t i = 0; i < p->y[2]; i++)
                for (int64_t j = 0; j < p->y[3]; j++)
                    for (int64_t c = 0; c < p->weight[1]; c++)
                        for (int64_t k = 0; k < p->weight[2] * p->weight[3]; k++) {
                            int64_t r = k / p->weight[3], s = k % p->weight[3];
                            int64_t h = i * p->stride[0] - p->padding[0] + r * p->dilation[0];
                            int64_t w = j * p->stride[1] - p->padding[1] + s * p->dilation[1];
                            int64_t in = o / outputs * p->weight[1] + c;
                            double *px, *pw, *py;

                            if (h < 0 || w < 0 || h >= p->x[2] || w >= p->x[3])
                                continue;
                            px = &x[image_index(p->x, n, in, h, w)];
                            pw = &weight[image_index(p->weight, o, c, r, s)];
                            py = &y[image_index(p->y, n, o, i, j)];
                            if (p->pass == CONVOLUTION_FORWARD)
                                *py += *px * *pw;
                            else if (p->pass == CONVOLUTION_DATA)
                                *px += *py * *pw;
                            else
                                *pw += *px * *py;
                        }
}

/* ---- a problem on the device ----------------------------------------------------------------- */

void make_tensors(const struct convolution_problem *p, struct tensors *tensors)
{
    static const int result[] = {2, 0, 1};
    void **device[] = {&tensors->operands.x, &tensors->operands.weight, &tensors->operands.y};

    *tensors = (struct tensors){.extent = {p->x, p->weight, p->y}};
    for (int t = 0; t < 3; t++) {
        int64_t count = elements(tensors->extent[t]);
        enum tensor_type type = result[p->pass] == t ? p->result : p->type;
        void *host = calloc((size_t)count, type_bytes(type));

        tensors->type[t] = type;
        tensors->want[t] = calloc((size_t)count, sizeof(double));
        for (int64_t i = 0; i < count && result[p->pass] != t; i++) {
            store(host, i, draw((uint64_t)t + 1, (uint64_t)i), type);
            tensors->want[t][i] = load(host, i, type);
        }
        *device[t] = allocate_device((size_t)count * type_bytes(type));
        expect_cuda(
            cudaMemcpy(*device[t], host, (size_t)count * type_bytes(type), cudaMemcpyHostToDevice),
            "tensor");
        free(host);
    }
    tensors->bias = calloc((size_t)p->y[1], sizeof(float));
    for (int64_t o = 0; o < p->y[1]; o++)
        tensors->bias[o] = draw(9, (uint64_t)o);
    tensors->operands.bias = allocate_device((size_t)p->y[1] * sizeof(float));
    expect_cuda(cudaMemcpy(tensors->operands.bias, tensors->bias, (size_t)p->y[1] * sizeof(float),
                           cudaMemcpyHostToDevice),
                "bias");
    if (p->bias)
        for (int64_t i = 0; i < elements(p->y); i++)
            tensors->want[2][i] = tensors->bias[i % p->y[1]];
    add_products(p, tensors->want[0], tensors->want[1], tensors->want[2]);
}

void release_tensors(struct tensors *tensors)
{
    for (int t = 0; t < 3; t++)
        free(tensors->want[t]);
    free(tensors->bias);
    cudaFree(tensors->operands.x);
    cudaFree(tensors->operands.weight);
    cudaFree(tensors->operands.y);
    cudaFree(tensors->operands.bias);
}

double compare(const struct convolution_problem *p, const struct tensors *tensors)
{
    static const int result[] = {2, 0, 1};
    int t = result[p->pass];
    int64_t count = elements(tensors->extent[t]);
    size_t bytes = (size_t)count * type_bytes(tensors->type[t]);
    void *from[] = {tensors->operands.x, tensors->operands.weight, tensors->operands.y};
    void *host = malloc(bytes);
    double error = 0, scale = 0;

    expect_cuda(cudaMemcpy(host, from[t], bytes, cudaMemcpyDeviceToHost), "result");
    for (int64_t i = 0; i < count; i++) {
        double want = tensors->want[t][i], difference = load(host, i, tensors->type[t]) - want;

        error += difference * difference;
        scale += want * want;
    }
    free(host);
    return scale > 0 ? error / scale : error;
}

/* ---- our own kernels ------------------------------------------------------------------------- */

cudaError_t run_depthwise(const struct convolution_problem *p,
                          const struct convolution_operands *operands, bool accumulate,
                          cudaStream_t stream)
{
    const struct cuda_depthwise depthwise = {.type = (int)p->type,
                                             .batch = (int)p->x[0],
                                             .channels = (int)p->x[1],
                                             .height = (int)p->x[2],
                                             .width = (int)p->x[3],
                                             .out_height = (int)p->y[2],
                                             .out_width = (int)p->y[3],
                                             .kernel = (int)p->weight[2],
                                             .stride = (int)p->stride[0]};
    const struct cuda_depthwise_operands places = {.x = operands->x,
                                                   .y = operands->y,
                                                   .weight = operands->weight,
                                                   .bias = p->bias ? operands->bias : NULL,
                                                   .gradient = operands->weight,
                                                   .accumulate = accumulate,
                                                   .parts = operands->workspace,
                                                   .part_bytes = PART_BYTES};

    return cuda_depthwise(&depthwise, (enum cuda_depthwise_pass)p->pass, &places, stream);
}

cudaError_t run_stem(const struct convolution_problem *p,
                     const struct convolution_operands *operands, bool accumulate,
                     cudaStream_t stream)
{
    const struct cuda_stem stem = {.type = (int)p->type,
                                   .batch = (int)p->x[0],
                                   .channels = (int)p->x[1],
                                   .height = (int)p->x[2],
                                   .width = (int)p->x[3],
                                   .outputs = (int)p->y[1],
                                   .out_height = (int)p->y[2],
                                   .out_width = (int)p->y[3],
                                   .stride = (int)p->stride[0],
                                   .padding = (int)p->padding[0]};
    bool by_weights = p->pass == CONVOLUTION_WEIGHTS;
    const struct cuda_stem_operands places = {.x = operands->x,
                                              .weight = operands->weight,
                                              .y = operands->y,
                                              .bias = p->bias ? operands->bias : NULL,
                                              .gradient = by_weights ? operands->weight : NULL,
                                              .accumulate = accumulate,
                                              .parts = operands->workspace,
                                              .part_bytes = PART_BYTES};

    return cuda_stem_is_possible(&stem) ? cuda_stem(&stem, &places, stream) : cudaErrorInvalidValue;
}

cudaError_t run_weights_tf32(const struct convolution_problem *p,
                             const struct convolution_operands *operands, bool accumulate,
                             cudaStream_t stream)
{
    const struct cuda_weights_tf32 weights = {.batch = (int)p->x[0],
                                              .channels = (int)p->x[1],
                                              .height = (int)p->x[2],
                                              .width = (int)p->x[3],
                                              .outputs = (int)p->y[1]};
    const struct cuda_weights_tf32_operands places = {.x = operands->x,
                                                      .y = operands->y,
                                                      .gradient = operands->weight,
                                                      .accumulate = accumulate,
                                                      .parts = operands->workspace,
                                                      .part_bytes = PART_BYTES};

    return cuda_weights_tf32_is_possible(&weights) ? cuda_weights_tf32(&weights, &places, stream)
                                                   : cudaErrorInvalidValue;
}

static struct cuda_convolution convolution_of(const struct convolution_problem *p)
{
    struct cuda_convolution convolution = {.type = (int)p->type,
                                           .tf32 = p->tf32,
                                           .batch = (int)p->x[0],
                                           .channels = (int)p->x[1],
                                           .height = (int)p->x[2],
                                           .width = (int)p->x[3],
                                           .outputs = (int)p->y[1],
                                           .out_height = (int)p->y[2],
                                           .out_width = (int)p->y[3],
                                           .groups = p->groups};

    for (int i = 0; i < 2; i++) {
        convolution.kernel[i] = (int)p->weight[2 + i];
        convolution.stride[i] = (int)p->stride[i];
        convolution.padding[i] = (int)p->padding[i];
        convolution.dilation[i] = (int)p->dilation[i];
    }
    return convolution;
}

static struct cuda_depthwise_operands places_of(const struct convolution_problem *p,
                                                const struct convolution_operands *operands,
                                                bool accumulate)
{
    return (struct cuda_depthwise_operands){.x = operands->x,
                                            .y = operands->y,
                                            .weight = operands->weight,
                                            .bias = p->bias ? operands->bias : NULL,
                                            .gradient = operands->weight,
                                            .accumulate = accumulate,
                                            .parts = operands->workspace,
                                            .part_bytes = PART_BYTES};
}

cudaError_t run_direct(const struct convolution_problem *p,
                       const struct convolution_operands *operands, bool accumulate,
                       cudaStream_t stream)
{
    const struct cuda_convolution convolution = convolution_of(p);
    const struct cuda_depthwise_operands places = places_of(p, operands, accumulate);

    return cuda_direct_is_possible(&convolution, PART_BYTES)
               ? cuda_direct(&convolution, (enum cuda_depthwise_pass)p->pass, &places, stream)
               : cudaErrorInvalidValue;
}

cudaError_t run_narrow(const struct convolution_problem *p,
                       const struct convolution_operands *operands, bool accumulate,
                       cudaStream_t stream)
{
    const struct cuda_convolution convolution = convolution_of(p);
    const struct cuda_depthwise_operands places = places_of(p, operands, accumulate);

    return p->pass == CONVOLUTION_DATA && cuda_narrow_is_possible(&convolution)
               ? cuda_narrow_data(&convolution, &places, stream)
               : cudaErrorInvalidValue;
}

cudaError_t run_pointwise(const struct convolution_problem *p,
                          const struct convolution_operands *operands, bool accumulate,
                          cudaStream_t stream)
{
    const struct cuda_convolution convolution = convolution_of(p);
    const struct cuda_depthwise_operands places = places_of(p, operands, accumulate);

    return cuda_pointwise_convolution_is_possible(&convolution, PART_BYTES)
               ? cuda_pointwise_convolution(&convolution, (enum cuda_depthwise_pass)p->pass,
                                            &places, stream)
               : cudaErrorInvalidValue;
}

static cudaError_t run_implicit(const struct convolution_problem *p,
                                const struct convolution_operands *operands, bool accumulate,
                                int tile, cudaStream_t stream)
{
    const struct cuda_convolution convolution = convolution_of(p);
    const struct cuda_depthwise_operands places = places_of(p, operands, accumulate);
    enum cuda_depthwise_pass pass = (enum cuda_depthwise_pass)p->pass;

    return cuda_implicit_is_possible(&convolution, pass, PART_BYTES)
               ? cuda_implicit(&convolution, pass, tile, &places, stream)
               : cudaErrorInvalidValue;
}

cudaError_t run_implicit_tall(const struct convolution_problem *p,
                              const struct convolution_operands *operands, bool accumulate,
                              cudaStream_t stream)
{
    return run_implicit(p, operands, accumulate, 0, stream);
}

cudaError_t run_implicit_square(const struct convolution_problem *p,
                                const struct convolution_operands *operands, bool accumulate,
                                cudaStream_t stream)
{
    return run_implicit(p, operands, accumulate, 1, stream);
}

cudaError_t run_implicit_narrow(const struct convolution_problem *p,
                                const struct convolution_operands *operands, bool accumulate,
                                cudaStream_t stream)
{
    return run_implicit(p, operands, accumulate, 2, stream);
}

cudaError_t run_implicit_wide(const struct convolution_problem *p,
                              const struct convolution_operands *operands, bool accumulate,
                              cudaStream_t stream)
{
    return run_implicit(p, operands, accumulate, 3, stream);
}
