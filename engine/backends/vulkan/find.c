/* find.c: the devices that drivers for Vulkan offer, without opening any. */
#include "engine/backends/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variable by which the daemon says which devices a job sees. */
static const char visible_variable[] = "TRAIND_VULKAN_DEVICES";

/* "vulkan-" and the UUID. CUDA has the same UUID for the same GPU. */
static void read_id(const struct backend_device *device, VkPhysicalDevice physical,
                    char id[VULKAN_ID_MAX])
{
    static const char dash_after[VK_UUID_SIZE] = {[3] = 1, [5] = 1, [7] = 1, [9] = 1};
    VkPhysicalDeviceIDProperties identity = {.sType =
                                                 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &identity};
    int used = snprintf(id, VULKAN_ID_MAX, "vulkan-");

    device->library.GetPhysicalDeviceProperties2(physical, &properties);
    for (int i = 0; i < (int)VK_UUID_SIZE; i++)
        used += snprintf(id + used, (size_t)(VULKAN_ID_MAX - used), "%02x%s",
                         identity.deviceUUID[i], dash_after[i] ? "-" : "");
}

int vulkan_physical_list(struct backend_device *device, VkPhysicalDevice *list, struct error *error)
{
    const char *visible = getenv(visible_variable);
    uint32_t count = VULKAN_DEVICES_MAX;
    VkResult result = device->library.EnumeratePhysicalDevices(device->instance, &count, list);
    int kept = 0;

    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return vulkan_fail(error, result, "the devices of Vulkan");
    for (uint32_t i = 0; i < count; i++) {
        char id[VULKAN_ID_MAX];

        read_id(device, list[i], id);
        if (!visible || strstr(visible, id))
            list[kept++] = list[i];
    }
    return kept;
}

static void read_heaps(struct backend_device *device, struct backend_found_device *found)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = device->has_budget ? &budget : NULL};

    device->library.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    found->heap_count = (int)memory.memoryProperties.memoryHeapCount;
    for (int i = 0; i < found->heap_count; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];

        found->heaps[i] =
            (struct backend_heap){.on_device = (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0,
                                  .bytes = heap->size,
                                  .budget = budget.heapBudget[i],
                                  .used = budget.heapUsage[i]};
    }
}

static void describe(struct backend_device *device, int index, struct backend_found_device *found)
{
    struct backend_device_info info;

    vulkan_device_read(device);
    vulkan_device_describe(device, &info);
    *found = (struct backend_found_device){.index = index,
                                           .is_software = device->properties.deviceType ==
                                                          VK_PHYSICAL_DEVICE_TYPE_CPU,
                                           .shares_memory = vulkan_device_shares_memory(device)};
    read_id(device, device->physical, found->id);
    snprintf(found->type, sizeof found->type, "%s", vulkan_device_type(device));
    snprintf(found->model, sizeof found->model, "%s", info.model);
    snprintf(found->features, sizeof found->features, "%s", info.features);
    snprintf(found->driver, sizeof found->driver, "%.60s %.60s", device->driver.driverName,
             device->driver.driverInfo);
    read_heaps(device, found);
}

int vulkan_devices_find(struct backend_found_device *devices, int limit, struct error *error)
{
    struct backend_device *device = calloc(1, sizeof *device);
    VkPhysicalDevice list[VULKAN_DEVICES_MAX] = {VK_NULL_HANDLE};
    int count;

    if (!device)
        return error_no_memory(error, "the devices of Vulkan");
    count = vulkan_device_begin(device, error);
    if (count == 0)
        count = vulkan_physical_list(device, list, error);
    count = count > limit ? limit : count;
    for (int i = 0; i < count; i++) {
        device->physical = list[i];
        describe(device, i, &devices[i]);
    }
    vulkan_device_close(device);
    return count;
}
