/* worker_call.h: asks traind-worker something as the daemon's own user, in a process of its own
 * whose only output is JSON. Everything here runs on the loop; nothing blocks. */
#pragma once

#include "base/error.h"
#include "daemon/devices/driver.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct worker_call;

/* `answer` (lent) is what it printed; NULL: nothing that is JSON, and `error` says why. */
typedef void (*worker_call_done)(void *data, struct json_object *answer, const struct error *error);

struct worker_call_options {
    const char *worker;                         /* path of the program */
    const char *const *arguments;               /* from the program's name on, NULL at the end */
    const struct device_driver *const *drivers; /* of all kinds of devices */
    const struct device *device;                /* the one that it sees; NULL: only the host */
    const char *cache; /* the folder where it keeps what it measures; NULL: its user's */
    uint64_t patience; /* milliseconds, after which it is killed */
};

/* Starts it; `done` runs once it has ended, unless it is abandoned. NULL with a sentence: it cannot
 * be started. */
struct worker_call *worker_call_begin(uv_loop_t *loop, const struct worker_call_options *options,
                                      worker_call_done done, void *data, struct error *error);

/* Kills it; `done` does not run any more. */
void worker_call_abandon(struct worker_call *call);

pid_t worker_call_pid(const struct worker_call *call);
