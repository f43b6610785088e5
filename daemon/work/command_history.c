/* command_history.c: see command_history.h. */
#include "daemon/work/command_history.h"

#include <math.h>

/* The margin above the measured peak, and above the peak of a run that was killed for lack of
 * memory. The values are the defaults of Kubernetes' Vertical Pod Autoscaler
 * (recommendation-margin-fraction, oom-bump-up-ratio; github.com/kubernetes/autoscaler,
 * vertical-pod-autoscaler/docs/flags.md). Runs of one command differ with their data and threads,
 * and the memory of several processes is measured only once a second. */
static const double booking_margin = 1.15, out_of_memory_ratio = 1.2;

/* A run with a lower peak lowers the known peak by this part of the difference. So a program that
 * needs less from now on is believed after a few runs, but a single small run is not. */
static const double peak_decline = 0.25;

static void peak_take(uint64_t *peak, uint64_t seen, const struct command_run *run)
{
    if (run->out_of_memory)
        seen = (uint64_t)((double)seen * out_of_memory_ratio);
    if (seen == 0)
        return;
    if (seen >= *peak)
        *peak = seen;
    else if (run->completed)
        *peak -= (uint64_t)((double)(*peak - seen) * peak_decline);
}

bool command_run_refutes_held_none(const struct command_run *run)
{
    return run->device_memory > 0 || run->failed_on_host;
}

void command_history_add(struct command_history *history, const struct command_run *run)
{
    double difference = run->seconds - history->seconds;

    peak_take(&history->memory, run->memory, run);
    peak_take(&history->device_memory, run->device_memory, run);
    if (run->utilisation > 0)
        history->utilisation = run->utilisation;
    if (run->device_memory > 0)
        history->held_none = false;
    if (!run->completed)
        return;
    history->held_none = run->held_none || (history->held_none && run->device_memory == 0);
    /* Welford's sums: https://doi.org/10.1080/00401706.1962.10490022 */
    history->runs++;
    history->seconds += difference / (double)history->runs;
    history->squares += difference * (run->seconds - history->seconds);
    if (run->attempt_seconds > 0 && run->cpu_seconds >= 0)
        history->cores +=
            (run->cpu_seconds / run->attempt_seconds - history->cores) / (double)history->runs;
}

uint64_t command_history_booking(uint64_t peak)
{
    return (uint64_t)((double)peak * booking_margin);
}

double command_history_deviation(const struct command_history *history)
{
    double variance;

    if (history->runs < 2 || !(history->seconds > 0))
        return 0;
    variance = history->squares / (double)(history->runs - 1);
    return sqrt(log1p(variance / (history->seconds * history->seconds)));
}
