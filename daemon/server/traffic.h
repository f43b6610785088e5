/* traffic.h: how many connections and calls each user has, and whose turn it is.
 *
 * Room for connections is kept for root, and a user may have as many as are still free: this leaves
 * some for the next user however many others take all they can ("dynamic thresholds", Choudhury and
 * Hahne 1998). Messages are taken by turns, one of each user's connections after the other, and a
 * user whose calls under way are many or long takes none until one has ended. */
#pragma once

#include "daemon/server/connection.h"

enum {
    /* Of one user so much may be under way before the next message is taken. */
    CALL_BYTES_AT_ONCE = 64 * 1024,
    LONG_CALL_BYTES = 16 * 1024 /* what a call of METHOD_LONG counts beside its message */
};

/* What one user has: an entry lives while it counts anything. */
struct user_traffic {
    uid_t uid;
    size_t connections;
    size_t calls, call_bytes;        /* under way, streams left out; of their messages */
    struct connection *first, *last; /* with something to look at, in the order of their turns */
    struct user_traffic *next;       /* of all */
};

/* NULL, or the name of the error that refuses one more connection of the peer; `sentence` then says
 * why. */
const char *traffic_refusal(const struct server *server, const struct peer *peer,
                            const char **sentence);

/* A connection of connection->peer comes and goes. */
void traffic_join(struct connection *connection);
void traffic_leave(struct connection *connection);

/* There may be a message in its input, and it may be taken:
 * connection_serve() comes in its turn. */
void traffic_ready(struct connection *connection);

/* A message of so many bytes becomes a call of that user; the call has ended. */
void traffic_call_begin(struct user_traffic *traffic, size_t bytes);
void traffic_call_end(struct server *server, struct user_traffic *traffic, size_t bytes);

/* The handles that bring the turns. */
void traffic_start(struct server *server);
void traffic_stop(struct server *server);
void traffic_free(struct server *server);
