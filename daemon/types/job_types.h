/* job_types.h: the enumerations of a job as io.traind names them, with their string tables. */
#pragma once

#include "base/string_table.h"

enum {
    JOB_DIGEST_SIZE = 65,    /* digest of a job's plan or command, with NUL */
    JOB_DEVICES_MAX = 16,    /* resources.devices */
    JOB_ERROR_KIND_MAX = 32, /* `kind` of an `error` record, with NUL */
    JOB_REASON_MAX = 512,
    PLAN_CHOICES_MAX = 4096 /* bytes of JSON, with NUL */
};

/* Why an attempt had to leave its device before it ended. */
enum preemption {
    PREEMPTION_NONE, /* null on the wire */
    PREEMPTION_MOVED,
    PREEMPTION_PAUSED,
    PREEMPTION_REQUEUED,
    PREEMPTION_PRIORITY, /* for a job that gains more from the device */
    PREEMPTION_MEMORY,   /* the device is above its high watermark */
    PREEMPTION_DRAINED,
    PREEMPTION_DEVICE_LOST
};
DECLARE_STRING_TABLE(preemption, enum preemption);

enum job_state {
    JOB_QUEUED,
    JOB_STARTING,
    JOB_RUNNING,
    JOB_PREEMPTING,
    JOB_PAUSED,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATES
};
DECLARE_STRING_TABLE(job_state, enum job_state);

static inline int job_state_is_final(enum job_state state)
{
    return state >= JOB_DONE;
}

enum job_kind { JOB_NATIVE, JOB_COMMAND };
DECLARE_STRING_TABLE(job_kind, enum job_kind);

enum wait_reason {
    WAIT_NONE, /* null on the wire */
    WAIT_PLANNING,
    WAIT_DEVICE_BUSY,
    WAIT_MEMORY,
    WAIT_HELD,
    WAIT_BACKOFF,
    WAIT_DRAINING,
    WAIT_DEPENDENCY,
    WAIT_GROUP_LIMIT,
    WAIT_RESERVED,    /* the devices are reserved for a starving job */
    WAIT_USER_LIMIT,  /* its user has as many devices as allowed */
    WAIT_DEVICE_LOST, /* the only device that could take it has vanished */
    WAIT_TIME,        /* `at` of its specification is still to come */
    WAIT_SWEEP        /* a point of a sweep that has no row yet */
};
DECLARE_STRING_TABLE(wait_reason, enum wait_reason);

enum ending {
    ENDING_NONE, /* null on the wire: the attempt has not ended */
    ENDING_COMPLETED,
    ENDING_EXITED,
    ENDING_SIGNALLED,
    ENDING_OUT_OF_MEMORY,
    ENDING_TIMED_OUT,
    ENDING_PREEMPTED,
    ENDING_CANCELLED,
    ENDING_LOST
};
DECLARE_STRING_TABLE(ending, enum ending);
