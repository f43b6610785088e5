/* device.c: a device that a driver for Vulkan offers: opened, described, closed. */
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/times.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENSIONS_MAX = 512, FAMILIES_MAX = 32 };
enum { STAGING_BYTES = 4 << 20 };

/* ---- opening --------------------------------------------------------------------------------- */

static int create_instance(struct backend_device *device, struct error *error)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "traind",
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    VkResult result = device->library.CreateInstance(&info, NULL, &device->instance);

    if (result != VK_SUCCESS)
        return vulkan_fail(error, result, "Vulkan cannot be used");
    return vulkan_library_load_instance(&device->library, device->instance, error);
}

static int choose_physical(struct backend_device *device, int index, struct error *error)
{
    VkPhysicalDevice devices[VULKAN_DEVICES_MAX];
    int count = vulkan_physical_list(device, devices, error);

    if (count < 0)
        return count;
    if (index < 0 || index >= count)
        return error_set(error, -ERROR_DEVICE_LOST, "Vulkan has %d devices, and none is number %d",
                         count, index);
    device->physical = devices[index];
    return 0;
}

bool vulkan_device_has_extension(struct backend_device *device, const char *name)
{
    VkExtensionProperties *extensions = calloc(EXTENSIONS_MAX, sizeof *extensions);
    uint32_t count = EXTENSIONS_MAX;
    bool found = false;

    if (!extensions)
        return false;
    device->library.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, extensions);
    for (uint32_t i = 0; i < count && i < EXTENSIONS_MAX; i++)
        found |= strcmp(extensions[i].extensionName, name) == 0;
    free(extensions);
    return found;
}

void vulkan_device_read(struct backend_device *device)
{
    VkPhysicalDeviceMaintenance3Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &device->driver};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};

    device->driver = (VkPhysicalDeviceDriverProperties){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, .pNext = &limits};
    device->library.GetPhysicalDeviceProperties2(device->physical, &properties);
    device->library.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    device->driver.pNext = NULL;
    device->properties = properties.properties;
    device->memory = memory.memoryProperties;
    device->allocation_max = limits.maxMemoryAllocationSize;
    device->has_budget = vulkan_device_has_extension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

/* Fails if the device lacks what every shader needs; finds what some need. */
static int check_features(struct backend_device *device, struct error *error)
{
    VkPhysicalDeviceVulkan11Features storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &storage};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &features};
    const char *missing = NULL;

    if (device->properties.apiVersion < VK_API_VERSION_1_2)
        return error_set(error, -ERROR_UNSUPPORTED, "%s has Vulkan %u.%u; traind needs 1.2",
                         device->properties.deviceName,
                         VK_API_VERSION_MAJOR(device->properties.apiVersion),
                         VK_API_VERSION_MINOR(device->properties.apiVersion));
    device->library.GetPhysicalDeviceFeatures2(device->physical, &all);
    device->stores_halves = storage.storageBuffer16BitAccess;
    if (!features.bufferDeviceAddress)
        missing = "addresses of buffers (bufferDeviceAddress)";
    else if (!features.scalarBlockLayout)
        missing = "blocks without padding (scalarBlockLayout)";
    else if (!features.timelineSemaphore)
        missing = "timeline semaphores (timelineSemaphore)";
    return missing ? error_set(error, -ERROR_UNSUPPORTED, "the driver of %s has no %s",
                               device->properties.deviceName, missing)
                   : 0;
}

