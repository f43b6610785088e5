#include "base/clock.h"

double clock_seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_now(void)
{
    return clock_seconds(CLOCK_REALTIME);
}

double clock_monotonic(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

int64_t clock_monotonic_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_monotonic_milliseconds(void)
{
    return clock_monotonic_nanoseconds() / 1000000;
}
