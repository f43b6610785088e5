/* cuda_driver.c: see cuda_driver.h. */
#include "worker/suspend/cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int cuda_driver_load(const char *library, struct cuda_driver *driver, struct error *error)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *place;
        bool optional;
    } functions[] = {
        {"cuInit", &driver->init, false},
        {"cuDeviceGetCount", &driver->device_count, true},
        {"cuDeviceGet", &driver->device, true},
        {"cuDeviceGetUuid", &driver->device_uuid, true},
        {"cuGetErrorString", &driver->error_string, false},
        {"cuCheckpointProcessGetRestoreThreadId", &driver->restore_thread, false},
        {"cuCheckpointProcessGetState", &driver->state, false},
        {"cuCheckpointProcessLock", &driver->lock, false},
        {"cuCheckpointProcessCheckpoint", &driver->checkpoint, false},
        {"cuCheckpointProcessRestore", &driver->restore, false},
        {"cuCheckpointProcessUnlock", &driver->unlock, false},
    };

    if (!handle)
        return error_set(error, -ERROR_UNSUPPORTED, "NVIDIA's driver cannot be loaded: %.300s",
                         dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);

        if (!function && !functions[i].optional) {
            dlclose(handle);
            return error_set(error, -ERROR_UNSUPPORTED,
                             "NVIDIA's driver lacks %s: programs are suspended by drivers from 570 "
                             "on",
                             functions[i].name);
        }
        memcpy(functions[i].place, &function, sizeof function);
    }
    return 0; /* the library stays loaded until this process ends */
}

int cuda_uuid_parse(const char *text, struct cuda_uuid *uuid)
{
    unsigned char *byte = uuid->bytes;
    int length = 0;

    if (strncmp(text, "GPU-", 4) == 0)
        text += 4;
    return sscanf(text,
                  "%2hhx%2hhx%2hhx%2hhx-%2hhx%2hhx-%2hhx%2hhx-%2hhx%2hhx-%2hhx%2hhx%2hhx%2hhx%2hhx"
                  "%2hhx%n",
                  &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5], &byte[6], &byte[7],
                  &byte[8], &byte[9], &byte[10], &byte[11], &byte[12], &byte[13], &byte[14],
                  &byte[15], &length) == 16 &&
                   text[length] == '\0'
               ? 0
               : -EINVAL;
}
