/* cudnn.h: NVIDIA's cuDNN 9, which is loaded at run time. On a machine without it, everything but
 * convolutions runs. */
#pragma once

#include "base/error.h"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>
#include <stddef.h>

#define CUDNN_FUNCTIONS(ROW)           \
    ROW(cudnnCreate)                   \
    ROW(cudnnDestroy)                  \
    ROW(cudnnSetStream)                \
    ROW(cudnnGetVersion)               \
    ROW(cudnnGetErrorString)           \
    ROW(cudnnBackendCreateDescriptor)  \
    ROW(cudnnBackendDestroyDescriptor) \
    ROW(cudnnBackendFinalize)          \
    ROW(cudnnBackendSetAttribute)      \
    ROW(cudnnBackendGetAttribute)      \
    ROW(cudnnBackendExecute)

struct cudnn {
    void *library;
    cudnnHandle_t handle; /* for the device that was current in cudnn_open() */
#define MEMBER(name) __typeof__(name) *name;
    CUDNN_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Loads the library, and makes a handle for the current device, whose work goes to `stream`.
 * -ENOENT with a sentence that names the remedy: the library is missing. */
int cudnn_open(cudaStream_t stream, struct cudnn **library, struct error *error);
void cudnn_close(struct cudnn *library);
/* Writes "cuDNN 9.14.0" without making a handle, or "no cuDNN" if it cannot be loaded. */
void cudnn_describe(char *text, size_t size);
