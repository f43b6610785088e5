/* lease_frames.c: see lease_frames.h. */
#include "client/connection/lease_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- addresses ------------------------------------------------------------------------------- */

/* An abstract address needs no file, so nothing is left behind by a kill. */
static socklen_t address_make(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

int lease_listen(char name[LEASE_NAME_MAX], struct error *error)
{
    unsigned char random[16];
    struct sockaddr_un address;
    int listener, used;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_set_errno(error, -errno, "cannot choose a name");
    used = snprintf(name, LEASE_NAME_MAX, "traind-lease-");
    for (size_t i = 0; i < sizeof random; i++)
        used += snprintf(name + used, (size_t)(LEASE_NAME_MAX - used), "%02x", random[i]);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return error_set_errno(error, -errno, "cannot make a socket");
    if (bind(listener, (struct sockaddr *)&address, address_make(&address, name)) < 0 ||
        listen(listener, 1) < 0) {
        int code = -errno;

        close(listener);
        return error_set_errno(error, code, "cannot listen for the lease");
    }
    return listener;
}

bool lease_peer_is_own(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

int lease_connect(const char *name, struct error *error)
{
    struct sockaddr_un address;
    int connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connected < 0)
        return error_set_errno(error, -errno, "cannot make a socket");
    if (connect(connected, (struct sockaddr *)&address, address_make(&address, name)) < 0) {
        int code = -errno;

        close(connected);
        return error_set_errno(error, code,
                               "the terminal of this lease is gone; `trainctl shell` starts "
                               "another");
    }
    if (!lease_peer_is_own(connected)) {
        close(connected);
        return error_set(error, -EPERM, "another user listens in place of this lease's terminal");
    }
    return connected;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void lease_link_open(struct lease_link *link, int socket)
{
    link->socket = socket;
    link->input_used = link->output_used = 0;
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

void lease_link_close(struct lease_link *link)
{
    if (link->socket >= 0)
        close(link->socket);
    link->socket = -1;
}

bool lease_has_room(const struct lease_link *link)
{
    /* a short frame fits besides: a size, or the end */
    return link->socket >= 0 &&
           link->output_used + 2 * (LEASE_HEADER + LEASE_DATA_MAX) <= sizeof link->output;
}

void lease_flush(struct lease_link *link)
{
    size_t done = 0;

    while (link->socket >= 0 && done < link->output_used) {
        ssize_t sent =
            send(link->socket, link->output + done, link->output_used - done, MSG_NOSIGNAL);

        if (sent > 0)
            done += (size_t)sent;
        else if (sent < 0 && errno == EAGAIN)
            break;
        else if (sent < 0 && errno != EINTR)
            done = link->output_used; /* nobody reads it, but what was sent may still be unread */
    }
    memmove(link->output, link->output + done, link->output_used - done);
    link->output_used -= done;
}

void lease_send(struct lease_link *link, enum lease_frame_kind kind, const void *bytes, size_t size)
{
    unsigned char *at = link->output + link->output_used;

    if (link->output_used + LEASE_HEADER + size > sizeof link->output)
        return; /* only what lease_has_room() was not asked for */
    at[0] = (unsigned char)kind;
    at[1] = (unsigned char)(size >> 8);
    at[2] = (unsigned char)size;
    if (size)
        memcpy(at + LEASE_HEADER, bytes, size);
    link->output_used += LEASE_HEADER + size;
    lease_flush(link);
}

bool lease_read(struct lease_link *link)
{
    ssize_t got =
        read(link->socket, link->input + link->input_used, sizeof link->input - link->input_used);

    if (got > 0)
        link->input_used += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool lease_take(struct lease_link *link, struct lease_frame *frame)
{
    static unsigned char taken[LEASE_DATA_MAX];
    size_t size, whole;

    if (link->input_used < LEASE_HEADER)
        return false;
    size = (size_t)link->input[1] << 8 | link->input[2];
    if (size > LEASE_DATA_MAX) { /* no end of ours sends that */
        lease_link_close(link);
        return false;
    }
    whole = LEASE_HEADER + size;
    if (link->input_used < whole)
        return false;
    memcpy(taken, link->input + LEASE_HEADER, size);
    *frame = (struct lease_frame){(enum lease_frame_kind)link->input[0], taken, size};
    link->input_used -= whole;
    memmove(link->input, link->input + whole, link->input_used);
    return true;
}
