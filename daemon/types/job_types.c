/* job_types.c: the string tables of job_types.h. */
#include "daemon/types/job_types.h"

static const char *const job_state_names[] = {
    [JOB_QUEUED] = "queued",         [JOB_STARTING] = "starting",  [JOB_RUNNING] = "running",
    [JOB_PREEMPTING] = "preempting", [JOB_PAUSED] = "paused",      [JOB_DONE] = "done",
    [JOB_FAILED] = "failed",         [JOB_CANCELLED] = "cancelled"};
DEFINE_STRING_TABLE(job_state, enum job_state, job_state_names)

static const char *const job_kind_names[] = {[JOB_NATIVE] = "native", [JOB_COMMAND] = "command"};
DEFINE_STRING_TABLE(job_kind, enum job_kind, job_kind_names)

static const char *const wait_reason_names[] = {[WAIT_PLANNING] = "planning",
                                                [WAIT_DEVICE_BUSY] = "device_busy",
                                                [WAIT_MEMORY] = "memory",
                                                [WAIT_HELD] = "held",
                                                [WAIT_BACKOFF] = "backoff",
                                                [WAIT_DRAINING] = "draining",
                                                [WAIT_RESERVED] = "reserved",
                                                [WAIT_USER_LIMIT] = "user_limit",
                                                [WAIT_DEVICE_LOST] = "device_lost",
                                                [WAIT_DEPENDENCY] = "dependency",
                                                [WAIT_GROUP_LIMIT] = "group_limit",
                                                [WAIT_TIME] = "time",
                                                [WAIT_SWEEP] = "sweep"};
DEFINE_STRING_TABLE(wait_reason, enum wait_reason, wait_reason_names)

static const char *const ending_names[] = {
    [ENDING_COMPLETED] = "completed", [ENDING_EXITED] = "exited",
    [ENDING_SIGNALLED] = "signalled", [ENDING_OUT_OF_MEMORY] = "out_of_memory",
    [ENDING_TIMED_OUT] = "timed_out", [ENDING_PREEMPTED] = "preempted",
    [ENDING_CANCELLED] = "cancelled", [ENDING_LOST] = "lost"};
DEFINE_STRING_TABLE(ending, enum ending, ending_names)

static const char *const preemption_names[] = {[PREEMPTION_MOVED] = "moved",
                                               [PREEMPTION_PAUSED] = "paused",
                                               [PREEMPTION_REQUEUED] = "requeued",
                                               [PREEMPTION_PRIORITY] = "preempted_by_priority",
                                               [PREEMPTION_MEMORY] = "memory",
                                               [PREEMPTION_DRAINED] = "drained",
                                               [PREEMPTION_DEVICE_LOST] = "device_lost"};
DEFINE_STRING_TABLE(preemption, enum preemption, preemption_names)
