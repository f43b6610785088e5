/* pipeline_cache.c: keeps what the driver has compiled in a file, so that later processes need not
 * compile it again. The file has a header of ours and then the driver's data, which has a header of
 * its own. Whatever is wrong with the file, it is as if there were none. Processes that write it at
 * the same time take turns by a lock, and each adds what the others have written. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/backends/vulkan/vulkan.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

/* A file that has grown beyond this is not read any more, and so is begun anew. */
enum { KEPT_BYTES_MAX = 64 << 20 };

static const char file_magic[8] = "traindVC";

struct file_header {
    char magic[8];
    uint32_t driver_version, unused;
    uint64_t bytes, hash; /* of the driver's data */
};
_Static_assert(sizeof(struct file_header) == 32, "has no padding");

/* The driver's data in the content of a file. */
struct kept_data {
    const char *at;
    size_t bytes;
};

/* Whether this driver made the data, for this device (Vulkan 1.3, "Pipeline Cache Header"). */
static bool is_own(const struct backend_device *device, const struct kept_data *data)
{
    const VkPhysicalDeviceProperties *properties = &device->properties;
    VkPipelineCacheHeaderVersionOne header;

    if (data->bytes < sizeof header)
        return false;
    memcpy(&header, data->at, sizeof header);
    return header.headerSize >= sizeof header && header.headerSize <= data->bytes &&
           header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           header.vendorID == properties->vendorID && header.deviceID == properties->deviceID &&
           memcmp(header.pipelineCacheUUID, properties->pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* False: the file is damaged, or foreign. */
static bool find_data(const struct backend_device *device, const char *content, size_t size,
                      struct kept_data *data)
{
    struct file_header header;

    if (size < sizeof header)
        return false;
    memcpy(&header, content, sizeof header);
    *data = (struct kept_data){content + sizeof header, size - sizeof header};
    return memcmp(header.magic, file_magic, sizeof file_magic) == 0 &&
           header.driver_version == device->properties.driverVersion &&
           header.bytes == data->bytes &&
           header.hash == hash_bytes(HASH_START, data->at, data->bytes) && is_own(device, data);
}

/* Adds what the file has to the cache. Returns the bytes of the driver's data in it. */
static size_t read_file(struct backend_device *device)
{
    struct vulkan_pipeline_cache *cache = &device->cache;
    const struct vulkan_library *library = &device->library;
    AUTO_FREE char *content = NULL;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache kept = VK_NULL_HANDLE;
    struct kept_data data;
    struct error ignored;
    size_t size = 0;

    if (file_read(AT_FDCWD, cache->path, KEPT_BYTES_MAX, &content, &size, &ignored) < 0 ||
        !find_data(device, content, size, &data))
        return 0;
    info.initialDataSize = data.bytes;
    info.pInitialData = data.at;
    if (library->CreatePipelineCache(device->device, &info, NULL, &kept) == VK_SUCCESS) {
        library->MergePipelineCaches(device->device, cache->cache, 1, &kept);
        library->DestroyPipelineCache(device->device, kept, NULL);
    }
    return data.bytes;
}

/* Reads the driver's data into a fresh file's content, which the caller frees; NULL: it cannot. */
static char *file_content(struct backend_device *device, size_t *size)
{
    const struct vulkan_library *library = &device->library;
    struct file_header header = {.driver_version = device->properties.driverVersion};
    AUTO_FREE char *content = NULL;
    size_t bytes = 0;

    if (library->GetPipelineCacheData(device->device, device->cache.cache, &bytes, NULL) !=
        VK_SUCCESS)
        return NULL;
    content = malloc(sizeof header + bytes);
    if (!content || library->GetPipelineCacheData(device->device, device->cache.cache, &bytes,
                                                  content + sizeof header) != VK_SUCCESS)
        return NULL;
    memcpy(header.magic, file_magic, sizeof file_magic);
    header.bytes = bytes;
    header.hash = hash_bytes(HASH_START, content + sizeof header, bytes);
    memcpy(content, &header, sizeof header);
    *size = sizeof header + bytes;
    return TAKE_POINTER(content);
}

void pipeline_cache_save(struct backend_device *device)
{
    struct vulkan_pipeline_cache *cache = &device->cache;
    AUTO_FREE char *lock_path = NULL, *content = NULL;
    AUTO_CLOSE int lock = -1;
    struct error ignored;
    size_t size, known;

    if (!cache->path || !cache->grown || asprintf(&lock_path, "%s.lock", cache->path) < 0)
        return;
    lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* who writes may have been stopped: the next time, then */
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return;
    cache->grown = false;
    known = read_file(device);
    content = file_content(device, &size);
    if (content && size != sizeof(struct file_header) + known)
        file_replace(AT_FDCWD, cache->path, content, size, 0600, 0, &ignored);
}

int pipeline_cache_keep(struct backend_device *device, const char *folder, struct error *error)
{
    struct vulkan_pipeline_cache *cache = &device->cache;
    char *path;

    if (!folder)
        return 0;
    if (asprintf(&path, "%s/pipelines-vulkan-%04x-%04x-%d.bin", folder, device->properties.vendorID,
                 device->properties.deviceID, (int)device->driver.driverID) < 0)
        return error_no_memory(error, "the path of the cache");
    free(cache->path);
    cache->path = path;
    read_file(device);
    return 0;
}

int pipeline_cache_open(struct backend_device *device, const char *folder, struct error *error)
{
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkResult result =
        device->library.CreatePipelineCache(device->device, &info, NULL, &device->cache.cache);

    if (result != VK_SUCCESS)
        return vulkan_fail(error, result, "the cache of pipelines");
    return pipeline_cache_keep(device, folder, error);
}

void pipeline_cache_close(struct backend_device *device)
{
    if (device->cache.cache) {
        pipeline_cache_save(device);
        device->library.DestroyPipelineCache(device->device, device->cache.cache, NULL);
    }
    free(device->cache.path);
    device->cache = (struct vulkan_pipeline_cache){.cache = VK_NULL_HANDLE};
}
