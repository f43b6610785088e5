/* status.c: what the status of a call of CUDA means for the job. */
#include "engine/backends/cuda/cuda.h"

/* Translates cudaError_t (CUDA runtime's documentation, "Error handling") into the kinds of errors
 * of backend.h. */
static int error_code(cudaError_t status)
{
    switch (status) {
    case cudaErrorMemoryAllocation:
        return -ERROR_DEVICE_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
        return -ERROR_DEVICE_LOST;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
        return -ERROR_DEVICE_CORRUPTION;
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
        return -ERROR_DEVICE_ACCESS;
    default:
        return -ERROR_DEVICE_FAILURE;
    }
}

int cuda_fail(struct error *error, cudaError_t status, const char *what)
{
    return error_set(error, error_code(status), "%s: %s (CUDA error %d)", what,
                     cudaGetErrorString(status), (int)status);
}
