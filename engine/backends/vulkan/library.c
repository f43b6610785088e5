/* library.c: see library.h. */
#include "engine/backends/vulkan/library.h"

#include <dlfcn.h>
#include <stddef.h>

int vulkan_library_open(struct vulkan_library *library, struct error *error)
{
    library->handle = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return error_set(error, -ERROR_DEVICE_LOST,
                         "Vulkan's loader cannot be opened: %s (Debian: libvulkan1)", dlerror());
    *(void **)&library->GetInstanceProcAddr = dlsym(library->handle, "vkGetInstanceProcAddr");
    if (!library->GetInstanceProcAddr)
        return error_set(error, -ERROR_DEVICE_LOST, "libvulkan.so.1 is not Vulkan's loader");
#define LOAD(name) library->name = (PFN_vk##name)library->GetInstanceProcAddr(NULL, "vk" #name);
    VULKAN_GLOBAL_FUNCTIONS(LOAD)
#undef LOAD
    if (!library->CreateInstance || !library->EnumerateInstanceVersion)
        return error_set(error, -ERROR_DEVICE_LOST, "Vulkan's loader is older than Vulkan 1.1");
    return 0;
}

int vulkan_library_load_instance(struct vulkan_library *library, VkInstance instance,
                                 struct error *error)
{
#define LOAD(name)                                                                    \
    library->name = (PFN_vk##name)library->GetInstanceProcAddr(instance, "vk" #name); \
    if (!library->name)                                                               \
        return error_set(error, -ERROR_DEVICE_LOST, "Vulkan's loader has no vk%s()", #name);
    VULKAN_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    return 0;
}

int vulkan_library_load_device(struct vulkan_library *library, VkDevice device, struct error *error)
{
#define LOAD(name)                                                                \
    library->name = (PFN_vk##name)library->GetDeviceProcAddr(device, "vk" #name); \
    if (!library->name)                                                           \
        return error_set(error, -ERROR_DEVICE_LOST, "the driver has no vk%s()", #name);
    VULKAN_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return 0;
}

void vulkan_library_close(struct vulkan_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    library->handle = NULL;
}

/* The results of functions that the backend calls (Vulkan 1.3, "Return Codes"). */
static const struct {
    VkResult result;
    int code;
    const char *text;
} results[] = {
    {VK_ERROR_OUT_OF_HOST_MEMORY, ERROR_DEVICE_MEMORY, "the host has too little memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, ERROR_DEVICE_MEMORY, "the device has too little memory"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, ERROR_DEVICE_MEMORY, "the device has too little memory"},
    {VK_ERROR_TOO_MANY_OBJECTS, ERROR_DEVICE_MEMORY, "the driver allows no further objects"},
    {VK_ERROR_MEMORY_MAP_FAILED, ERROR_DEVICE_MEMORY, "memory cannot be mapped"},
    {VK_ERROR_DEVICE_LOST, ERROR_DEVICE_LOST,
     "the device is lost: its driver ended its work, which may have taken too long"},
    {VK_ERROR_INITIALIZATION_FAILED, ERROR_DEVICE_LOST, "the driver cannot be initialised"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, ERROR_DEVICE_LOST, "no driver for Vulkan is installed"},
    {VK_ERROR_LAYER_NOT_PRESENT, ERROR_DEVICE_LOST, "a layer is not installed"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, ERROR_UNSUPPORTED, "an extension is missing"},
    {VK_ERROR_FEATURE_NOT_PRESENT, ERROR_UNSUPPORTED, "a feature is missing"},
};

int vulkan_fail(struct error *error, VkResult result, const char *what)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result)
            return error_set(error, -results[i].code, "%s: %s", what, results[i].text);
    return error_set(error, -ERROR_DEVICE_FAILURE, "%s: Vulkan's error %d", what, (int)result);
}
