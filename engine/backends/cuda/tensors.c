/* tensors.c: copies tensors between host and device. On the host they are float32 or integers in
 * PyTorch's order; on the device they have the program's types and layouts. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>

static bool lies_as_given(const struct backend_program *program, int32_t tensor)
{
    struct cuda_layout layout = program_layout(program, tensor);
    enum tensor_type type = program_stored_type(program, tensor);

    return type != TENSOR_BFLOAT16 && type != TENSOR_FLOAT16 &&
           (layout.channels == 1 || layout.pixels == 1);
}

/* The bytes of an element on the host. */
static size_t canonical_bytes(const struct backend_program *program, int32_t tensor)
{
    enum tensor_type type = program_stored_type(program, tensor);

    return type == TENSOR_INT32 || type == TENSOR_UINT8 ? tensor_type_bytes(type) : sizeof(float);
}

static cudaError_t copy_plain(struct backend_program *program, int32_t tensor, void *canonical,
                              bool write)
{
    size_t bytes = (size_t)program_elements(program, tensor) * canonical_bytes(program, tensor);
    char *place = program->address[tensor];
    cudaStream_t stream = program->device->stream;

    return write ? cudaMemcpyAsync(place, canonical, bytes, cudaMemcpyHostToDevice, stream)
                 : cudaMemcpyAsync(canonical, place, bytes, cudaMemcpyDeviceToHost, stream);
}

/* Copies piece by piece through the scratch, where the numbers are in PyTorch's order. */
static cudaError_t copy_converted(struct backend_program *program, int32_t tensor, float *canonical,
                                  bool write)
{
    const struct cuda_array scratch = {.at = program->scratch, .type = TENSOR_FLOAT32};
    const struct cuda_array stored = program_array(program, tensor);
    const struct cuda_layout layout = program_layout(program, tensor);
    const int64_t piece = CUDA_PRODUCT_SCRATCH / sizeof(float);
    int64_t elements = program_elements(program, tensor);
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;

    for (int64_t first = 0; status == cudaSuccess && first < elements; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        size_t bytes = (size_t)count * sizeof(float);

        if (write) {
            status = cudaMemcpyAsync(program->scratch, canonical + first, bytes,
                                     cudaMemcpyHostToDevice, stream);
            if (status == cudaSuccess)
                status = cuda_layout_store(layout, scratch, stored, first, count, stream);
        } else {
            status = cuda_layout_load(layout, stored, scratch, first, count, stream);
            if (status == cudaSuccess)
                status = cudaMemcpyAsync(canonical + first, program->scratch, bytes,
                                         cudaMemcpyDeviceToHost, stream);
        }
    }
    return status;
}

static int copy_tensor(struct backend_program *program, int32_t tensor, void *canonical, bool write,
                       struct error *error)
{
    const struct graph_tensor *t = &program->graph->tensors[tensor];
    cudaError_t status;

    if (!program->address[tensor])
        return error_set(error, -EINVAL, "the tensor %s has no place on the device", t->name);
    status = lies_as_given(program, tensor) ? copy_plain(program, tensor, canonical, write)
                                            : copy_converted(program, tensor, canonical, write);
    if (status == cudaSuccess)
        status = cudaStreamSynchronize(program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, t->name);
}

int cuda_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                      struct error *error)
{
    if (program->graph->tensors[tensor].role == TENSOR_INPUT)
        return error_set(error, -EINVAL, "input is set by program_set_input, not tensor_write");
    return copy_tensor(program, tensor, (void *)canonical, true, error);
}

int cuda_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                     struct error *error)
{
    return copy_tensor(program, tensor, canonical, false, error);
}

int program_convert_input(struct backend_program *program, const void *from, struct error *error)
{
    const struct cuda_array staged = {.at = (void *)from, .type = TENSOR_FLOAT32};
    int32_t input = program->graph->input;
    cudaError_t status;

    status =
        cuda_layout_store(program_layout(program, input), staged, program_array(program, input), 0,
                          program_elements(program, input), program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the samples");
}
