/* tensors.c: copies tensors between host and device. What the device stores in 16 bits is float32
 * on the host. */
#include "engine/backends/vulkan/vulkan.h"

#include <errno.h>
#include <string.h>

/* Converts a piece of a tensor of 16 bits, from element `first` on, in the staging memory. */
static int convert_piece(struct backend_program *program, int32_t tensor, int64_t first,
                         float *canonical, int64_t count, bool write, struct error *error)
{
    struct backend_device *device = program->device;
    const VkDeviceAddress place = address_behind(program_address(program, tensor), first);
    const VkDeviceAddress staging = device->staging.address;
    const size_t bytes = (size_t)count * sizeof *canonical;
    struct recorder recorder = {.program = program};
    int r = queue_begin(device, false, &recorder.commands, error);

    if (r < 0)
        return r;
    if (write)
        memcpy(device->staging.mapped, canonical, bytes);
    r = record_copy(&recorder, write ? staging : place, write ? place : staging, count, error);
    if (r < 0) {
        queue_discard(device, recorder.commands);
        return r;
    }
    r = queue_finish(device, recorder.commands, error);
    if (r == 0 && !write)
        memcpy(canonical, device->staging.mapped, bytes);
    return r;
}

static int convert_tensor(struct backend_program *program, int32_t tensor, float *canonical,
                          bool write, struct error *error)
{
    const int64_t count = program_elements(program, tensor);
    const int64_t piece = (int64_t)(program->device->staging.bytes / sizeof *canonical);
    int r = 0;

    for (int64_t first = 0; r == 0 && first < count; first += piece)
        r = convert_piece(program, tensor, first, canonical + first,
                          count - first < piece ? count - first : piece, write, error);
    return r;
}

static int copy_tensor(struct backend_program *program, int32_t tensor, void *canonical, bool write,
                       struct error *error)
{
    const struct graph_tensor *t = &program->graph->tensors[tensor];
    size_t bytes = (size_t)program_elements(program, tensor) * tensor_type_bytes(t->type);
    int r = program_collect(program, error);

    if (r < 0)
        return r;
    if (!program->address[tensor])
        return error_set(error, -EINVAL, "the tensor %s has no place on the device", t->name);
    if (program_is_half(program, tensor))
        return convert_tensor(program, tensor, canonical, write, error);
    r = queue_wait(program->device, program->device->submitted, error); /* of other programs */
    return r < 0 ? r
                 : vulkan_memory_copy(program->device, &program->buffer->memory,
                                      program->address[tensor] - program->buffer->memory.address,
                                      canonical, bytes, write, error);
}

int vulkan_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                        struct error *error)
{
    if (program->graph->tensors[tensor].role == TENSOR_INPUT)
        return error_set(error, -EINVAL, "input is set by program_set_input, not tensor_write");
    return copy_tensor(program, tensor, (void *)canonical, true, error);
}

int vulkan_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                       struct error *error)
{
    return copy_tensor(program, tensor, canonical, false, error);
}
