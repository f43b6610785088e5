/* shim_fork_server.c: a shim that waits to be multiplied. Executing a program and running the C
 * library's start-up costs several times what forking this small process does, so the daemon keeps
 * one of it and has it fork a shim for each attempt.
 *
 * A request is one packet on descriptor 3: the folder's path, and with it the two descriptors that
 * a shim is otherwise started with (its connection to the daemon, and the locked attempt.json). */
#include "base/log.h"
#include "worker/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

enum { REQUEST_DESCRIPTORS = 2 };

struct request {
    char folder[PATH_MAX];
    int descriptors[REQUEST_DESCRIPTORS]; /* the shim's numbers 3 and 4 */
};

/* 1 and a request, 0 when the daemon has hung up, negative errno. */
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

/* In the forked shim: the descriptors where a shim expects them. Those received lie above 4. */
static void request_adopt(const struct request *request, char *title, size_t title_size)
{
    dup2(request->descriptors[0], SHIM_DAEMON_DESCRIPTOR);
    dup2(request->descriptors[1], SHIM_LOCK_DESCRIPTOR);
    strncpy(title, request->folder, title_size);
}

int shim_fork_server(char *title, int (*run)(const char *folder))
{
    size_t title_size = strlen(title);
    struct request request;
    int result;

    /* keeps number 4 taken, so that no received descriptor lies there */
    if (dup2(STDIN_FILENO, SHIM_LOCK_DESCRIPTOR) < 0)
        return 1;
    signal(SIGCHLD, SIG_IGN); /* shims are nobody's to wait for */
    while ((result = request_receive(&request)) != 0) {
        if (result == -EINTR)
            continue;
        if (result < 0) {
            log_error("a request to fork cannot be read: %s", strerror(-result));
            return 1;
        }
        if (fork() == 0) {
            request_adopt(&request, title, title_size);
            return run(request.folder);
        }
        /* should the fork have failed, the daemon sees the connection end */
        close(request.descriptors[0]);
        close(request.descriptors[1]);
    }
    return 0;
}
