/* device_panel.h: the devices of `top`: a few rows each, with curves of how busy they were and of
 * their memory. */
#pragma once

#include "client/top/top.h"

/* Part of the device that is busy, from 0 to 1; NAN: not known. `*measured` is false where it is
 * what its jobs are expected to use. */
double device_utilisation(struct json_object *device, bool *measured);
/* Part of its memory that is in use or booked, whichever is more; NAN: not known. */
double device_memory_part(struct json_object *device);

/* Writes the devices that the layout has room for, and their titles. */
void device_panel_write(const struct top *top, FILE *output);
