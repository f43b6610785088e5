/* cudnn.c: see cudnn.h. */
#include "engine/backends/cuda/cudnn.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The library itself is small; it loads its parts when they are used. */
static void *load(void)
{
    char name[32];

    snprintf(name, sizeof name, "libcudnn.so.%d", CUDNN_MAJOR);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static int look_up(struct cudnn *library, struct error *error)
{
#define LOOK_UP(name)                                          \
    *(void **)&library->name = dlsym(library->library, #name); \
    if (!library->name)                                        \
        return error_set(error, -ENOSYS, "libcudnn has no " #name);
    CUDNN_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return 0;
}

static int create_handle(struct cudnn *library, cudaStream_t stream, struct error *error)
{
    cudnnStatus_t status = library->cudnnCreate(&library->handle);

    if (status == CUDNN_STATUS_SUCCESS)
        status = library->cudnnSetStream(library->handle, stream);
    return status == CUDNN_STATUS_SUCCESS
               ? 0
               : error_set(error, -EIO, "cuDNN cannot be initialised: %s",
                           library->cudnnGetErrorString(status));
}

int cudnn_open(cudaStream_t stream, struct cudnn **result, struct error *error)
{
    struct cudnn *library = calloc(1, sizeof *library);
    int r;

    if (!library)
        return error_no_memory(error, "cuDNN");
    library->library = load();
    r = library->library
            ? look_up(library, error)
            : error_set(error, -ENOENT,
                        "convolutions on a GPU need NVIDIA's cuDNN %d, which cannot be "
                        "loaded: %s; install it, or name its folder in "
                        "LD_LIBRARY_PATH",
                        CUDNN_MAJOR, dlerror());
    if (r == 0)
        r = create_handle(library, stream, error);
    if (r < 0) {
        cudnn_close(library);
        return r;
    }
    *result = library;
    return 0;
}

void cudnn_close(struct cudnn *library)
{
    if (!library)
        return;
    if (library->handle)
        library->cudnnDestroy(library->handle);
    if (library->library)
        dlclose(library->library);
    free(library);
}

void cudnn_describe(char *text, size_t size)
{
    void *library = load();
    __typeof__(cudnnGetVersion) *version =
        library ? (__typeof__(cudnnGetVersion) *)dlsym(library, "cudnnGetVersion") : NULL;

    if (version)
        snprintf(text, size, "cuDNN %zu.%zu.%zu", version() / 10000, version() / 100 % 100,
                 version() % 100);
    else
        snprintf(text, size, "no cuDNN");
    if (library)
        dlclose(library);
}
