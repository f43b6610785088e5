/* ledger.c: see ledger.h. */
#include "daemon/jobs/ledger.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/headroom.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"

#include <stdlib.h>

void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory)
{
    attempt->claim.memory_booked = attempt->claim.memory_granted = memory;
    attempt->need_is_known = memory > 0;
    for (int i = 0; i < attempt->claim.device_count; i++) {
        device_energy_mark(attempt->claim.devices[i], clock_now());
        if (device_book(attempt->claim.devices[i], &attempt->claim, memory) < 0)
            memory_exhausted(0);
    }
    jobs_headroom_watch(jobs);
}

void jobs_unbook(struct jobs *jobs, struct attempt *attempt)
{
    device_claim_settle_energy(&attempt->claim, clock_now());
    device_claim_end_energy(jobs->daemon, &attempt->claim);
    for (int i = 0; i < attempt->claim.device_count; i++) {
        device_unbook(attempt->claim.devices[i], &attempt->claim, attempt->claim.memory_booked);
        if (!attempt->never_started)
            device_left(jobs->daemon, attempt->claim.devices[i], &attempt->claim);
    }
}

/* ---- what others hold ------------------------------------------------------------------------ */

bool jobs_measure_outside(struct jobs *jobs)
{
    bool under_way = devices_measure(jobs->daemon);

    devices_watch(jobs->daemon, jobs->classes->job_count > 0);
    return under_way;
}

void jobs_measure_devices(struct daemon *daemon)
{
    jobs_measure_outside(daemon->jobs);
}
