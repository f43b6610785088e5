/* methods.h: defines a method of io.traind, in the file that handles it. Of others' jobs a
 * stranger, who is neither their owner nor an administrator, sees nothing by it but what stands
 * beside it. */
#pragma once

#include "daemon/server/method.h"

/* `name` as in proto/io.traind.varlink, `handle` answers a call, `access` and `kind` are of
 * server/method.h. */
#define METHOD(name, handle, access, kind)    \
    extern const struct method method_##name; \
    const struct method method_##name = {#name, handle, access, kind}
