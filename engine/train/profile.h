/* profile.h: where a run's time goes: the phases of the whole run, exactly, and for a bounded
 * number of batches after a warm-up every operator on every thread.
 *
 * profile_create() makes room for all of it; from then on nothing here allocates. The loop says
 * what it does by profile_enter(), which does nothing without a profile. Nothing here decides about
 * weights. */
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
    PROFILE_OTHER, /* metrics, records, what a step costs beside its operators */
    PROFILE_PHASE_COUNT
};
DECLARE_STRING_TABLE(profile_phase, enum profile_phase);

enum { PROFILE_WARMUP_BATCHES = 10 };

/* A stretch of the loop's time within the window. */
struct profile_span {
    int64_t begin, end; /* nanoseconds of CLOCK_MONOTONIC */
    enum profile_phase phase;
};

/* One recorded batch. */
struct profile_run {
    int64_t begin, end;
    int64_t batch; /* its number in the run, from 1 */
};

struct profile {
    double seconds[PROFILE_PHASE_COUNT]; /* of the whole run */
    const struct graph *graph;           /* of the recorded batches: whole ones */
    struct profile_recorder recorder;    /* the lanes' events are those of the window */
    int lane_count;
    struct profile_run *runs;
    int run_count;
    struct profile_span *spans; /* data, evaluations and checkpoints between the first and the last
                                   of the runs */
    int span_count;

    /* profile.c's own */
    struct session *session;
    int run_capacity, span_capacity;
    int64_t warmup, batches;
    enum profile_phase phase;
    int64_t mark;
};

/* Records `batches` whole batches of the session's training. -ERROR_UNSUPPORTED when the session's
 * device cannot be profiled, -ENOMEM. After session_allocate(); the session outlives it. */
int profile_create(struct session *session, int64_t batches, struct profile **profile,
                   struct error *error);
void profile_free(struct profile *profile); /* NULL allowed */
/* What profile_create() will allocate. After session_rehearse() or session_allocate(). */
size_t profile_memory_bytes(const struct session *session, int64_t batches);

/* The run begins; `left` is the number of batches to come, of which the warm-up takes at most what
 * the window does not need. */
void profile_begin(struct profile *profile, int64_t left);
/* Drops the runs recorded so far: the next ones take their place. */
void profile_forget(struct profile *profile);
/* The loop does something else from now on. */
void profile_switch(struct profile *profile, enum profile_phase phase);
static inline void profile_enter(struct profile *profile, enum profile_phase phase)
{
    if (profile)
        profile_switch(profile, phase);
}
/* Around the session's step for a batch of `count` samples. */
void profile_batch_begin(struct profile *profile, int64_t count);
void profile_batch_end(struct profile *profile);

/* What the window says about a node of the graph, or about what is no node's. */
struct profile_sum {
    int64_t calls;       /* runs in which it did something */
    int64_t nanoseconds; /* of all lanes together */
};

struct profile_totals {
    int lanes;                 /* that did anything: times are divided by it */
    int64_t nanoseconds;       /* of the runs, on the wall clock */
    struct profile_sum *nodes; /* one for each node of the graph; the caller frees it */
    int64_t waiting;           /* nanoseconds of the lanes that did anything, at barriers */
    int64_t idle; /* and beside all that: before their first event and after the last one */
};
/* 0, or -ENOMEM. */
int profile_sum_up(const struct profile *profile, struct profile_totals *totals,
                   struct error *error);
