/* timer.h: a timer of an attempt; its handle is opened when it is first needed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct attempt;

struct attempt_timer {
    uv_timer_t handle;
    bool open;
};

/* Starts a timer of the attempt, and opens its handle if needed. It fires once. */
void attempt_timer_start(struct attempt *attempt, struct attempt_timer *timer, uv_timer_cb callback,
                         uint64_t milliseconds);

/* It does not fire any more, unless it is started again. */
void attempt_timer_stop(struct attempt_timer *timer);
void attempt_timer_close(struct attempt_timer *timer);
