/* plugin.c: the Vulkan backend as a plugin, build/lib/traind-vulkan.so, which is loaded at run
 * time. */
#include "engine/backends/vulkan/vulkan.h"

const struct backend *traind_backend(void);

__attribute__((visibility("default"))) const struct backend *traind_backend(void)
{
    static const struct backend backend = {
        .interface_version = BACKEND_INTERFACE_VERSION,
        .name = "vulkan",
        .devices_find = vulkan_devices_find,
        .device_open = vulkan_device_open,
        .device_close = vulkan_device_close,
        .device_enter = vulkan_device_enter,
        .device_describe = vulkan_device_describe,
        .device_memory_used = vulkan_device_memory_used,
        .supports = vulkan_supports,
        .program_prepare = vulkan_program_prepare,
        .program_free = vulkan_program_free,
        .program_memory = vulkan_program_memory,
        .buffer_create = vulkan_buffer_create,
        .buffer_free = vulkan_buffer_free,
        .buffer_host = vulkan_buffer_host,
        .program_bind = vulkan_program_bind,
        .tensor_write = vulkan_tensor_write,
        .tensor_read = vulkan_tensor_read,
        .program_set_input = vulkan_program_set_input,
        .program_run = vulkan_program_run,
        .data_bytes = vulkan_data_bytes,
        .data_create = vulkan_data_create,
        .data_free = vulkan_data_free,
        .data_write = vulkan_data_write,
        .data_write_targets = vulkan_data_write_targets,
        .data_write_order = vulkan_data_write_order,
        .program_run_steps = vulkan_program_run_steps,
        .program_update_skipped = vulkan_program_update_skipped,
        .program_reset_metrics = vulkan_program_reset_metrics,
        .program_read_metrics = vulkan_program_read_metrics,
        .program_restore_metrics = vulkan_program_restore_metrics,
    };

    return &backend;
}
