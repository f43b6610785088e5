/* timer.c: see timer.h. */
#include "daemon/attempts/timer.h"

#include "daemon/attempts/attempt.h"

void attempt_timer_close(struct attempt_timer *timer)
{
    if (!timer->open)
        return;
    timer->open = false;
    uv_close((uv_handle_t *)&timer->handle, attempt_handle_closed);
}

void attempt_timer_stop(struct attempt_timer *timer)
{
    if (timer->open)
        uv_timer_stop(&timer->handle);
}

void attempt_timer_start(struct attempt *attempt, struct attempt_timer *timer, uv_timer_cb callback,
                         uint64_t milliseconds)
{
    if (!timer->open) {
        uv_timer_init(attempt->daemon->loop, &timer->handle);
        timer->handle.data = attempt;
        timer->open = true;
        attempt->open_handles++;
    }
    uv_timer_start(&timer->handle, callback, milliseconds, 0);
}
