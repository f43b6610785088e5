/* cuda_driver.h: what traind-suspend calls of NVIDIA's driver, by which a process gives its GPUs
 * back and gets them again. Names, numbers and structs are those of cuda.h ("CUDA Checkpointing" of
 * the CUDA Driver API, since driver 570), so that neither header nor library is needed to build. */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* CUprocessState */
enum cuda_process_state {
    CUDA_PROCESS_RUNNING,
    CUDA_PROCESS_LOCKED,       /* calls that reach the GPU wait */
    CUDA_PROCESS_CHECKPOINTED, /* the GPU's memory lies in the process's own, and the GPU is free */
    CUDA_PROCESS_FAILED        /* an error that cannot be undone */
};

/* CUresult, as far as it is told apart */
enum {
    CUDA_RESULT_SUCCESS = 0,
    CUDA_RESULT_INVALID_VALUE = 1,
    CUDA_RESULT_OUT_OF_MEMORY = 2,
    CUDA_RESULT_OPERATING_SYSTEM = 304,
    CUDA_RESULT_ILLEGAL_STATE = 401,
    CUDA_RESULT_NOT_READY = 600,
    CUDA_RESULT_NOT_PERMITTED = 800,
    CUDA_RESULT_NOT_SUPPORTED = 801
};

struct cuda_uuid {
    unsigned char bytes[16];
};

/* CUcheckpointGpuPair: a GPU that the process had, and the one that takes its place */
struct cuda_gpu_pair {
    struct cuda_uuid before, after;
};

/* Each of these has 64 bytes, and what is reserved is zero. */
struct cuda_lock_arguments {
    unsigned int timeout_milliseconds; /* 0: none */
    unsigned int reserved;
    uint64_t reserved_words[7];
};
struct cuda_restore_arguments {
    struct cuda_gpu_pair *pairs; /* all GPUs of the process, or none */
    unsigned int pair_count;
    unsigned int reserved;
    uint64_t reserved_words[6];
};

struct cuda_driver {
    int (*init)(unsigned int flags);
    int (*device_count)(int *count); /* these three are NULL in a driver that lacks them */
    int (*device)(int *device, int number);
    int (*device_uuid)(struct cuda_uuid *uuid, int device);
    int (*error_string)(int result, const char **text);
    int (*restore_thread)(int pid, int *thread);
    int (*state)(int pid, int *state);
    int (*lock)(int pid, struct cuda_lock_arguments *arguments);
    int (*checkpoint)(int pid, void *arguments);
    int (*restore)(int pid, struct cuda_restore_arguments *arguments);
    int (*unlock)(int pid, void *arguments);
};

/* Loads the library. -ERROR_UNSUPPORTED with a sentence: there is none, or it is older than 570. */
int cuda_driver_load(const char *library, struct cuda_driver *driver, struct error *error);

/* Reads a UUID like GPU-01234567-89ab-cdef-0123-456789abcdef. */
int cuda_uuid_parse(const char *text, struct cuda_uuid *uuid);
