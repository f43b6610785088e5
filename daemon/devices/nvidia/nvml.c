/* nvml.c: loads NVIDIA's management library and looks its functions up. */
#include "daemon/devices/nvidia/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

static int missing(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

/* missing() replaces functions that an old driver's library lacks. It may be called with any
 * arguments, because under Linux's calling conventions the caller removes them. */
static void *look_up(void *library, const char *newest, const char *older)
{
    void *function = dlsym(library, newest);

    if (!function && older)
        function = dlsym(library, older);
    return function ? function : (void *)(intptr_t)missing;
}

int nvml_load(struct nvml *nvml, const char *library, struct error *error)
{
    *nvml = (struct nvml){0};
    nvml->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return error_set(error, -ENOENT, "NVIDIA's management library cannot be loaded: %s",
                         dlerror());
#define NVML_LOOK_UP(member, arguments, newest, older) \
    *(void **)&nvml->member = look_up(nvml->library, newest, older);
    NVML_FUNCTIONS(NVML_LOOK_UP)
#undef NVML_LOOK_UP
    if ((void *)nvml->init == (void *)missing || (void *)nvml->device_count == (void *)missing ||
        (void *)nvml->device_by_index == (void *)missing || (void *)nvml->uuid == (void *)missing) {
        nvml_unload(nvml);
        return error_set(error, -ENOSYS, "%s is not NVIDIA's management library", library);
    }
    return 0;
}

void nvml_unload(struct nvml *nvml)
{
    if (nvml->library)
        dlclose(nvml->library);
    *nvml = (struct nvml){0};
}

const char *nvml_result_text(int result)
{
    switch (result) {
    case NVML_ERROR_NO_PERMISSION:
        return "traind may not use it";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "NVIDIA's driver is not loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
        return "the driver is too old";
    case NVML_ERROR_GPU_IS_LOST:
        return "the GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
        return "the GPU needs a reset";
    case NVML_ERROR_TIMEOUT:
        return "the driver did not answer in time";
    default:
        return "the driver reports an error";
    }
}
