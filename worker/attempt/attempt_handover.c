/* attempt_handover.c: sends and receives packets with descriptors on a socket pair. */
#include "worker/attempt/attempt_handover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    char bytes[CMSG_SPACE(sizeof(int) * ATTEMPT_HANDOVER_DESCRIPTORS)];
    struct cmsghdr align;
};

int attempt_handover_send(int socket, const char *text, size_t length, const int *descriptors,
                          int count)
{
    size_t size = sizeof *descriptors * (size_t)count;
    union control control = {{0}};
    struct iovec part = {.iov_base = (char *)text, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        struct cmsghdr *header;

        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(header), descriptors, size);
    }
    while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -errno;
    return 1;
}

int attempt_handover_receive(int socket, char *text, size_t size, int *descriptors, int count)
{
    union control control = {{0}};
    struct iovec part = {.iov_base = text, .iov_len = size - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header;
    ssize_t got;

    for (int i = 0; i < count; i++)
        descriptors[i] = -1;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 ? -errno : 0;
    text[got] = '\0';
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) {
        int sent = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        for (int i = 0; i < sent; i++) {
            int descriptor;

            memcpy(&descriptor, CMSG_DATA(header) + (size_t)i * sizeof(int), sizeof descriptor);
            if (i < count)
                descriptors[i] = descriptor;
            else
                close(descriptor);
        }
    }
    return 1;
}
