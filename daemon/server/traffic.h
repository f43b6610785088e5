/* traffic.h: limits the connections and calls of each user, and gives users turns.
 *
 * Some connections are reserved for root. A user may have as many connections as are still free. So
 * some are left for the next user, however many users take all they can ("dynamic thresholds",
 * Choudhury and Hahne 1998). Messages are taken by turns, one from each user. A user whose calls
 * under way are many or long gets no turn until one has ended. */
#pragma once

#include "daemon/server/connection.h"

enum {
    /* If a user's calls under way have this many bytes, the next message waits. */
    CALL_BYTES_AT_ONCE = 64 * 1024,
    LONG_CALL_BYTES = 16 * 1024 /* bytes that a call of METHOD_LONG counts in addition to its
                                 * message */
};

/* The traffic of one user. An entry exists while any of its counts is above 0. */
struct user_traffic {
    uid_t uid;
    size_t connections;
    size_t calls, call_bytes;        /* of calls under way except streams: how many, and the bytes
                                      * of their messages */
    struct connection *first, *last; /* with input to handle, in the order of their turns */
    struct user_traffic *next;       /* list of all users */
};

/* Whether one more connection of the peer is refused. Returns NULL, or the name of the error;
 * `*sentence` then says why. */
const char *traffic_refusal(const struct server *server, const struct peer *peer,
                            const char **sentence);

/* Counts a connection of connection->peer when it opens and when it closes. */
void traffic_join(struct connection *connection);
void traffic_leave(struct connection *connection);

/* Queues the connection for its user's turn, because a message may be in its input.
 * connection_serve() runs at that turn. */
void traffic_ready(struct connection *connection);

/* Counts a message of `bytes` bytes that begins a call of that user, and the end of the call. */
void traffic_call_begin(struct user_traffic *traffic, size_t bytes);
void traffic_call_end(struct server *server, struct user_traffic *traffic, size_t bytes);

/* Open, close and free the handles that run the turns. */
void traffic_start(struct server *server);
void traffic_stop(struct server *server);
void traffic_free(struct server *server);
