/* lease_frames.h: what `trainctl shell` and its other end, which runs as a job, say to each other
 * over a Unix socket: frames of a kind, a length and so many bytes. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lease_frame_kind {
    LEASE_DATA = 'd',     /* what was typed, or what the shell prints */
    LEASE_SIZE = 'w',     /* to the job: rows and columns of the terminal, two bytes each */
    LEASE_ENDED = 'e',    /* to the person: the shell's exit status, one byte; nothing follows */
    LEASE_INPUT_END = 'z' /* to the job: nothing more will be typed */
};

enum { LEASE_DATA_MAX = 4096, LEASE_HEADER = 3, LEASE_NAME_MAX = 64 };

/* One end of the connection. Output that the socket does not take waits in `output`. */
struct lease_link {
    int socket; /* owned; -1: closed */
    unsigned char input[2 * (LEASE_HEADER + LEASE_DATA_MAX)], output[16 * LEASE_DATA_MAX];
    size_t input_used, output_used;
};

struct lease_frame {
    enum lease_frame_kind kind;
    const unsigned char *bytes; /* until the next call */
    size_t size;
};

/* Listens on an abstract address with a random name, which is written to `name`. Returns the
 * descriptor. */
int lease_listen(char name[LEASE_NAME_MAX], struct error *error);
/* Connects to it. Both ends refuse another user's process. */
int lease_connect(const char *name, struct error *error);
bool lease_peer_is_own(int socket);

void lease_link_open(struct lease_link *link, int socket);
void lease_link_close(struct lease_link *link);

/* Whether a frame of LEASE_DATA_MAX bytes can be sent now. */
bool lease_has_room(const struct lease_link *link);
/* Appends a frame to the output, and writes what the socket takes. */
void lease_send(struct lease_link *link, enum lease_frame_kind kind, const void *bytes,
                size_t size);
/* Writes what the socket takes, or drops it if the other end has gone: what that sent before can
 * still be read. */
void lease_flush(struct lease_link *link);
/* Reads what has arrived; false if the other end has gone. Then takes frames one by one. */
bool lease_read(struct lease_link *link);
bool lease_take(struct lease_link *link, struct lease_frame *frame);
