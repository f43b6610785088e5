/* shim_warm.c: a shim that waits for an attempt together with a warm worker, which has its device
 * open already. The daemon keeps as many of them as its configuration says.
 *
 *     traind-shim --warm TITLE WORKER ARGUMENTS…
 *
 * It sends "ready" on descriptor 3 when its worker does, and accepts one request, the same packet
 * as the fork server's (shim_fork_server.c). From then on it is a normal shim whose trainee runs
 * already. It hands over attempt.json, the log and the control group; the worker drops to the job's
 * user, enters the group and trains. If that fails, the shim starts a new trainee. If the daemon,
 * the shim or the worker ends before the request, the shim and the worker end. */
#include "base/log.h"
#include "worker/attempt/attempt_handover.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { REPLY_MILLISECONDS = 10000 };

/* ---- before there is an attempt ---- */

/* Reserves memory at the very beginning of the environment, as in attempt_config.c. The worker
 * writes the attempt's folder there once it knows it; a daemon looks for the folder in the
 * environment of processes. */
static char *marker_make(void)
{
    static const char name[] = "TRAIND_ATTEMPT_DIRECTORY=";
    char *marker = malloc(sizeof name + PATH_MAX);

    if (!marker)
        return NULL;
    memcpy(marker, name, sizeof name - 1);
    memset(marker + sizeof name - 1, '.', PATH_MAX);
    marker[sizeof name - 1 + PATH_MAX] = '\0';
    return marker;
}

/* In the child: never returns. */
static void worker_run(char **arguments, int socket, pid_t parent)
{
    size_t count = 0;
    char **environment;

    while (environ[count])
        count++;
    environment = calloc(count + 2, sizeof *environment);
    if (!environment || !(environment[0] = marker_make()))
        _exit(EXIT_FAILURE);
    memcpy(environment + 1, environ, count * sizeof *environ);
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
    if (socket == ATTEMPT_HANDOVER_DESCRIPTOR)
        fcntl(socket, F_SETFD, 0);
    else if (dup2(socket, ATTEMPT_HANDOVER_DESCRIPTOR) < 0)
        _exit(EXIT_FAILURE);
    close(SHIM_DAEMON_DESCRIPTOR);
    execve(arguments[0], arguments, environment);
    log_error("cannot execute %s: %s", arguments[0], strerror(errno));
    _exit(EXIT_FAILURE);
}

static int worker_start(char **arguments, struct shim_warm *warm)
{
    pid_t self = getpid();
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    warm->pid = fork();
    if (warm->pid == 0)
        worker_run(arguments, pair[1], self);
    close(pair[1]);
    if (warm->pid < 0)
        return -errno;
    /* a fixed number, which shim_run() does not close */
    if (pair[0] != ATTEMPT_HANDOVER_DESCRIPTOR) {
        dup3(pair[0], ATTEMPT_HANDOVER_DESCRIPTOR, O_CLOEXEC);
        close(pair[0]);
    }
    warm->socket = ATTEMPT_HANDOVER_DESCRIPTOR;
    return 0;
}

/* Receives the worker's "ready" and forwards it to the daemon; false: the worker is not ready. */
static bool take_reply(const struct shim_warm *warm)
{
    char reply[ERROR_TEXT_MAX];

    return attempt_handover_receive(warm->socket, reply, sizeof reply, NULL, 0) > 0 &&
           strcmp(reply, ATTEMPT_HANDOVER_READY) == 0 &&
           attempt_handover_send(SHIM_DAEMON_DESCRIPTOR, reply, strlen(reply), NULL, 0) > 0;
}

int shim_warm(char *title, char **arguments, int (*run)(const char *folder, struct shim_warm *warm))
{
    size_t title_size = strlen(title);
    struct shim_warm warm = {.socket = -1};
    char folder[PATH_MAX];
    int descriptors[2];

    setsid();
    /* occupies descriptors 4 and 5, so that no received descriptor gets these numbers */
    if (dup2(STDIN_FILENO, SHIM_LOCK_DESCRIPTOR) < 0 ||
        dup2(STDIN_FILENO, ATTEMPT_HANDOVER_DESCRIPTOR) < 0 || worker_start(arguments, &warm) < 0)
        return 1;
    for (;;) {
        struct pollfd polled[] = {{.fd = SHIM_DAEMON_DESCRIPTOR, .events = POLLIN},
                                  {.fd = warm.socket, .events = POLLIN}};

        if (poll(polled, 2, -1) < 0)
            continue;
        if (polled[1].revents && !take_reply(&warm))
            return 1; /* the worker ends, too */
        if (polled[0].revents)
            break;
    }
    if (attempt_handover_receive(SHIM_DAEMON_DESCRIPTOR, folder, sizeof folder, descriptors, 2) <=
            0 ||
        descriptors[1] < 0)
        return 0; /* the daemon has hung up */
    dup2(descriptors[0], SHIM_DAEMON_DESCRIPTOR);
    dup2(descriptors[1], SHIM_LOCK_DESCRIPTOR);
    strncpy(title, folder, title_size);
    return run(folder, &warm);
}

/* ---- with an attempt ---- */

int shim_warm_hand_over(struct shim_warm *warm, const struct attempt_config *config,
                        const struct shim_trainee *trainee, int log, struct error *error)
{
    const int descriptors[] = {SHIM_LOCK_DESCRIPTOR, log, trainee->cgroup_processes};
    char reply[ERROR_TEXT_MAX] = "it does not answer";
    struct pollfd polled = {.fd = warm->socket, .events = POLLIN};
    int r = attempt_handover_send(warm->socket, config->folder, strlen(config->folder), descriptors,
                                  trainee->cgroup_processes >= 0 ? 3 : 2);

    if (r > 0 && poll(&polled, 1, REPLY_MILLISECONDS) == 1)
        r = attempt_handover_receive(warm->socket, reply, sizeof reply, NULL, 0);
    close(warm->socket);
    warm->socket = -1;
    if (r > 0 && strcmp(reply, ATTEMPT_HANDOVER_READY) == 0)
        return 0;
    kill(warm->pid, SIGKILL);
    while (waitpid(warm->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return error_set(error, -ECHILD, "the warm worker cannot take the job: %.400s", reply);
}
