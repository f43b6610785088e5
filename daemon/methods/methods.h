/* methods.h: the macro that defines a method of io.traind, in the file that handles the method. A
 * stranger is a caller who is neither the owner of a job nor an administrator. The comment beside a
 * method names everything that the method shows to strangers; no comment means nothing. */
#pragma once

#include "daemon/server/method.h"

/* `name` is that of proto/io.traind.varlink, `handle` answers a call, `access` and `kind` are those
 * of server/method.h. */
#define METHOD(name, handle, access, kind)    \
    extern const struct method method_##name; \
    const struct method method_##name = {#name, handle, access, kind}
