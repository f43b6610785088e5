/* forecast.h: when queued jobs are expected to start (scheduler/forecast.h), made when
 * somebody asks and kept for as long as nothing changes, a second at most. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct jobs;

struct forecast_row {
    int64_t job;
    int64_t position; /* in the order in which the jobs are expected to start; 1: the next */
    double start;     /* seconds since the epoch; NAN: not known */
};

void forecast_start(struct jobs *jobs);
void forecast_free(struct jobs *jobs);

/* Where the queued job stands; NULL: not known, as it waits for something else than a device, or
 * comes after the first FORECAST_JOBS_MAX. The row lives until the next call. */
const struct forecast_row *jobs_forecast_find(struct daemon *daemon, int64_t job);
/* The first jobs of the queue: fills at most `limit` of `jobs`, returns how many. */
size_t jobs_forecast_first(struct daemon *daemon, int64_t *jobs, size_t limit);
