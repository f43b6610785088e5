/* suspend.c: see suspend.h. */
#include "worker/suspend/suspend.h"

#include "worker/suspend/gpu_pairs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS_MAX = 8 /* of looking for processes that have come to a GPU meanwhile */ };

/* Says what the driver refused, for one process. */
static void explain(const struct cuda_driver *driver, const char *what, pid_t pid, int result,
                    struct suspend_report *report)
{
    const char *text = NULL, *hint = "";

    if (driver->error_string(result, &text) != CUDA_RESULT_SUCCESS || !text)
        text = "unknown error";
    if (result == CUDA_RESULT_NOT_SUPPORTED)
        hint = "; managed memory and memory shared with other processes are among what the driver "
               "does not suspend";
    else if (result == CUDA_RESULT_OPERATING_SYSTEM || result == CUDA_RESULT_NOT_PERMITTED)
        hint = "; the process may have made itself unreadable to its own user";
    snprintf(report->message, sizeof report->message,
             "process %d could not be %s: %s (error %d of NVIDIA's driver)%s", (int)pid, what, text,
             result, hint);
}

/* A process that has no restore thread uses no GPU, has not got so far, or has ended. */
static bool uses_gpu(const struct cuda_driver *driver, pid_t pid)
{
    int thread = 0;

    return driver->restore_thread((int)pid, &thread) == CUDA_RESULT_SUCCESS && thread > 0;
}

static int state_of(const struct cuda_driver *driver, pid_t pid)
{
    int state = CUDA_PROCESS_FAILED;

    return driver->state((int)pid, &state) == CUDA_RESULT_SUCCESS ? state : CUDA_PROCESS_FAILED;
}

static bool lock_all(const struct cuda_driver *driver, const pid_t *pids, int count,
                     unsigned int timeout_milliseconds, struct suspend_report *report)
{
    report->contexts = 0;
    for (int i = 0; i < count; i++) {
        struct cuda_lock_arguments arguments = {.timeout_milliseconds = timeout_milliseconds};
        int result;

        if (!uses_gpu(driver, pids[i]))
            continue;
        report->contexts++;
        if (state_of(driver, pids[i]) != CUDA_PROCESS_RUNNING)
            continue; /* an earlier try got so far */
        result = driver->lock((int)pids[i], &arguments);
        if (result == CUDA_RESULT_SUCCESS || !uses_gpu(driver, pids[i]))
            continue; /* it has ended meanwhile */
        if (result == CUDA_RESULT_NOT_READY)
            snprintf(report->message, sizeof report->message,
                     "process %d did not finish within %g s what it had begun on its GPU",
                     (int)pids[i], timeout_milliseconds / 1000.0);
        else
            explain(driver, "locked", pids[i], result, report);
        return false;
    }
    return true;
}

static bool checkpoint_all(const struct cuda_driver *driver, const pid_t *pids, int count,
                           struct suspend_report *report)
{
    for (int i = 0; i < count; i++) {
        uint64_t arguments[8] = {0};
        int result;

        if (!uses_gpu(driver, pids[i]) || state_of(driver, pids[i]) != CUDA_PROCESS_LOCKED)
            continue;
        result = driver->checkpoint((int)pids[i], arguments);
        if (result != CUDA_RESULT_SUCCESS && uses_gpu(driver, pids[i])) {
            explain(driver, "suspended", pids[i], result, report);
            return false;
        }
    }
    return true;
}

/* Whether a process has come to its GPU while others left theirs. */
static bool one_runs(const struct cuda_driver *driver, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (uses_gpu(driver, pids[i]) && state_of(driver, pids[i]) == CUDA_PROCESS_RUNNING)
            return true;
    return false;
}

/* Whether the driver did not even begin. */
static bool refuses(int result)
{
    return result == CUDA_RESULT_INVALID_VALUE || result == CUDA_RESULT_NOT_SUPPORTED;
}

/* Restores and unlocks all, the children first. False: report->outcome says what has become of
 * them. */
