/* launch_shim.c: see launch_shim.h. */
#include "daemon/attempts/launch_shim.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SHIM_SOCKET_DESCRIPTOR = 3, /* SHIM_DAEMON_DESCRIPTOR of worker/shim/shim.h */
    FIRST_FREE_DESCRIPTOR = 10  /* above all that the shim expects */
};

/* Moves the descriptor above the numbers that the shim expects, so that no dup2() overwrites it. */
static int descriptor_lift(int *descriptor)
{
    int lifted = fcntl(*descriptor, F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR);

    if (lifted < 0)
        return -errno;
    close(*descriptor);
    *descriptor = lifted;
    return 0;
}

/* Starts the shim's program with `socket` as SHIM_SOCKET_DESCRIPTOR. */
static int shim_spawn(const char *shim_path, char *const *arguments, char *const *environment,
                      int socket, struct error *error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    pid_t pid;
    int code;

    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGCHLD); /* ignored here, so that the kernel reaps the shims */
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, socket, SHIM_SOCKET_DESCRIPTOR);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn(&pid, shim_path, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code ? error_set_errno(error, -code, "cannot start %s", shim_path) : 0;
}

/* The shim that forks the others (worker/shim/shim_fork_server.c). Launches run on several threads,
 * so a lock guards it. */
static struct {
    pthread_mutex_t lock;
    int socket; /* -1: not started */
} fork_server = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

char *launch_shim_title(const char *state_directory)
{
    size_t length = strlen(state_directory) + sizeof "/jobs///." + 3 * 20;
    char *title = malloc(length);

    if (!title)
        return NULL;
    memset(title, '.', length - 1);
    title[length - 1] = '\0';
    return title;
}

int launch_shim_server(const char *shim_path, char *const *arguments, char *const *environment,
                       struct error *error)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    int pair[2], result;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(error, -errno, "cannot make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    result = descriptor_lift(&theirs);
    if (result < 0)
        return error_set_errno(error, result, "cannot start traind-shim");
    result = shim_spawn(shim_path, arguments, environment, theirs, error);
    return result < 0 ? result : TAKE_DESCRIPTOR(ours);
}

static int fork_server_start(const struct attempt_launch *launch, struct error *error)
{
    AUTO_FREE char *title = launch_shim_title(launch->state_directory);
    char *arguments[] = {(char *)"traind-shim", (char *)"--fork-server", title, NULL};
    char *environment[] = {NULL};
    int result;

    if (!title)
        return error_no_memory(error, "the start of traind-shim");
    result = launch_shim_server(launch->shim_path, arguments, environment, error);
    if (result >= 0)
        fork_server.socket = result;
    return result < 0 ? result : 0;
}

/* Asks the shim at the other end of `server` to become the shim of the folder, or to fork it. */
static int request_send(int server, const char *folder, int socket, int lock)
{
    int descriptors[] = {socket, lock};
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {.iov_base = (char *)folder, .iov_len = strlen(folder)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
    while (sendmsg(server, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Gets a shim for the folder from the fork server, which is started if it does not run. */
static int shim_fork(const struct attempt_launch *launch, const char *folder, int socket, int lock,
                     struct error *error)
{
    int result = -ENOTCONN;

    pthread_mutex_lock(&fork_server.lock);
    if (fork_server.socket >= 0)
        result = request_send(fork_server.socket, folder, socket, lock);
    if (result < 0) {
        if (fork_server.socket >= 0)
            close(fork_server.socket);
        fork_server.socket = -1;
        result = fork_server_start(launch, error);
        if (result == 0) {
            result = request_send(fork_server.socket, folder, socket, lock);
            if (result < 0)
                error_set_errno(error, result, "cannot reach traind-shim --fork-server");
        }
    }
    pthread_mutex_unlock(&fork_server.lock);
    return result;
}

int launch_shim_find(const struct attempt_launch *launch, const char *folder, int socket, int lock,
                     struct error *error)
{
    if (launch->warm >= 0 && request_send(launch->warm, folder, socket, lock) == 0)
        return 0;
    return shim_fork(launch, folder, socket, lock, error);
}
