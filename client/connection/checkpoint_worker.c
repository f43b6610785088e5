/* checkpoint_worker.c: see checkpoint_worker.h. */
#include "client/connection/checkpoint_worker.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "client/connection/checkpoint_download.h"
#include "client/connection/connection.h"
#include "proto/device_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTOR_PATH_MAX = 32, ARGUMENTS_MAX = 32 };

/* What the worker is started with. The descriptors stay open for it. */
struct worker_call {
    char *path; /* owned */
    const char *arguments[ARGUMENTS_MAX];
    int count;
    char checkpoint[DESCRIPTOR_PATH_MAX];
    char specification[DESCRIPTOR_PATH_MAX]; /* empty: the job has none any more */
};

static void add_argument(struct worker_call *call, const char *argument)
{
    if (call->count < ARGUMENTS_MAX - 1) /* NULL ends the list */
        call->arguments[call->count++] = argument;
}

static enum exit_status find_worker(struct worker_call *call, const char *command)
{
    call->path = file_beside_program("traind-worker");
    if (!call->path || access(call->path, X_OK) != 0) {
        complain("%s is missing: install traind again, or run this on the machine that has it "
                 "(trainctl -H HOST %s …)",
                 call->path ? call->path : "traind-worker", command);
        return EXIT_STATUS_FAILED;
    }
    add_argument(call, call->path);
    add_argument(call, command);
    return EXIT_STATUS_DONE;
}

/* Downloads checkpoint and specification into files that nobody sees and that end with the
 * process. */
static enum exit_status download_model(struct invocation *invocation, int64_t id,
                                       struct worker_call *call)
{
    const char *chosen = getenv("TMPDIR");
    const char *folder = chosen && *chosen ? chosen : "/tmp";
    struct checkpoint_download download = {.invocation = invocation, .id = id, .path = folder};
    enum exit_status status;
    int specification;

    download.descriptor = open(folder, O_TMPFILE | O_RDWR, 0600); /* the worker inherits it */
    if (download.descriptor < 0) {
        complain("cannot write to %s: %s; set TMPDIR to a folder with room", folder,
                 strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    status = checkpoint_download_run(&download);
    if (status)
        return status;
    snprintf(call->checkpoint, sizeof call->checkpoint, "/proc/self/fd/%d", download.descriptor);
    specification = specification_download(invocation, id);
    if (specification >= 0)
        snprintf(call->specification, sizeof call->specification, "/proc/self/fd/%d",
                 specification);
    return EXIT_STATUS_DONE;
}

/* The worker takes the process over, and with it what is allocated here. */
static enum exit_status execute(const struct invocation *invocation, struct worker_call *call,
                                const char *const *passed)
{
    for (; *passed; passed++) {
        const char *value = invocation_option(invocation, *passed);
        char *argument;

        if (value && asprintf(&argument, "--%s=%s", *passed, value) > 0)
            add_argument(call, argument);
        else if (!value && invocation_flag(invocation, *passed) &&
                 asprintf(&argument, "--%s", *passed) > 0)
            add_argument(call, argument);
    }
    if (invocation->json)
        add_argument(call, "--json");
    execv(call->path, (char *const *)call->arguments);
    complain("cannot start %s: %s", call->path, strerror(errno));
    return EXIT_STATUS_FAILED;
}

static void add_device(struct worker_call *call, const char *device)
{
    add_argument(call, "--device");
    add_argument(call, device);
}

static void free_call(struct worker_call *call)
{
    free(call->path);
}

enum exit_status checkpoint_worker_execute(struct invocation *invocation, int64_t id,
                                           const char *command, const char *device,
                                           const char *const *passed)
{
    CLEANUP(free_call) struct worker_call call = {0};
    enum exit_status status = find_worker(&call, command);

    if (!status)
        status = download_model(invocation, id, &call);
    if (status)
        return status;
    if (!*call.specification)
        return EXIT_STATUS_FAILED;
    add_argument(&call, call.specification);
    add_argument(&call, "--checkpoint");
    add_argument(&call, call.checkpoint);
    if (device)
        add_device(&call, device);
    return execute(invocation, &call, passed);
}

enum exit_status checkpoint_worker_execute_on_data(struct invocation *invocation,
                                                   const char *command, const char *const *passed)
{
    CLEANUP(free_call) struct worker_call call = {0};
    enum exit_status status = find_worker(&call, command);
    int64_t id;

    if (!status)
        status = connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON, &id);
    if (!status)
        status = download_model(invocation, id, &call);
    if (status)
        return status;
    add_argument(&call, call.checkpoint);
    add_argument(&call, invocation->arguments[1]);
    add_device(&call, DEVICE_HOST);
    if (*call.specification) { /* checkpoints of earlier versions do not describe their job */
        add_argument(&call, "--spec");
        add_argument(&call, call.specification);
    }
    return execute(invocation, &call, passed);
}
