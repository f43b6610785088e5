/* profile.h: measures how a run spends its time: the phases of the whole run, and every operator on
 * every thread for a window of batches after a warm-up.
 *
 * profile_create() allocates all memory; nothing allocates afterwards. The loop calls
 * profile_enter() at each change of phase, which does nothing without a profile. A profile does not
 * change the weights. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/backends/backend.h"
#include "engine/graph/cost.h"
#include "engine/train/session.h"

#include <stddef.h>
#include <stdint.h>

enum profile_phase {
    PROFILE_DATA, /* waiting for a batch */
    PROFILE_FORWARD,
    PROFILE_BACKWARD,
    PROFILE_UPDATE,
    PROFILE_EVALUATION,
    PROFILE_CHECKPOINT,
    PROFILE_OTHER, /* metrics, records, and the time of a step that is not an operator's */
    PROFILE_PHASE_COUNT
};
DECLARE_STRING_TABLE(profile_phase, enum profile_phase);

enum { PROFILE_WARMUP_BATCHES = 10 };

/* An interval of the loop's time within the window. */
struct profile_span {
    int64_t begin, end; /* nanoseconds of CLOCK_MONOTONIC */
    enum profile_phase phase;
};

/* One recorded batch. */
struct profile_run {
    int64_t begin, end;
    int64_t batch; /* number of the batch in the run, from 1 */
};

struct profile {
    double seconds[PROFILE_PHASE_COUNT]; /* of the whole run */
    const struct graph *graph; /* the graph that the recorded batches ran, which are all full */
    struct profile_recorder recorder; /* its lanes have the events of the window */
    int lane_count;
    struct profile_run *runs;
    int run_count;
    /* data, evaluations and checkpoints between the first and the last run */
    struct profile_span *spans;
    int span_count;

    /* private to profile.c */
    struct session *session;
    int run_capacity, span_capacity;
    int64_t warmup, batches;
    enum profile_phase phase;
    int64_t mark;
};

/* Makes a profile that records `batches` full batches of the session's training. -ERROR_UNSUPPORTED
 * if the device cannot be profiled, -ENOMEM. Call it after session_allocate(); the session must
 * outlive the profile. */
int profile_create(struct session *session, int64_t batches, struct profile **profile,
                   struct error *error);
void profile_free(struct profile *profile); /* NULL allowed */
/* Bytes that profile_create() will allocate. After session_rehearse() or session_allocate(). */
size_t profile_memory_bytes(const struct session *session, int64_t batches);

/* Begins the run, which has `left` batches to come. The warm-up is shortened if the window needs
 * them. */
void profile_begin(struct profile *profile, int64_t left);
/* Drops the runs recorded so far; the next ones replace them. */
void profile_forget(struct profile *profile);
/* Changes the phase to which time is counted from now on. */
void profile_switch(struct profile *profile, enum profile_phase phase);
static inline void profile_enter(struct profile *profile, enum profile_phase phase)
{
    if (profile)
        profile_switch(profile, phase);
}
/* Call these before and after the session's step for a batch of `count` samples. */
void profile_batch_begin(struct profile *profile, int64_t count);
void profile_batch_end(struct profile *profile);

/* Sums over the window, for a node of the graph. */
struct profile_sum {
    int64_t calls;       /* number of runs in which the node had events */
    int64_t nanoseconds; /* summed over all lanes */
};

struct profile_totals {
    int lanes;                 /* number of lanes with events; reports divide times by it */
    int64_t nanoseconds;       /* wall-clock time of the runs */
    struct profile_sum *nodes; /* one for each node of the graph; the caller frees it */
    int64_t waiting;           /* nanoseconds of those lanes at barriers */
    int64_t idle; /* nanoseconds of those lanes before their first event and after the last one */
};
/* 0, or -ENOMEM. */
int profile_sum_up(const struct profile *profile, struct profile_totals *totals,
                   struct error *error);
