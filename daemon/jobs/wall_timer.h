/* wall_timer.h: wakes the loop at a time of day, and whenever the clock is set. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct wall_timer {
    int descriptor; /* -1: the kernel has none, so that nothing wakes the loop */
    uv_poll_t poll;
    void (*ring)(void *data, bool clock_was_set);
    void *data;
    bool clock_was_set; /* which is not told yet */
};

/* `purpose` ends a log line where the kernel has no such timer. The timer must outlive the loop. */
void wall_timer_start(struct wall_timer *timer, uv_loop_t *loop, const char *purpose,
                      void (*ring)(void *data, bool clock_was_set), void *data);
void wall_timer_stop(struct wall_timer *timer);  /* before the loop ends */
void wall_timer_close(struct wall_timer *timer); /* after it */

/* Rings once at `at`, seconds since the epoch; 0: only when the clock is set. */
void wall_timer_set(struct wall_timer *timer, double at);
