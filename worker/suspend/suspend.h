/* suspend.h: takes the GPUs from all processes of a job without ending them, and gives them back.
 *
 * The order is that of NVIDIA's cuda-checkpoint and of CRIU's plugin: all processes are locked
 * before the first is checkpointed, and all are restored before the first is unlocked. So no
 * process of the job sees another one that has lost its GPU. */
#pragma once

#include "worker/suspend/cuda_driver.h"

enum suspend_outcome {
    SUSPEND_DONE,
    SUSPEND_KEPT, /* nothing has changed: the processes run, or stay suspended */
    SUSPEND_LOST  /* a process has lost what it held of its GPU: it has to be ended */
};

struct suspend_report {
    enum suspend_outcome outcome;
    int contexts;      /* how many of the processes use a GPU */
    char message[512]; /* a sentence: why it was not done */
};

/* Suspends those of the processes that use a GPU. Each may take `timeout_milliseconds` until what
 * it has begun on its GPU allows it to be locked. Parents come before their children. */
void suspend_processes(const struct cuda_driver *driver, const pid_t *pids, int count,
                       unsigned int timeout_milliseconds, struct suspend_report *report);

/* Gives them their GPUs back, or those that `pairs` (at most GPU_PAIRS_MAX) puts in their place,
 * and lets them run. Processes that were only locked are unlocked. */
void suspend_resume(const struct cuda_driver *driver, const pid_t *pids, int count,
                    struct cuda_gpu_pair *pairs, int pair_count, struct suspend_report *report);
