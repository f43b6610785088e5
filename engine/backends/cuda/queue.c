/* queue.c: launches captured steps one after the other. At most two launches are running or
 * waiting, so that the host is never far ahead of the device. Their scalars use two places in
 * turn. */
#include "engine/backends/cuda/cuda.h"

/* The last step's scalars may be written and read to the full size of the structure. */
static const size_t scalars_room = (BACKEND_STEPS_MAX + 1) * sizeof(struct cuda_scalars);

cudaError_t queue_create(struct cuda_queue *queue)
{
    cudaEvent_t *events[] = {&queue->launched[0], &queue->launched[1], &queue->copied};
    cudaError_t status = cudaMalloc((void **)&queue->scalars, scalars_room);

    for (int i = 0; i < 2 && status == cudaSuccess; i++)
        status = cudaMallocHost((void **)&queue->staged[i], scalars_room);
    for (size_t i = 0; i < sizeof events / sizeof *events && status == cudaSuccess; i++)
        status =
            cudaEventCreateWithFlags(events[i], cudaEventDisableTiming | cudaEventBlockingSync);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithFlags(&queue->copies, cudaStreamNonBlocking);
    return status;
}

void queue_free(struct cuda_queue *queue)
{
    cudaEvent_t events[] = {queue->launched[0], queue->launched[1], queue->copied};

    if (queue->copies)
        cudaStreamDestroy(queue->copies);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    for (int i = 0; i < 2; i++)
        if (queue->staged[i])
            cudaFreeHost(queue->staged[i]);
    if (queue->scalars)
        cudaFree(queue->scalars);
}

/* Polls for about as long as it takes to be woken, and then sleeps, so that a core is free during
 * long launches. */
static cudaError_t wait_for(cudaEvent_t event)
{
    enum { LOOKS = 50 };

    for (int i = 0; i < LOOKS; i++) {
        cudaError_t status = cudaEventQuery(event);

        if (status != cudaErrorNotReady)
            return status;
        cudaGetLastError(); /* otherwise the next caller would find this error */
    }
    return cudaEventSynchronize(event);
}

cudaError_t queue_stage(struct cuda_queue *queue, struct cuda_scalars **staged)
{
    int turn = (int)(queue->launches % 2);

    *staged = queue->staged[turn];
    return wait_for(queue->launched[turn]); /* returns at once before the first record */
}

cudaError_t queue_launch(struct cuda_queue *queue, cudaStream_t stream, size_t bytes,
                         cudaGraphExec_t graph)
{
    int turn = (int)(queue->launches % 2);
    cudaError_t status =
        cudaMemcpyAsync(queue->scalars, queue->staged[turn], bytes, cudaMemcpyHostToDevice, stream);

    if (status == cudaSuccess)
        status = cudaGraphLaunch(graph, stream);
    if (status == cudaSuccess)
        status = cudaEventRecord(queue->launched[turn], stream);
    queue->launches += status == cudaSuccess;
    return status;
}
