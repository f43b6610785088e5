/* method.h: a method of io.traind: who handles it and who may call it. The table of all is handed
 * to server_open(). */
#pragma once

#include "daemon/server/server.h"

enum method_access {
    ACCESS_ANYBODY,     /* whoever may connect */
    ACCESS_OWNER,       /* the owners of the jobs in `id` or `ids`, and admins */
    ACCESS_SWEEP_OWNER, /* the owner of the sweep `id`, and admins */
    ACCESS_ADMIN
};

enum method_kind {
    METHOD_SHORT, /* its work is in proportion to the call */
    METHOD_LONG,  /* much is read and told, however short the call */
    METHOD_ALONE, /* so much that a user has one at a time */
    METHOD_STREAM /* as METHOD_LONG; with `more` it goes on for as long as the client likes */
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

/* NULL for a name that is not in the table. */
const struct method *method_find(const struct method_table *table, const char *name);

/* Checks the peer against the table's entry and the jobs it names, then runs the handler, or ends
 * the call with NotPermitted, NoSuchJob or NoSuchSweep. */
void method_run(struct call *call);
