/* service_manager.h: the communication with systemd. Without systemd these functions do nothing. */
#pragma once

#include "base/error.h"

#include <uv.h>

/* The listening Unix stream socket that systemd passed at the start (socket activation); -1: there
 * is none. */
int service_manager_socket(struct error *error);

/* Tells systemd that the daemon answers calls. From now on the loop feeds the watchdog. */
void service_manager_ready(uv_loop_t *loop, const char *status);
/* Tells systemd that the start takes longer. Call it at least every 20 s meanwhile. */
void service_manager_still_starting(const char *status);
/* Tells systemd that the daemon cannot start. `systemctl status` shows the first line of the
 * sentence. */
void service_manager_failed(const char *sentence);
/* Tells systemd that the daemon is about to end, and stops feeding the watchdog. */
void service_manager_stopping(void);
