/* service_manager.h: what traind tells systemd, and gets from it. Without systemd all of it does
 * nothing. */
#pragma once

#include "base/error.h"

#include <uv.h>

/* The listening Unix stream socket handed over at start (socket activation),
 * -1 when there is none. */
int service_manager_socket(struct error *error);

/* The daemon answers; feeds the watchdog from the loop from now on. */
void service_manager_ready(uv_loop_t *loop, const char *status);
/* The start takes a while longer: to be called at least every 20 s meanwhile. */
void service_manager_still_starting(const char *status);
/* The daemon cannot start: the first line of why is shown by `systemctl status`. */
void service_manager_failed(const char *sentence);
/* The daemon is about to end; also stops feeding. */
void service_manager_stopping(void);
