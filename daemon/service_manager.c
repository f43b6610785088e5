/* service_manager.c: sd_notify, the watchdog and socket activation (libsystemd). */
#include "daemon/service_manager.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

static uv_timer_t watchdog;
static bool watchdog_open;

int service_manager_socket(struct error *error)
{
    int count = sd_listen_fds(1);

    if (count <= 0)
        return -1;
    if (count > 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_STREAM, 1, NULL, 0) <= 0)
        return error_set(
            error, -EINVAL,
            "systemd handed over %d descriptors; traind takes one listening Unix stream "
            "socket (see traind.socket)",
            count);
    return SD_LISTEN_FDS_START;
}

static void feed_watchdog(uv_timer_t *timer)
{
    (void)timer;
    sd_notify(0, "WATCHDOG=1");
}

void service_manager_ready(uv_loop_t *loop, const char *status)
{
    uint64_t microseconds;

    if (sd_watchdog_enabled(0, &microseconds) > 0) {
        uv_timer_init(loop, &watchdog);
        watchdog_open = true;
        uv_timer_start(&watchdog, feed_watchdog, 0, microseconds / 2000);
    }
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void service_manager_still_starting(const char *status)
{
    sd_notifyf(0, "STATUS=%s\nEXTEND_TIMEOUT_USEC=60000000", status);
}

void service_manager_failed(const char *sentence)
{
    sd_notifyf(0, "STATUS=Cannot start: %.*s", (int)strcspn(sentence, "\n"), sentence);
}

void service_manager_stopping(void)
{
    sd_notify(0, "STOPPING=1");
    if (watchdog_open)
        uv_close((uv_handle_t *)&watchdog, NULL);
    watchdog_open = false;
}
