/* checkpoint_worker.c: see checkpoint_worker.h. */
#include "client/connection/checkpoint_worker.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "client/connection/checkpoint_download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTOR_PATH_MAX = 32, ARGUMENTS_MAX = 24 };

/* A file that nobody sees and that ends with the process. -1: errno. */
static int open_unnamed(char *folder, size_t size)
{
    const char *chosen = getenv("TMPDIR");

    snprintf(folder, size, "%s", chosen && *chosen ? chosen : "/tmp");
    return open(folder, O_TMPFILE | O_RDWR, 0600); /* the worker inherits it */
}

static void execute(const struct invocation *invocation, const char **arguments, int count,
                    const char *const *passed)
{
    for (; *passed; passed++) {
        const char *value = invocation_option(invocation, *passed);
        char *argument;

        if (value && asprintf(&argument, "--%s=%s", *passed, value) > 0)
            arguments[count++] = argument; /* until the worker takes the process over */
    }
    if (invocation->json)
        arguments[count++] = "--json";
    execv(arguments[0], (char *const *)arguments);
    complain("cannot start %s: %s", arguments[0], strerror(errno));
}

enum exit_status checkpoint_worker_execute(struct invocation *invocation, int64_t id,
                                           const char *command, const char *device,
                                           const char *const *passed)
{
    AUTO_FREE char *worker = file_beside_program("traind-worker");
    struct checkpoint_download download = {.invocation = invocation, .id = id};
    char folder[4096], paths[2][DESCRIPTOR_PATH_MAX];
    const char *arguments[ARGUMENTS_MAX] = {worker, command, paths[0], "--checkpoint", paths[1]};
    enum exit_status status;
    int specification, count = 5;

    if (!worker || access(worker, X_OK) != 0) {
        complain("%s is missing: install traind again, or run this on the machine that has it "
                 "(trainctl -H HOST %s …)",
                 worker ? worker : "traind-worker", command);
        return EXIT_STATUS_FAILED;
    }
    download.descriptor = open_unnamed(folder, sizeof folder);
    download.path = folder;
    if (download.descriptor < 0) {
        complain("cannot write to %s: %s; set TMPDIR to a folder with room", folder,
                 strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    status = checkpoint_download_run(&download);
    if (status)
        return status;
    specification = specification_download(invocation, id);
    if (specification < 0)
        return EXIT_STATUS_FAILED;
    snprintf(paths[0], sizeof paths[0], "/proc/self/fd/%d", specification);
    snprintf(paths[1], sizeof paths[1], "/proc/self/fd/%d", download.descriptor);
    if (device) {
        arguments[count++] = "--device";
        arguments[count++] = device;
    }
    execute(invocation, arguments, count, passed);
    return EXIT_STATUS_FAILED;
}
