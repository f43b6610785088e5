/* method.h: a method of io.traind: its handler and who may call it. server_open() gets the table of
 * all methods. */
#pragma once

#include "daemon/server/server.h"

enum method_access {
    ACCESS_ANYBODY,     /* everybody who may connect */
    ACCESS_OWNER,       /* the owners of the jobs in `id` or `ids`, and admins */
    ACCESS_SWEEP_OWNER, /* the owner of the sweep `id`, and admins */
    ACCESS_ADMIN
};

enum method_kind {
    METHOD_SHORT, /* its work is proportional to the size of the call */
    METHOD_LONG,  /* it reads and replies much, even if the call is short */
    METHOD_ALONE, /* so much work that a user has one such call at a time */
    METHOD_STREAM /* as METHOD_LONG; with `more` it runs as long as the client likes */
};

struct method {
    const char *name;
    void (*handle)(struct call *call);
    enum method_access access;
    enum method_kind kind;
};

struct method_table {
    const struct method *const *methods;
    size_t count;
};

/* Finds a method; NULL if the table does not have the name. */
const struct method *method_find(const struct method_table *table, const char *name);

/* Checks whether the peer may call the method for the jobs that the call names. Then runs the
 * handler, or ends the call with NotPermitted, NoSuchJob or NoSuchSweep. */
void method_run(struct call *call);
