/* history.h: shows what was sampled of devices and of the queue: replies to History of io.traind,
 * as curves over the time before now and as lines of the least, the mean and the greatest value. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stddef.h>

struct device_history {
    const char *name;          /* of the device */
    double memory_total;       /* bytes; 0: not known */
    struct json_object *reply; /* to History; borrowed */
};

/* How busy each of the devices was, in one chart. These return 0 or -ENOMEM. */
int histories_print(const struct device_history *histories, size_t count,
                    const struct display *display);
/* How busy one device was and how full its memory, and its other quantities. */
int history_print_device(const struct device_history *history, const struct display *display);
/* How many jobs waited and ran. */
int history_print_queue(struct json_object *reply, const struct display *display);
