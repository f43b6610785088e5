/* forecast.h: when queued jobs are expected to start (scheduler/forecast.h). A forecast is made
 * when a client asks for it, and kept for a short while, so that frequent questions cost little. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct jobs;

struct forecast_row {
    int64_t job;
    int64_t position; /* in the order of expected starts; 1 starts next */
    double start;     /* seconds since the epoch; NAN: not known */
};

void forecast_start(struct jobs *jobs);
void forecast_free(struct jobs *jobs);

/* The forecast for the queued job. NULL: it waits for something other than a device, or is not
 * among the first FORECAST_JOBS_MAX. The row lives until the next call. */
const struct forecast_row *jobs_forecast_find(struct daemon *daemon, int64_t job);
/* Fills at most `limit` of `jobs` with the ids of those jobs that are expected to start first.
 * Returns how many it filled. */
size_t jobs_forecast_first(struct daemon *daemon, int64_t *jobs, size_t limit);
