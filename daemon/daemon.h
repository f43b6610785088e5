/* daemon.h: traind from its first to its last moment. */
#pragma once

#include "daemon/context/context.h"

struct server_options;

/* Runs until a signal asks for the end. `daemon` has configuration, mode and state folder (locked
 * by the caller); the rest is filled in here. */
int daemon_run(struct daemon *daemon, const struct server_options *options, struct error *error);

/* Reads the sections of the devices again (devices_reload.c). */
void devices_reload(struct daemon *daemon);
void devices_reload_release(struct daemon *daemon); /* at the end */
