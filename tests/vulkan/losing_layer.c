/* losing_layer.c: a layer of Vulkan that loses the device, for tests of what becomes of a job then.
 * Once the file that LOSING_LAYER_FILE names exists, submissions and waits end as they do when a
 * driver gives up: with VK_ERROR_DEVICE_LOST, or VK_ERROR_OUT_OF_DEVICE_MEMORY if the file's name
 * ends with "memory". The driver below never hears of it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkQueueSubmit next_submit;
static PFN_vkWaitSemaphores next_wait;

static VkResult failure(void)
{
    const char *file = getenv("LOSING_LAYER_FILE");

    if (!file || access(file, F_OK) != 0)
        return VK_SUCCESS;
    return strlen(file) > 6 && strcmp(file + strlen(file) - 6, "memory") == 0
               ? VK_ERROR_OUT_OF_DEVICE_MEMORY
               : VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo *submissions, VkFence fence)
{
    VkResult result = failure();

    return result == VK_SUCCESS ? next_submit(queue, count, submissions, fence) : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice device,
                                                      const VkSemaphoreWaitInfo *info,
                                                      uint64_t timeout)
{
    VkResult result = failure();

    return result == VK_SUCCESS ? next_wait(device, info, timeout) : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkInstance *instance)
{
    VkLayerInstanceCreateInfo *chain = (VkLayerInstanceCreateInfo *)info->pNext;
    PFN_vkCreateInstance create;

    while (chain && !(chain->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
                      chain->function == VK_LAYER_LINK_INFO))
        chain = (VkLayerInstanceCreateInfo *)chain->pNext;
    if (!chain)
        return VK_ERROR_INITIALIZATION_FAILED;
    next_instance = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
    create = (PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance");
    return create(info, allocator, instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkDevice *device)
{
    VkLayerDeviceCreateInfo *chain = (VkLayerDeviceCreateInfo *)info->pNext;
    PFN_vkCreateDevice create;
    VkResult result;

    while (chain && !(chain->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
                      chain->function == VK_LAYER_LINK_INFO))
        chain = (VkLayerDeviceCreateInfo *)chain->pNext;
    if (!chain)
        return VK_ERROR_INITIALIZATION_FAILED;
    next_device = chain->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    create =
        (PFN_vkCreateDevice)chain->u.pLayerInfo->pfnNextGetInstanceProcAddr(NULL, "vkCreateDevice");
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
    result = create(physical, info, allocator, device);
    if (result != VK_SUCCESS)
        return result;
    next_submit = (PFN_vkQueueSubmit)next_device(*device, "vkQueueSubmit");
    next_wait = (PFN_vkWaitSemaphores)next_device(*device, "vkWaitSemaphores");
    return result;
}

static PFN_vkVoidFunction own(const char *name);

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name)
{
    PFN_vkVoidFunction function = own(name);

    return function ? function : next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance,
                                                                  const char *name)
{
    PFN_vkVoidFunction function = own(name);

    return function ? function : next_instance(instance, name);
}

static PFN_vkVoidFunction own(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)instance_function},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)device_function},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
        {"vkWaitSemaphores", (PFN_vkVoidFunction)wait_semaphores},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return NULL;
}

__attribute__((visibility("default"))) VkResult
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *layer)
{
    layer->loaderLayerInterfaceVersion = 2;
    layer->pfnGetInstanceProcAddr = instance_function;
    layer->pfnGetDeviceProcAddr = device_function;
    return VK_SUCCESS;
}
