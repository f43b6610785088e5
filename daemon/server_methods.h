/* server_methods.h: the one table of io.traind's methods: who handles each and who may call it. */
#pragma once

#include "daemon/server.h"

enum method_access {
    ACCESS_ANYBODY, /* whoever may connect */
    ACCESS_OWNER,   /* the owners of the jobs in `id` or `ids`, and admins */
    ACCESS_ADMIN
};

struct method {
    const char *name;
    void (*handle)(struct call *call);
    enum method_access access;
    bool streams; /* with `more` it goes on for as long as the client likes */
};

/* NULL for a name that is not in the table. */
const struct method *method_find(const char *name);

/* Checks the peer against the table's entry and the jobs it names, then runs the handler, or ends
 * the call with NotPermitted or NoSuchJob. */
void method_run(struct call *call);
