/* plugin.c: the CUDA backend as a plugin, build/lib/traind-cuda.so, which is loaded at run time. */
#include "engine/backends/cuda/cuda.h"

const struct backend *traind_backend(void);

__attribute__((visibility("default"))) const struct backend *traind_backend(void)
{
    static const struct backend backend = {
        .interface_version = BACKEND_INTERFACE_VERSION,
        .name = "cuda",
        .device_open = cuda_device_open,
        .device_close = cuda_device_close,
        .device_enter = cuda_device_enter,
        .device_describe = cuda_device_describe,
        .device_memory_used = cuda_device_memory_used,
        .device_energy = cuda_device_energy,
        .supports = cuda_supports,
        .program_prepare = cuda_program_prepare,
        .program_free = cuda_program_free,
        .program_memory = cuda_program_memory,
        .buffer_create = cuda_buffer_create,
        .buffer_reserve = cuda_buffer_reserve,
        .buffer_free = cuda_buffer_free,
        .buffer_host = cuda_buffer_host,
        .buffer_stage = cuda_buffer_stage,
        .program_bind = cuda_program_bind,
        .tensor_write = cuda_tensor_write,
        .tensor_read = cuda_tensor_read,
        .program_set_input = cuda_program_set_input,
        .program_run = cuda_program_run,
        .data_bytes = cuda_data_bytes,
        .data_create = cuda_data_create,
        .data_free = cuda_data_free,
        .data_write = cuda_data_write,
        .data_write_targets = cuda_data_write_targets,
        .data_write_order = cuda_data_write_order,
        .program_run_steps = cuda_program_run_steps,
        .program_update_skipped = cuda_program_update_skipped,
        .program_write_loss_scale = cuda_program_write_loss_scale,
        .program_read_loss_scale = cuda_program_read_loss_scale,
        .device_profile = cuda_device_profile,
        .program_profile_events = cuda_program_profile_events,
        .program_reset_metrics = cuda_program_reset_metrics,
        .program_read_metrics = cuda_program_read_metrics,
        .program_restore_metrics = cuda_program_restore_metrics,
    };

    return &backend;
}
