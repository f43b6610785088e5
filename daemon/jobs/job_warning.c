/* job_warning.c: see job_warning.h. */
#include "daemon/jobs/job_warning.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/store/event_rows.h"
#include "daemon/types/job_types.h"

#include <stdio.h>
#include <stdlib.h>

struct warning {
    struct daemon *daemon;
    int64_t job, attempt;
    double time;
    char sentence[JOB_REASON_MAX];
};

static int warning_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct warning *warning = data;

    return warning_store(connection, warning->job, warning->attempt, warning->time,
                         warning->sentence, error);
}

static void on_warning_stored(void *data, int result, const struct error *error)
{
    struct warning *warning = data;

    if (result < 0)
        log_warning("job %lld: a warning could not be stored: %s", (long long)warning->job,
                    error->text);
    else
        watches_job_changed(&warning->daemon->watches, warning->job);
    free(warning);
}

void job_warn(struct daemon *daemon, int64_t job, int64_t attempt, const char *sentence)
{
    struct warning *warning = memory_allocate(sizeof *warning);

    log_warning("job %lld: %s", (long long)job, sentence);
    *warning =
        (struct warning){.daemon = daemon, .job = job, .attempt = attempt, .time = clock_now()};
    snprintf(warning->sentence, sizeof warning->sentence, "%s", sentence);
    store_write(daemon->store, warning_work, on_warning_stored, warning);
}
