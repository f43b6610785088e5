/* device_backends.h: on which GPUs native jobs can train. traind loads no such library: it asks
 * `traind-worker devices`, once for each type of device, and again when the driver is another, or a
 * minute after a device could not be opened. The answer stands in struct device (trains,
 * trains_reason). */
#pragma once

#include "daemon/context/context.h"

/* Which devices native jobs can train on is known now. */
typedef void (*device_backends_known)(struct daemon *daemon);

/* Asks for the first time; `known` runs after the last answer, and again after later ones. */
void device_backends_start(struct daemon *daemon, device_backends_known known);

/* Asks about the devices that nothing is known of yet; nothing before the start. */
void device_backends_ask(struct daemon *daemon);

/* A first answer is outstanding: plans and placements of native jobs wait for it. */
bool device_backends_pending(const struct daemon *daemon);

/* At the end; an answer under way is not waited for longer than it takes to end the asking. */
void device_backends_stop(struct daemon *daemon);
