/* wall_timer.c: see wall_timer.h. Setting the clock makes the descriptor of a timerfd readable,
 * with ECANCELED: then the owner compares its times with the new clock. */
#include "daemon/jobs/wall_timer.h"

#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct wall_timer *timer = poll->data;
    uint64_t expirations;
    ssize_t got = read(timer->descriptor, &expirations, sizeof expirations);
    bool clock_was_set = timer->clock_was_set || got < 0;

    (void)status;
    (void)events;
    if (got < 0 && errno == EAGAIN)
        return;
    timer->clock_was_set = false;
    timer->ring(timer->data, clock_was_set);
}

void wall_timer_start(struct wall_timer *timer, uv_loop_t *loop, const char *purpose,
                      void (*ring)(void *data, bool clock_was_set), void *data)
{
    *timer = (struct wall_timer){.ring = ring, .data = data};
    timer->descriptor = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer->descriptor < 0 || uv_poll_init(loop, &timer->poll, timer->descriptor) < 0) {
        log_error("no timer for %s: %s", purpose, strerror(errno));
        wall_timer_close(timer);
        return;
    }
    timer->poll.data = timer;
    uv_poll_start(&timer->poll, UV_READABLE, on_readable);
}

void wall_timer_stop(struct wall_timer *timer)
{
    if (timer->descriptor >= 0)
        uv_close((uv_handle_t *)&timer->poll, NULL);
}

void wall_timer_close(struct wall_timer *timer)
{
    if (timer->descriptor >= 0)
        close(timer->descriptor);
    timer->descriptor = -1;
}

/* Sets the timer. False: the clock was set since it was last looked at, and the kernel, having said
 * so here, does not make the descriptor readable for that any more. */
static bool arm(const struct wall_timer *timer, double at)
{
    struct itimerspec setting = {0};

    if (at > 0) {
        setting.it_value.tv_sec = (time_t)floor(at);
        setting.it_value.tv_nsec = (long)(1e9 * (at - floor(at)));
        if (setting.it_value.tv_sec == 0 && setting.it_value.tv_nsec == 0)
            setting.it_value.tv_nsec = 1; /* 0 would disarm it */
    }
    if (timerfd_settime(timer->descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &setting,
                        NULL) == 0)
        return true;
    if (errno == ECANCELED)
        return false;
    log_error("a timer cannot be set: %s", strerror(errno));
    return true;
}

void wall_timer_set(struct wall_timer *timer, double at)
{
    static const double long_ago = 1e-9;

    if (timer->descriptor < 0)
        return;
    if (!timer->clock_was_set && arm(timer, at))
        return;
    timer->clock_was_set = true;
    arm(timer, long_ago); /* so that it rings at once */
}
