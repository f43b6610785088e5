/* shim_fork_server.c: a server that forks a shim for each attempt. Executing a program and starting
 * the C library costs several times as much as forking this small process, so the daemon keeps one
 * running.
 *
 * If a shim is killed, the server inherits the processes of its job. It kills them, and keeps the
 * shim's lock until they have ended. So the server outlives the daemon while any shim runs.
 *
 * A request is one packet on descriptor 3: the folder's path and two descriptors, the shim's
 * connection to the daemon and the locked attempt.json. */
#include "base/log.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUEST_DESCRIPTORS = 2, LEFTOVERS_MILLISECONDS = 20 };

struct request {
    char folder[PATH_MAX];
    int descriptors[REQUEST_DESCRIPTORS]; /* the shim's numbers 3 and 4 */
};

/* Returns 1 and a request, 0 if the daemon has hung up, or a negative errno. */
static int request_receive(struct request *request)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * REQUEST_DESCRIPTORS)];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = request->folder, .iov_len = sizeof request->folder - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t size = recvmsg(SHIM_DAEMON_DESCRIPTOR, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    if (size < 0)
        return -errno;
    if (size == 0)
        return 0;
    if (!header || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof request->descriptors))
        return -EPROTO;
    memcpy(request->descriptors, CMSG_DATA(header), sizeof request->descriptors);
    request->folder[size] = '\0';
    return 1;
}

/* In the forked shim: moves the descriptors to the numbers that a shim expects. The received ones
 * are above 4. */
static void request_adopt(const struct request *request, char *title, size_t title_size)
{
    dup2(request->descriptors[0], SHIM_DAEMON_DESCRIPTOR);
    dup2(request->descriptors[1], SHIM_LOCK_DESCRIPTOR);
    strncpy(title, request->folder, title_size);
}

/* ---- the shims that were forked -------------------------------------------------------------- */

/* A shim and its lock, which the server holds, too, until no process of the shim's job is left. */
struct child {
    pid_t pid; /* 0: it ended before its job */
    int lock;
};

struct server {
    struct child *children;
    size_t count, capacity;
    bool hung_up;   /* the daemon has hung up */
    bool leftovers; /* a shim was killed: children other than shims are its job's processes */
};

static bool server_has_room(struct server *server)
{
    size_t capacity = server->capacity ? 2 * server->capacity : 64;
    struct child *grown;

    if (server->count < server->capacity)
        return true;
    grown = realloc(server->children, capacity * sizeof *grown);
    if (!grown)
        return false;
    server->children = grown;
    server->capacity = capacity;
    return true;
}

static struct child *child_find(const struct server *server, pid_t pid)
{
    for (size_t i = 0; i < server->count; i++)
        if (server->children[i].pid == pid)
            return &server->children[i];
    return NULL;
}

static void child_forget(struct server *server, struct child *child)
{
    close(child->lock);
    *child = server->children[--server->count];
}

static bool kill_stranger(pid_t pid, void *data)
{
    const struct server *server = data;

    if (child_find(server, pid))
        return false;
    kill(pid, SIGKILL);
    return true;
}

/* Kills the processes that killed shims have left. A shim exits by itself only after its job, so
 * every other child here was inherited from a killed shim. Once there are none, releases these
 * shims' locks. */
static void server_kill_leftovers(struct server *server)
{
    if (!server->leftovers || shim_children_visit(kill_stranger, server) > 0)
        return;
    server->leftovers = false;
    for (size_t i = server->count; i-- > 0;)
        if (server->children[i].pid == 0)
            child_forget(server, &server->children[i]);
}

static void server_reap(struct server *server)
{
    siginfo_t info;

    for (;;) {
        struct child *child;

        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG) < 0 && errno == EINTR)
            continue;
        if (info.si_pid == 0)
            return;
        child = child_find(server, info.si_pid);
        if (!child)
            continue;
        if (info.si_code == CLD_STOPPED) { /* a job must not be able to stop its shim */
            kill(info.si_pid, SIGCONT);
        } else if (info.si_code == CLD_EXITED && info.si_status == 0) {
            child_forget(server, child);
        } else {
            child->pid = 0;
            server->leftovers = true;
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Forks a shim. Returns true in the forked process. */
static bool server_fork(struct server *server, const struct request *request)
{
    pid_t pid = server_has_room(server) ? fork() : -1;

    if (pid == 0)
        return true;
    /* if the fork failed, the daemon sees that the connection was closed */
    close(request->descriptors[0]);
    if (pid < 0)
        close(request->descriptors[1]);
    else
        server->children[server->count++] = (struct child){pid, request->descriptors[1]};
    return false;
}

static int server_prepare(void)
{
    sigset_t signals;

    setsid(); /* a terminal's signals must reach only the daemon */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int shim_fork_server(char *title, int (*run)(const char *folder))
{
    size_t title_size = strlen(title);
    struct server server = {0};
    struct request request;
    int signals;

    /* occupies descriptor 4, so that no received descriptor gets that number */
    if (dup2(STDIN_FILENO, SHIM_LOCK_DESCRIPTOR) < 0 || (signals = server_prepare()) < 0)
        return 1;
    while (!server.hung_up || server.count > 0) {
        struct pollfd polled[] = {
            {.fd = server.hung_up ? -1 : SHIM_DAEMON_DESCRIPTOR, .events = POLLIN},
            {.fd = signals, .events = POLLIN}};
        struct signalfd_siginfo info;
        int result;

        if (poll(polled, 2, server.leftovers ? LEFTOVERS_MILLISECONDS : -1) < 0)
            continue;
        if (polled[1].revents && read(signals, &info, sizeof info) > 0)
            server_reap(&server);
        server_kill_leftovers(&server);
        if (!polled[0].revents)
            continue;
        result = request_receive(&request);
        if (result < 0 && result != -EINTR)
            log_error("a request to fork cannot be read: %s", strerror(-result));
        server.hung_up = result <= 0 && result != -EINTR;
        if (result > 0 && server_fork(&server, &request)) {
            free(server.children);
            request_adopt(&request, title, title_size);
            return run(request.folder);
        }
    }
    free(server.children);
    return 0;
}
