/* worker_call.h: runs traind-worker with a question as the daemon's own user. The process's only
 * output is JSON. Everything here runs on the loop; nothing blocks. */
#pragma once

#include "base/error.h"
#include "daemon/devices/driver.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct worker_call;

/* `answer` (borrowed) is what it printed; NULL: it printed no JSON, and `error` says why. */
typedef void (*worker_call_done)(void *data, struct json_object *answer, const struct error *error);

struct worker_call_options {
    const char *worker;                         /* path of the program */
    const char *const *arguments;               /* beginning with the program's name, NULL at the
                                                 * end */
    const struct device_driver *const *drivers; /* the drivers of all kinds, up to NULL */
    const struct device *device;                /* the only device that it sees; NULL: only the
                                                 * host */
    const char *cache; /* the folder in which it keeps measurements; NULL: that of its user */
    uint64_t patience; /* milliseconds after which it is killed */
};

/* Starts the process. `done` runs after it has ended, unless the call is abandoned. NULL with a
 * sentence if it cannot be started. */
struct worker_call *worker_call_begin(uv_loop_t *loop, const struct worker_call_options *options,
                                      worker_call_done done, void *data, struct error *error);

/* Kills the process; `done` will not run. */
void worker_call_abandon(struct worker_call *call);

pid_t worker_call_pid(const struct worker_call *call);
