/* library.h: Vulkan's functions. The loader, libvulkan.so.1, is opened at run time, so that traind
 * neither needs it to be installed nor to start. */
#pragma once

#include "base/error.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

/* The functions that the backend calls, without their prefix, by what has to exist before they can
 * be found: the loader alone, nothing else, an instance, a device. */
#define VULKAN_LOADER_FUNCTIONS(FUNCTION) FUNCTION(GetInstanceProcAddr)
#define VULKAN_GLOBAL_FUNCTIONS(FUNCTION) \
    FUNCTION(CreateInstance)              \
    FUNCTION(EnumerateInstanceVersion)
#define VULKAN_INSTANCE_FUNCTIONS(FUNCTION)      \
    FUNCTION(CreateDevice)                       \
    FUNCTION(DestroyInstance)                    \
    FUNCTION(EnumerateDeviceExtensionProperties) \
    FUNCTION(EnumeratePhysicalDevices)           \
    FUNCTION(GetDeviceProcAddr)                  \
    FUNCTION(GetPhysicalDeviceFeatures2)         \
    FUNCTION(GetPhysicalDeviceMemoryProperties2) \
    FUNCTION(GetPhysicalDeviceProperties2)       \
    FUNCTION(GetPhysicalDeviceQueueFamilyProperties)
#define VULKAN_DEVICE_FUNCTIONS(FUNCTION) \
    FUNCTION(AllocateCommandBuffers)      \
    FUNCTION(AllocateMemory)              \
    FUNCTION(BeginCommandBuffer)          \
    FUNCTION(BindBufferMemory)            \
    FUNCTION(CmdBindPipeline)             \
    FUNCTION(CmdCopyBuffer)               \
    FUNCTION(CmdDispatch)                 \
    FUNCTION(CmdFillBuffer)               \
    FUNCTION(CmdPipelineBarrier)          \
    FUNCTION(CmdPushConstants)            \
    FUNCTION(CmdResetQueryPool)           \
    FUNCTION(CmdWriteTimestamp)           \
    FUNCTION(CreateBuffer)                \
    FUNCTION(CreateCommandPool)           \
    FUNCTION(CreateComputePipelines)      \
    FUNCTION(CreatePipelineCache)         \
    FUNCTION(CreatePipelineLayout)        \
    FUNCTION(CreateQueryPool)             \
    FUNCTION(CreateSemaphore)             \
    FUNCTION(CreateShaderModule)          \
    FUNCTION(DestroyBuffer)               \
    FUNCTION(DestroyCommandPool)          \
    FUNCTION(DestroyDevice)               \
    FUNCTION(DestroyPipeline)             \
    FUNCTION(DestroyPipelineCache)        \
    FUNCTION(DestroyPipelineLayout)       \
    FUNCTION(DestroyQueryPool)            \
    FUNCTION(DestroySemaphore)            \
    FUNCTION(DestroyShaderModule)         \
    FUNCTION(DeviceWaitIdle)              \
    FUNCTION(EndCommandBuffer)            \
    FUNCTION(FreeCommandBuffers)          \
    FUNCTION(FreeMemory)                  \
    FUNCTION(GetBufferDeviceAddress)      \
    FUNCTION(GetBufferMemoryRequirements) \
    FUNCTION(GetDeviceQueue)              \
    FUNCTION(GetPipelineCacheData)        \
    FUNCTION(GetQueryPoolResults)         \
    FUNCTION(MapMemory)                   \
    FUNCTION(MergePipelineCaches)         \
    FUNCTION(QueueSubmit)                 \
    FUNCTION(WaitSemaphores)

struct vulkan_library {
    void *handle; /* dlopen() */
#define MEMBER(name) PFN_vk##name name;
    VULKAN_LOADER_FUNCTIONS(MEMBER)
    VULKAN_GLOBAL_FUNCTIONS(MEMBER)
    VULKAN_INSTANCE_FUNCTIONS(MEMBER)
    VULKAN_DEVICE_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Opens the loader. -ERROR_DEVICE_LOST: the machine has none. */
int vulkan_library_open(struct vulkan_library *library, struct error *error);
/* Finds the functions of an instance, and those of a device. -ERROR_DEVICE_LOST: one is missing. */
int vulkan_library_load_instance(struct vulkan_library *library, VkInstance instance,
                                 struct error *error);
int vulkan_library_load_device(struct vulkan_library *library, VkDevice device,
                               struct error *error);
void vulkan_library_close(struct vulkan_library *library);

/* Stores "<what>: <the result>" with the kind of error that backend.h has for it; returns its
 * code. */
int vulkan_fail(struct error *error, VkResult result, const char *what);
