/* device_backends.h: finds out on which GPUs native jobs can train. traind itself loads no GPU
 * library: it asks `traind-worker devices` once for each type of device. It asks again when the
 * driver's version has changed, and a minute after a device could not be opened. The answers are
 * stored in struct device (trains, trains_reason). */
#pragma once

#include "daemon/context/context.h"

/* Called when it is known on which devices native jobs can train. */
typedef void (*device_backends_known)(struct daemon *daemon);

/* Asks for the first time. `known` runs after the last answer, and again after later answers. */
void device_backends_start(struct daemon *daemon, device_backends_known known);

/* Asks about the types of devices that have no answer yet. Does nothing before the start. */
void device_backends_ask(struct daemon *daemon);

/* Whether a first answer is outstanding. Plans and placements of native jobs wait for it. */
bool device_backends_pending(const struct daemon *daemon);

/* Stops asking when the daemon ends. A question under way is abandoned. */
void device_backends_stop(struct daemon *daemon);
