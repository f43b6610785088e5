/* daemon.h: runs traind from its start to its end. */
#pragma once

#include "daemon/context/context.h"

struct server_options;

/* Runs until a signal asks for the end. The caller has set the configuration, the mode and the
 * state folder of `daemon` and locked the folder; this function fills in the rest. */
int daemon_run(struct daemon *daemon, const struct server_options *options, struct error *error);

/* Reads the sections of devices again (devices_reload.c). */
void devices_reload(struct daemon *daemon);
void devices_reload_release(struct daemon *daemon); /* at the end */
