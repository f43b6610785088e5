/* fake_libcuda.c: a stand-in for NVIDIA's driver (build/tests/libraries/fake_libcuda.so), as far as
 * programs are suspended by it. FAKE_CUDA_STATE names a folder. A process that uses a GPU has a
 * file there, named by its process id, with one line:
 *
 *     STATE GPU-UUID BYTES              STATE: running, locked, checkpointed, failed
 *
 * fake_nvml.c lists what such processes hold. A file `fail` in the folder has lines
 *
 *     OPERATION RESULT [WORD]    OPERATION: init, lock, checkpoint, restore, remap, unlock
 *                                WORD: broken, ended, die, wait, or the id of a process
 *
 * and each such call (for that process) fails with this number. `remap` is a restore to other GPUs.
 * After a failure with `broken` the process is `failed`, after one with `ended` it has no file any
 * more. With `die` the caller is killed; with `wait` it waits until there is a file `go`. Every
 * call is a line of the file `calls`.
 *
 * A file `gpus` has the UUIDs of all GPUs of the machine, one a line. A restore to other GPUs has
 * to name each of them once as the old one and once as the new one. If there is a file `asks`, it
 * has to name as many GPUs as stands there. */
#include "worker/suspend/cuda_driver.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* what dlsym() finds */
#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { PATH_SIZE = 512, UUID_SIZE = 96 };

static const char *const states[] = {"running", "locked", "checkpointed", "failed"};

struct process {
    int state;
    char gpu[UUID_SIZE];
    unsigned long long bytes;
};

static void path_of(const char *name, char path[PATH_SIZE])
{
    const char *folder = getenv("FAKE_CUDA_STATE");

    snprintf(path, PATH_SIZE, "%s/%s", folder ? folder : "/nonexistent", name);
}

static FILE *file_open(const char *name, const char *mode)
{
    char path[PATH_SIZE];

    path_of(name, path);
    return fopen(path, mode);
}

static bool process_read(int pid, struct process *process)
{
    char name[24], state[32];
    FILE *file;
    bool read;

    snprintf(name, sizeof name, "%d", pid);
    file = file_open(name, "re");
    if (!file)
        return false;
    read = fscanf(file, "%31s %95s %llu", state, process->gpu, &process->bytes) == 3;
    fclose(file);
    for (process->state = 0; read && strcmp(state, states[process->state]) != 0;)
        if (++process->state > CUDA_PROCESS_FAILED)
            return false;
    return read;
}

static void process_write(int pid, const struct process *process)
{
    char name[32], path[PATH_SIZE], renamed[PATH_SIZE];
    FILE *file;

    snprintf(name, sizeof name, ".%d", pid);
    path_of(name, path);
    path_of(name + 1, renamed);
    file = file_open(name, "we");
    if (!file)
        return;
    fprintf(file, "%s %s %llu\n", states[process->state], process->gpu, process->bytes);
    fclose(file);
    rename(path, renamed);
}

static void process_remove(int pid)
{
    char name[32], path[PATH_SIZE];

    snprintf(name, sizeof name, "%d", pid);
    path_of(name, path);
    unlink(path);
}

static void wait_for_go(void)
{
    FILE *file;

    while (!(file = file_open("go", "re")))
        usleep(10000);
    fclose(file);
}

/* The result that was ordered for this operation; 0: none. */
static int failure_of(const char *operation, int pid, bool *broken)
{
    FILE *file = file_open("fail", "re");
    char line[128], name[32], word[32];
    int result = 0, ordered, words;

    while (file && result == 0 && fgets(line, sizeof line, file)) {
        words = sscanf(line, "%31s %d %31s", name, &ordered, word);
        if (words >= 2 && strcmp(name, operation) == 0 &&
            (words == 2 || atoi(word) == 0 || atoi(word) == pid)) {
            if (words == 3 && strcmp(word, "ended") == 0)
                process_remove(pid);
            if (words == 3 && strcmp(word, "die") == 0)
                raise(SIGKILL);
            if (words == 3 && strcmp(word, "wait") == 0)
                wait_for_go();
            result = ordered;
            *broken = words == 3 && strcmp(word, "broken") == 0;
        }
    }
    if (file)
        fclose(file);
    return result;
}

static int change(int pid, const char *operation, int from, int to, const char *gpu)
{
    struct process process;
    bool broken = false;
    FILE *calls = file_open("calls", "ae");
    int result;

    if (calls) {
        fprintf(calls, "%s %d\n", operation, pid);
        fclose(calls);
    }
    if (!process_read(pid, &process))
        return CUDA_RESULT_INVALID_VALUE;
    if (process.state != from)
        return CUDA_RESULT_ILLEGAL_STATE;
    result = failure_of(operation, pid, &broken);
    if (result && !process_read(pid, &process))
        return result;
    if (result == 0)
        process.state = to;
    else if (broken)
        process.state = CUDA_PROCESS_FAILED;
    if (result == 0 && gpu)
        snprintf(process.gpu, sizeof process.gpu, "%s", gpu);
    process_write(pid, &process);
    return result;
}

