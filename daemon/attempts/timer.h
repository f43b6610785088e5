/* timer.h: a timer of an attempt, opened when it is first needed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct attempt;

struct attempt_timer {
    uv_timer_t handle;
    bool open;
};

/* Opens the timer, one of the attempt's, if need be; it fires once. */
void attempt_timer_start(struct attempt *attempt, struct attempt_timer *timer, uv_timer_cb callback,
                         uint64_t milliseconds);

void attempt_timer_close(struct attempt_timer *timer);
