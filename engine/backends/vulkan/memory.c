/* memory.c: memory of the device. */
#include "engine/backends/vulkan/vulkan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The types of memory to be tried, the best first: sets of properties. */
static const VkMemoryPropertyFlags on_device[] = {
    /* unified memory, or all of a GPU's memory within reach of the host */
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
static const VkMemoryPropertyFlags on_host_side[] = {
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
        VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT};

/* The first type of `allowed` that has these properties and whose heap is large enough, or -1. */
static int find_type(const struct backend_device *device, uint32_t allowed,
                     VkMemoryPropertyFlags properties, size_t bytes)
{
    const VkPhysicalDeviceMemoryProperties *memory = &device->memory;

    for (uint32_t i = 0; i < memory->memoryTypeCount; i++)
        if (allowed >> i & 1 && (memory->memoryTypes[i].propertyFlags & properties) == properties &&
            memory->memoryHeaps[memory->memoryTypes[i].heapIndex].size >= bytes)
            return (int)i;
    return -1;
}

static int create_buffer(struct backend_device *device, size_t bytes, struct vulkan_memory *memory,
                         struct error *error)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    VkResult result = device->library.CreateBuffer(device->device, &info, NULL, &memory->buffer);

    return result == VK_SUCCESS ? 0 : vulkan_fail(error, result, "a buffer");
}

/* Allocates memory of the first type that the driver grants. */
static VkResult allocate_any(struct backend_device *device, const VkMemoryPropertyFlags *wanted,
                             int count, const VkMemoryRequirements *needs,
                             struct vulkan_memory *memory, bool *mappable)
{
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;

    for (int i = 0; i < count; i++) {
        int type = find_type(device, needs->memoryTypeBits, wanted[i], needs->size);
        const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = &flags,
                                           .allocationSize = needs->size,
                                           .memoryTypeIndex = (uint32_t)type};

        if (type < 0)
            continue;
        *mappable = (wanted[i] & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
        result = device->library.AllocateMemory(device->device, &info, NULL, &memory->memory);
        if (result == VK_SUCCESS)
            return result;
    }
    return result;
}

int vulkan_memory_allocate(struct backend_device *device, size_t bytes, bool on_host,
                           struct vulkan_memory *memory, struct error *error)
{
    const struct vulkan_library *library = &device->library;
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    VkMemoryRequirements needs;
    bool mappable = false;
    VkResult result;
    int r;

    *memory = (struct vulkan_memory){.bytes = bytes};
    if (bytes > device->allocation_max)
        return error_set(error, -ERROR_DEVICE_MEMORY,
                         "%zu bytes are wanted, and the driver allocates at most %llu at once",
                         bytes, (unsigned long long)device->allocation_max);
    r = create_buffer(device, bytes, memory, error);
    if (r < 0)
        return r;
    library->GetBufferMemoryRequirements(device->device, memory->buffer, &needs);
    result = on_host
                 ? allocate_any(device, on_host_side, sizeof on_host_side / sizeof *on_host_side,
                                &needs, memory, &mappable)
                 : allocate_any(device, on_device, sizeof on_device / sizeof *on_device, &needs,
                                memory, &mappable);
    if (result == VK_SUCCESS)
        result = library->BindBufferMemory(device->device, memory->buffer, memory->memory, 0);
    if (result == VK_SUCCESS && mappable)
        result = library->MapMemory(device->device, memory->memory, 0, VK_WHOLE_SIZE, 0,
                                    (void **)&memory->mapped);
    if (result != VK_SUCCESS) {
        vulkan_memory_free(device, memory);
        return vulkan_fail(error, result, "memory of the device");
    }
    address.buffer = memory->buffer;
    memory->address = library->GetBufferDeviceAddress(device->device, &address);
    return 0;
}

void vulkan_memory_free(struct backend_device *device, struct vulkan_memory *memory)
{
    if (memory->buffer)
        device->library.DestroyBuffer(device->device, memory->buffer, NULL);
    if (memory->memory) /* which unmaps it */
        device->library.FreeMemory(device->device, memory->memory, NULL);
    *memory = (struct vulkan_memory){.buffer = VK_NULL_HANDLE};
}

/* Copies a piece through the staging memory. */
static int copy_piece(struct backend_device *device, const struct vulkan_memory *memory,
                      size_t offset, void *host, size_t bytes, bool write, struct error *error)
{
    const VkBufferCopy copy = {
        .srcOffset = write ? 0 : offset, .dstOffset = write ? offset : 0, .size = bytes};
    VkBuffer staging = device->staging.buffer;
    VkCommandBuffer commands;
    int r = queue_begin(device, false, &commands, error);

    if (r < 0)
        return r;
    if (write)
        memcpy(device->staging.mapped, host, bytes);
    device->library.CmdCopyBuffer(commands, write ? staging : memory->buffer,
                                  write ? memory->buffer : staging, 1, &copy);
    r = queue_finish(device, commands, error);
    if (r == 0 && !write)
        memcpy(host, device->staging.mapped, bytes);
    return r;
}

int vulkan_memory_copy(struct backend_device *device, const struct vulkan_memory *memory,
                       size_t offset, void *host, size_t bytes, bool write, struct error *error)
{
    const size_t piece = device->staging.bytes;
    int r = 0;

    if (memory->mapped) {
        memcpy(write ? memory->mapped + offset : host, write ? host : memory->mapped + offset,
               bytes);
        return 0;
    }
    for (size_t first = 0; r == 0 && first < bytes; first += piece)
        r = copy_piece(device, memory, offset + first, (char *)host + first,
                       bytes - first < piece ? bytes - first : piece, write, error);
    return r;
}

static int clear(struct backend_device *device, const struct vulkan_memory *memory,
                 struct error *error)
{
    VkCommandBuffer commands;
    int r = queue_begin(device, false, &commands, error);

    if (r < 0)
        return r;
    device->library.CmdFillBuffer(commands, memory->buffer, 0, VK_WHOLE_SIZE, 0);
    return queue_finish(device, commands, error);
}

int vulkan_buffer_create(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error)
{
    struct backend_buffer *made = calloc(1, sizeof *made);
    int r;

    if (!made)
        return error_no_memory(error, "the buffer");
    made->device = device;
    bytes = bytes ? bytes : MEMORY_ALIGNMENT;
    made->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->host == MAP_FAILED) {
        free(made);
        return error_no_memory(error, "the buffer");
    }
    r = vulkan_memory_allocate(device, bytes, false, &made->memory, error);
    made->memory.bytes = bytes;
    if (r == 0)
        r = clear(device, &made->memory, error);
    if (r < 0) {
        vulkan_buffer_free(made);
        return r;
    }
    *buffer = made;
    return 0;
}

void vulkan_buffer_free(struct backend_buffer *buffer)
{
    if (!buffer)
        return;
    buffer->device->library.DeviceWaitIdle(buffer->device->device);
    munmap(buffer->host, buffer->memory.bytes);
    vulkan_memory_free(buffer->device, &buffer->memory);
    free(buffer);
}

void *vulkan_buffer_host(struct backend_buffer *buffer)
{
    return buffer->host;
}