static bool undo_all(const struct cuda_driver *driver, const pid_t *pids, int count,
                     struct cuda_gpu_pair *pairs, int pair_count, struct suspend_report *report)
{
    uint64_t nothing[8] = {0};
    int restored = 0, result;

    for (int i = count - 1; i >= 0; i--) {
        struct cuda_restore_arguments arguments = {.pairs = pair_count ? pairs : NULL,
                                                   .pair_count = (unsigned int)pair_count};

        if (!uses_gpu(driver, pids[i]) || state_of(driver, pids[i]) != CUDA_PROCESS_CHECKPOINTED)
            continue;
        result = driver->restore((int)pids[i], &arguments);
        if (result != CUDA_RESULT_SUCCESS && uses_gpu(driver, pids[i])) {
            explain(driver, "restored", pids[i], result, report);
            /* a driver that does not take these GPUs has done nothing, if this was the first try */
            report->outcome = pair_count && restored == 0 && refuses(result) &&
                                      state_of(driver, pids[i]) == CUDA_PROCESS_CHECKPOINTED
                                  ? SUSPEND_KEPT
                                  : SUSPEND_LOST;
            return false;
        }
        restored++;
    }
    for (int i = count - 1; i >= 0; i--) {
        if (!uses_gpu(driver, pids[i]) || state_of(driver, pids[i]) == CUDA_PROCESS_RUNNING)
            continue;
        result = driver->unlock((int)pids[i], nothing);
        if (result != CUDA_RESULT_SUCCESS && uses_gpu(driver, pids[i])) {
            explain(driver, "unlocked", pids[i], result, report);
            report->outcome = SUSPEND_LOST;
            return false;
        }
    }
    return true;
}

void suspend_processes(const struct cuda_driver *driver, const pid_t *pids, int count,
                       unsigned int timeout_milliseconds, struct suspend_report *report)
{
    struct suspend_report undone = {.outcome = SUSPEND_DONE};
    bool done = true;

    *report = (struct suspend_report){.outcome = SUSPEND_DONE};
    for (int round = 0; round < ROUNDS_MAX && done; round++) {
        done = lock_all(driver, pids, count, timeout_milliseconds, report) &&
               checkpoint_all(driver, pids, count, report);
        if (done && !one_runs(driver, pids, count))
            return;
    }
    if (done)
        snprintf(report->message, sizeof report->message,
                 "its processes begin to use a GPU again and again");
    report->outcome = SUSPEND_KEPT;
    if (undo_all(driver, pids, count, NULL, 0, &undone))
        return;
    report->outcome = SUSPEND_LOST;
    snprintf(report->message + strlen(report->message),
             sizeof report->message - strlen(report->message), "; after that %.200s",
             undone.message);
}

void suspend_resume(const struct cuda_driver *driver, const pid_t *pids, int count,
                    struct cuda_gpu_pair *pairs, int pair_count, struct suspend_report *report)
{
    struct cuda_gpu_pair all[GPU_PAIRS_MAX];
    int result, all_count;

    *report = (struct suspend_report){.outcome = SUSPEND_DONE};
    for (int i = 0; i < count; i++)
        report->contexts += uses_gpu(driver, pids[i]);
    if (report->contexts == 0)
        return;
    /* "CUDA process restore requires persistence mode to be enabled or cuInit to have been called"
     * */
    result = driver->init(0);
    if (result != CUDA_RESULT_SUCCESS) {
        explain(driver, "restored, because the driver does not start", pids[0], result, report);
        report->outcome = SUSPEND_KEPT;
        return;
    }
    memcpy(all, pairs, (size_t)pair_count * sizeof *pairs);
    all_count = pair_count ? gpu_pairs_complete(driver, all, pair_count) : 0;
    if (undo_all(driver, pids, count, all, all_count, report) || report->outcome != SUSPEND_KEPT ||
        all_count == pair_count)
        return;
    /* a driver may count only the GPUs that the process sees */
    report->outcome = SUSPEND_DONE;
    report->message[0] = '\0';
    undo_all(driver, pids, count, pairs, pair_count, report);
}