static void uuid_print(const struct cuda_uuid *uuid, char text[UUID_SIZE])
{
    char *end = text + sprintf(text, "GPU-");

    for (int i = 0; i < 16; i++)
        end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       uuid->bytes[i]);
}

int cuInit(unsigned int flags)
{
    bool broken;

    return flags == 0 ? failure_of("init", 0, &broken) : CUDA_RESULT_INVALID_VALUE;
}

static bool uuid_read(const char *text, struct cuda_uuid *uuid)
{
    int count = 0, length;

    for (text += 4; count < 16 && sscanf(text, "%2hhx%n", &uuid->bytes[count], &length) == 1;
         count++)
        text += length + (text[length] == '-');
    return count == 16;
}

int cuDeviceGet(int *device, int number)
{
    *device = number;
    return CUDA_RESULT_SUCCESS;
}

int cuDeviceGetUuid(struct cuda_uuid *uuid, int device)
{
    FILE *file = file_open("gpus", "re");
    char line[UUID_SIZE];
    int result = CUDA_RESULT_INVALID_VALUE;

    for (int i = 0; file && fscanf(file, "%95s", line) == 1; i++)
        if (i == device)
            result = uuid_read(line, uuid) ? CUDA_RESULT_SUCCESS : result;
    if (file)
        fclose(file);
    return result;
}

int cuDeviceGetCount(int *count)
{
    struct cuda_uuid uuid;

    for (*count = 0; cuDeviceGetUuid(&uuid, *count) == CUDA_RESULT_SUCCESS;)
        (*count)++;
    return CUDA_RESULT_SUCCESS;
}

/* Whether the pairs name each GPU of the machine once on both sides. */
static bool names_all(const struct cuda_restore_arguments *arguments)
{
    FILE *file = file_open("asks", "re");
    unsigned int asked;
    int count;

    if (file) {
        count = fscanf(file, "%u", &asked);
        fclose(file);
        return count == 1 && arguments->pair_count == asked;
    }
    cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        unsigned int before = 0, after = 0;
        struct cuda_uuid gpu;

        cuDeviceGetUuid(&gpu, i);
        for (unsigned int k = 0; k < arguments->pair_count; k++) {
            before += memcmp(&arguments->pairs[k].before, &gpu, sizeof gpu) == 0;
            after += memcmp(&arguments->pairs[k].after, &gpu, sizeof gpu) == 0;
        }
        if (before != 1 || after != 1)
            return false;
    }
    return true;
}

int cuGetErrorString(int result, const char **text)
{
    *text = result == CUDA_RESULT_OUT_OF_MEMORY      ? "out of memory"
            : result == CUDA_RESULT_NOT_SUPPORTED    ? "operation not supported"
            : result == CUDA_RESULT_OPERATING_SYSTEM ? "OS call failed or operation not supported"
            : result == CUDA_RESULT_ILLEGAL_STATE    ? "the operation cannot be performed now"
                                                     : "some error";
    return CUDA_RESULT_SUCCESS;
}

int cuCheckpointProcessGetRestoreThreadId(int pid, int *thread)
{
    struct process process;

    if (!process_read(pid, &process))
        return CUDA_RESULT_INVALID_VALUE;
    *thread = pid;
    return CUDA_RESULT_SUCCESS;
}

int cuCheckpointProcessGetState(int pid, int *state)
{
    struct process process;

    if (!process_read(pid, &process))
        return CUDA_RESULT_INVALID_VALUE;
    *state = process.state;
    return CUDA_RESULT_SUCCESS;
}

int cuCheckpointProcessLock(int pid, struct cuda_lock_arguments *arguments)
{
    (void)arguments;
    return change(pid, "lock", CUDA_PROCESS_RUNNING, CUDA_PROCESS_LOCKED, NULL);
}

int cuCheckpointProcessCheckpoint(int pid, void *arguments)
{
    (void)arguments;
    return change(pid, "checkpoint", CUDA_PROCESS_LOCKED, CUDA_PROCESS_CHECKPOINTED, NULL);
}

int cuCheckpointProcessRestore(int pid, struct cuda_restore_arguments *arguments)
{
    struct process process;
    char before[UUID_SIZE], after[UUID_SIZE];
    const char *gpu = NULL;

    if (!process_read(pid, &process))
        return CUDA_RESULT_INVALID_VALUE;
    for (unsigned int i = 0; i < arguments->pair_count && !gpu; i++) {
        uuid_print(&arguments->pairs[i].before, before);
        uuid_print(&arguments->pairs[i].after, after);
        if (strcmp(before, process.gpu) == 0)
            gpu = after;
    }
    if (arguments->pair_count &&
        (!gpu || !names_all(arguments))) /* "it must contain every checkpointed GPU" */
        return CUDA_RESULT_INVALID_VALUE;
    return change(pid, arguments->pair_count ? "remap" : "restore", CUDA_PROCESS_CHECKPOINTED,
                  CUDA_PROCESS_LOCKED, gpu);
}

int cuCheckpointProcessUnlock(int pid, void *arguments)
{
    (void)arguments;
    return change(pid, "unlock", CUDA_PROCESS_LOCKED, CUDA_PROCESS_RUNNING, NULL);
}