/* The family whose queues compute; one that does not draw, too, is preferred. */
static int choose_queue(struct backend_device *device, struct error *error)
{
    VkQueueFamilyProperties families[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX;
    int chosen = -1;

    device->library.GetPhysicalDeviceQueueFamilyProperties(device->physical, &count, families);
    for (int i = 0; i < (int)count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT &&
            (chosen < 0 || !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            chosen = i;
    if (chosen < 0)
        return error_set(error, -ERROR_UNSUPPORTED, "%s has no queue that computes",
                         device->properties.deviceName);
    device->queue_family = (uint32_t)chosen;
    return 0;
}

static int create_device(struct backend_device *device, struct error *error)
{
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = device->queue_family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const bool matrices = matrices_are_used(device);
    VkPhysicalDeviceVulkan11Features storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .storageBuffer16BitAccess = device->stores_halves};
    VkPhysicalDeviceVulkan12Features features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = &storage,
        .bufferDeviceAddress = VK_TRUE,
        .scalarBlockLayout = VK_TRUE,
        .timelineSemaphore = VK_TRUE,
        .shaderFloat16 = matrices,
        .vulkanMemoryModel = matrices,
        /* of atomic operations; without the model these need no feature */
        .vulkanMemoryModelDeviceScope = matrices};
    const VkPhysicalDeviceFeatures core = {.shaderInt16 = matrices};
    const char *extensions[1 + MATRICES_EXTENSIONS_MAX] = {VK_EXT_MEMORY_BUDGET_EXTENSION_NAME};
    struct matrices_features for_matrices;
    void *next = &features;
    const uint32_t extension_count =
        matrices_enable(device, &for_matrices, &next, extensions, device->has_budget);
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = next,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = extension_count,
                                     .ppEnabledExtensionNames = extensions,
                                     .pEnabledFeatures = &core};
    VkResult result = device->library.CreateDevice(device->physical, &info, NULL, &device->device);
    int r;

    if (result != VK_SUCCESS)
        return vulkan_fail(error, result, device->properties.deviceName);
    r = vulkan_library_load_device(&device->library, device->device, error);
    if (r == 0)
        device->library.GetDeviceQueue(device->device, device->queue_family, 0, &device->queue);
    return r;
}

/* What all programs share. */
static int create_objects(struct backend_device *device, struct error *error)
{
    const struct vulkan_library *library = &device->library;
    const VkCommandPoolCreateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                              .flags =
                                                  VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                              .queueFamilyIndex = device->queue_family};
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                       .size = VULKAN_PUSH_BYTES};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                             .pNext = &type};
    VkResult result =
        library->CreateCommandPool(device->device, &commands, NULL, &device->commands);

    if (result == VK_SUCCESS)
        result = library->CreatePipelineLayout(device->device, &layout, NULL, &device->layout);
    if (result == VK_SUCCESS)
        result = library->CreateSemaphore(device->device, &semaphore, NULL, &device->timeline);
    if (result != VK_SUCCESS)
        return vulkan_fail(error, result, device->properties.deviceName);
    return vulkan_memory_allocate(device, STAGING_BYTES, true, &device->staging, error);
}

/* Which tile products take is measured on GPUs, and kept for this device and driver. Tests have it
 * measured on a driver in software, too, or name a tile. */
static bool name_choices(const struct backend_device *device, const char *folder,
                         char path[PATH_MAX])
{
    const VkPhysicalDeviceProperties *properties = &device->properties;

    return folder && snprintf(path, PATH_MAX, "%s/products-vulkan-%04x-%04x-%u.txt", folder,
                              properties->vendorID, properties->deviceID,
                              properties->driverVersion) < PATH_MAX;
}

static int open_choices(struct backend_device *device, const char *folder, struct error *error)
{
    const char *wanted = getenv("TRAIND_VULKAN_TILE");
    char path[PATH_MAX];

    if (wanted)
        snprintf(device->tile, sizeof device->tile, "%s", wanted);
    device->measures = device->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU ||
                       strcmp(device->tile, "measure") == 0;
    return choice_table_open(name_choices(device, folder, path) ? path : NULL, &device->choices,
                             error);
}

int vulkan_device_begin(struct backend_device *device, struct error *error)
{
    int r = vulkan_library_open(&device->library, error);

    return r < 0 ? r : create_instance(device, error);
}

int vulkan_device_open(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error)
{
    struct backend_device *opened = calloc(1, sizeof *opened);
    int r;

    if (!opened)
        return error_no_memory(error, "the device");
    if (config->name)
        snprintf(opened->name, sizeof opened->name, "%s", config->name);
    else
        snprintf(opened->name, sizeof opened->name, "vulkan:%d", config->index);
    r = vulkan_device_begin(opened, error);
    if (r == 0)
        r = choose_physical(opened, config->index, error);
    if (r == 0) {
        vulkan_device_read(opened);
        r = check_features(opened, error);
    }
    if (r == 0) {
        matrices_find(opened);
        r = choose_queue(opened, error);
    }
    if (r == 0)
        r = create_device(opened, error);
    if (r == 0)
        r = create_objects(opened, error);
    if (r == 0)
        times_open(opened);
    if (r == 0)
        r = pipeline_cache_open(opened, config->cache_folder, error);
    if (r == 0)
        r = open_choices(opened, config->cache_folder, error);
    if (r < 0) {
        vulkan_device_close(opened);
        return r;
    }
    *device = opened;
    return 0;
}

