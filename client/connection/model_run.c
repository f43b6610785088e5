/* model_run.c: see model_run.h. */
#include "client/connection/model_run.h"

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

enum { DESCRIPTOR_PATH_MAX = 32, ARGUMENTS_MAX = 32, OPTIONS_MAX = ARGUMENTS_MAX - 10 };

static void execute_worker(const struct invocation *invocation, const char *worker,
                           const char *command, const char *const *passed, int checkpoint,
                           int specification)
{
    char model[DESCRIPTOR_PATH_MAX], spec[DESCRIPTOR_PATH_MAX];
    const char *arguments[ARGUMENTS_MAX] = {worker,     command,    model, invocation->arguments[1],
                                            "--device", DEVICE_HOST};
    int count = 6;

    snprintf(model, sizeof model, "/proc/self/fd/%d", checkpoint);
    snprintf(spec, sizeof spec, "/proc/self/fd/%d", specification);
    if (specification >= 0) { /* checkpoints of earlier versions do not describe their job */
        arguments[count++] = "--spec";
        arguments[count++] = spec;
    }
    for (int i = 0; passed[i] && i < OPTIONS_MAX; i++) {
        const char *value = invocation_option(invocation, passed[i]);
        char *argument;

        /* the worker takes the process over, and with it what is allocated here */
        if (value && asprintf(&argument, "--%s=%s", passed[i], value) > 0)
            arguments[count++] = argument;
        else if (!value && invocation_flag(invocation, passed[i]) &&
                 asprintf(&argument, "--%s", passed[i]) > 0)
            arguments[count++] = argument;
    }
    if (invocation->json)
        arguments[count++] = "--json";
    execv(worker, (char *const *)arguments);
    complain("cannot start %s: %s", worker, strerror(errno));
}

enum exit_status model_run(struct invocation *invocation, const char *command,
                           const char *const *passed)
{
    AUTO_FREE char *worker = file_beside_program("traind-worker");
    const char *folder = getenv("TMPDIR");
    struct checkpoint_download download = {.invocation = invocation};
    enum exit_status status;

    folder = folder && *folder ? folder : "/tmp";
    if (!worker || access(worker, X_OK) != 0) {
        complain("%s is missing: install traind again, or run this on the machine that has it",
                 worker ? worker : "traind-worker");
        return EXIT_STATUS_FAILED;
    }
    status =
        connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON, &download.id);
    if (status)
        return status;
    download.descriptor = open(folder, O_TMPFILE | O_RDWR, 0600); /* the worker inherits it */
    download.path = folder;
    if (download.descriptor < 0) {
        complain("cannot write to %s: %s; set TMPDIR to a folder with room", folder,
                 strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    status = checkpoint_download_run(&download);
    if (status)
        return status;
    execute_worker(invocation, worker, command, passed, download.descriptor,
                   specification_download(invocation, download.id));
    return EXIT_STATUS_FAILED;
}
