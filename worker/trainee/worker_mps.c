/* worker_mps.c: a client of an MPS service; see worker_mps.h. */
#include "worker/trainee/worker_mps.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum { LOOK_NANOSECONDS = 5000000, COMMAND_LINE_MAX = 1 << 20 };

bool worker_mps_is_ready(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/ready", folder);
    return access(path, F_OK) == 0;
}

/* The sentence of a service that refuses clients; NULL: it does not refuse them. The caller frees
 * it. */
static char *read_refusal(const char *folder)
{
    char path[PATH_MAX], *text = NULL;
    struct error ignored;

    snprintf(path, sizeof path, "%s/refused", folder);
    return file_read(AT_FDCWD, path, ERROR_TEXT_MAX, &text, NULL, &ignored) == 0 ? text : NULL;
}

/* Takes the lock until the process ends: the descriptor is never closed. */
static bool enter(const char *folder)
{
    char path[PATH_MAX];
    AUTO_CLOSE int clients = -1;

    snprintf(path, sizeof path, "%s/clients", folder);
    clients = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (clients < 0 || flock(clients, LOCK_SH | LOCK_NB) < 0 || !worker_mps_is_ready(folder))
        return false;
    (void)TAKE_DESCRIPTOR(clients);
    return true;
}

int worker_mps_join(const char *folder, struct error *error)
{
    const struct timespec pause = {.tv_nsec = LOOK_NANOSECONDS};
    double deadline = clock_monotonic() + MPS_READY_SECONDS;

    while (!worker_mps_is_ready(folder) || !enter(folder)) {
        AUTO_FREE char *refusal = read_refusal(folder);

        if (refusal)
            return error_set(error, -ECONNREFUSED, "%s", refusal);
        if (clock_monotonic() > deadline)
            return error_set(error, -ETIMEDOUT, "NVIDIA's MPS was not ready after %d s",
                             MPS_READY_SECONDS);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int worker_mps_take_turn(const char *folder)
{
    const struct timespec pause = {.tv_nsec = LOOK_NANOSECONDS};
    double deadline = clock_monotonic() + MPS_TURN_SECONDS;
    char path[PATH_MAX];
    AUTO_CLOSE int turn = -1;

    snprintf(path, sizeof path, "%s/opening", folder);
    turn = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (turn >= 0 && flock(turn, LOCK_EX | LOCK_NB) < 0) {
        if (clock_monotonic() > deadline || !worker_mps_is_ready(folder))
            return -1;
        nanosleep(&pause, NULL);
    }
    return TAKE_DESCRIPTOR(turn);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* The arguments of this process in one piece of memory, followed by NULL; NULL: they cannot be
 * read. */
static char **read_arguments(char *text, size_t size)
{
    AUTO_FCLOSE FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0, count = 0;
    char **arguments;

    text[length] = '\0';
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\0';
    arguments = calloc(count + 1, sizeof *arguments);
    for (size_t i = 0; arguments && i < count; i++) {
        arguments[i] = text;
        text += strlen(text) + 1;
    }
    return length > 0 ? arguments : NULL;
}

/* This process's environment without the variables that lead CUDA to the service. */
static char **own_environment(void)
{
    static const char variable[] = "CUDA_MPS_PIPE_DIRECTORY=";
    size_t count = 0, kept = 0;
    char **copy;

    while (environ[count])
        count++;
    copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        if (strncmp(environ[i], variable, strlen(variable)) != 0)
            copy[kept++] = environ[i];
    return copy;
}

int worker_mps_leave(const char *reason, struct error *error)
{
    AUTO_FREE char *text = malloc(COMMAND_LINE_MAX);
    AUTO_FREE char **arguments = text ? read_arguments(text, COMMAND_LINE_MAX) : NULL;
    AUTO_FREE char **environment = own_environment();

    if (!arguments || !environment)
        return error_set(error, -ENOMEM, "no memory to go on without MPS (%s)", reason);
    for (size_t i = 0; arguments[i] && arguments[i + 1]; i++)
        if (strcmp(arguments[i], "--mps") == 0) {
            arguments[i] = (char *)"--mps-refused";
            arguments[i + 1] = (char *)reason;
        }
    execve("/proc/self/exe", arguments, environment);
    return error_set_errno(error, -errno, "cannot go on without MPS (%s)", reason);
}