void vulkan_device_close(struct backend_device *device)
{
    const struct vulkan_library *library;

    if (!device)
        return;
    library = &device->library;
    if (device->device && library->DestroyDevice && library->WaitSemaphores) {
        library->DeviceWaitIdle(device->device);
        times_close(device);
        vulkan_memory_free(device, &device->staging);
        pipelines_free(device);
        pipeline_cache_close(device);
        if (device->timeline)
            library->DestroySemaphore(device->device, device->timeline, NULL);
        if (device->layout)
            library->DestroyPipelineLayout(device->device, device->layout, NULL);
        if (device->commands)
            library->DestroyCommandPool(device->device, device->commands, NULL);
        library->DestroyDevice(device->device, NULL);
    }
    if (device->instance && library->DestroyInstance)
        library->DestroyInstance(device->instance, NULL);
    vulkan_library_close(&device->library);
    choice_table_close(device->choices);
    free(device);
}

/* Any thread may use the device. */
int vulkan_device_enter(struct backend_device *device, const char *cache_folder,
                        struct error *error)
{
    char path[PATH_MAX];

    if (name_choices(device, cache_folder, path))
        choice_table_keep(device->choices, path);
    return pipeline_cache_keep(device, cache_folder, error);
}

/* ---- describing ------------------------------------------------------------------------------ */

bool vulkan_device_shares_memory(const struct backend_device *device)
{
    return device->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           device->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

const char *vulkan_device_type(const struct backend_device *device)
{
    switch (device->properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "cpu";
    default:
        return "other";
    }
}

/* The heap of the arena: the largest that is the device's own. */
static uint32_t device_heap(const struct backend_device *device)
{
    uint32_t best = 0;
    VkDeviceSize most = 0;

    for (uint32_t i = 0; i < device->memory.memoryHeapCount; i++)
        if (device->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            device->memory.memoryHeaps[i].size > most) {
            most = device->memory.memoryHeaps[i].size;
            best = i;
        }
    return best;
}

/* The driver's name and version, a word each. */
static void write_version(char *text, size_t size, const VkPhysicalDeviceDriverProperties *driver)
{
    const size_t name = strlen(driver->driverName);

    snprintf(text, size, "%.100s %.100s", driver->driverName, driver->driverInfo);
    for (size_t i = 0; text[i]; i++)
        if (text[i] == ' ' && i != name)
            text[i] = '-';
}

void vulkan_device_describe(struct backend_device *device, struct backend_device_info *info)
{
    const uint32_t version = device->properties.apiVersion;
    const unsigned types = types_of_device(device);
    /* less traffic is of use to a GPU, not to a driver in software */
    const unsigned fast = device->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU
                              ? 0
                              : types & ~(1u << TENSOR_FLOAT32);

    *info = (struct backend_device_info){.memory_bytes =
                                             device->memory.memoryHeaps[device_heap(device)].size,
                                         .owns_memory = !vulkan_device_shares_memory(device),
                                         .compute_types = types,
                                         .fast_linear_types = fast,
                                         .fast_convolution_types = fast,
                                         .rounds_parameters = true};
    snprintf(info->name, sizeof info->name, "%s", device->name);
    snprintf(info->model, sizeof info->model, "%.127s", device->properties.deviceName);
    snprintf(info->features, sizeof info->features, "%s vulkan-%u.%u%s%s%s",
             vulkan_device_type(device), VK_API_VERSION_MAJOR(version),
             VK_API_VERSION_MINOR(version), device->stores_halves ? " storage-16-bit" : "",
             device->matrices.float16.m ? " matrices-float16" : "",
             device->matrices.bfloat16.m ? " matrices-bfloat16" : "");
    write_version(info->versions, sizeof info->versions, &device->driver);
}

uint64_t vulkan_device_memory_used(struct backend_device *device)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};

    if (!device->has_budget || vulkan_device_shares_memory(device))
        return 0;
    device->library.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    return budget.heapUsage[device_heap(device)];
}
