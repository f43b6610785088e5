/* profile.c: see profile.h. */
#include "engine/train/profile.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const profile_phase_names[] = {
    [PROFILE_DATA] = "data",
    [PROFILE_FORWARD] = "forward",
    [PROFILE_BACKWARD] = "backward",
    [PROFILE_UPDATE] = "update",
    [PROFILE_EVALUATION] = "evaluation",
    [PROFILE_CHECKPOINT] = "checkpoint",
    [PROFILE_OTHER] = "other",
};
DEFINE_STRING_TABLE(profile_phase, enum profile_phase, profile_phase_names)

/* The spans for each batch beside the wait for it: evaluations and checkpoints. */
enum { SPANS_BETWEEN_BATCHES = 64 };

static int64_t now_nanoseconds(const struct profile *profile)
{
    return (int64_t)(session_seconds(profile->session) * 1e9);
}

static int64_t span_capacity(int64_t batches)
{
    return batches + SPANS_BETWEEN_BATCHES;
}

size_t profile_memory_bytes(const struct session *session, int64_t batches)
{
    int lanes;
    size_t events =
        (size_t)(session_profile_events(session, &lanes) * batches) * sizeof(struct profile_event);

    return (size_t)lanes * (events + sizeof(struct profile_lane)) +
           (size_t)batches * sizeof(struct profile_run) +
           (size_t)span_capacity(batches) * sizeof(struct profile_span);
}

int profile_create(struct session *session, int64_t batches, struct profile **profile,
                   struct error *error)
{
    int lanes;
    int64_t events = session_profile_events(session, &lanes) * batches;
    struct profile *made;

    if (events == 0)
        return error_set(error, -ERROR_UNSUPPORTED, "this device cannot be profiled");
    made = calloc(1, sizeof *made);
    if (!made)
        return error_set_errno(error, -ENOMEM, "cannot make a profile");
    made->session = session;
    made->graph = session_graph(session);
    made->lane_count = lanes;
    made->run_capacity = (int)batches;
    made->span_capacity = (int)span_capacity(batches);
    made->runs = calloc((size_t)made->run_capacity, sizeof *made->runs);
    made->spans = calloc((size_t)made->span_capacity, sizeof *made->spans);
    made->recorder.lanes =
        aligned_alloc(_Alignof(struct profile_lane), (size_t)lanes * sizeof(struct profile_lane));
    for (int i = 0; made->recorder.lanes && i < lanes; i++)
        made->recorder.lanes[i] = (struct profile_lane){
            .events = calloc((size_t)events, sizeof(struct profile_event)), .capacity = events};
    for (int i = 0; i < lanes; i++) {
        if (made->runs && made->spans && made->recorder.lanes && made->recorder.lanes[i].events)
            continue;
        profile_free(made);
        return error_set_errno(error, -ENOMEM, "cannot make a profile");
    }
    *profile = made;
    return 0;
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    for (int i = 0; profile->recorder.lanes && i < profile->lane_count; i++)
        free(profile->recorder.lanes[i].events);
    free(profile->recorder.lanes);
    free(profile->runs);
    free(profile->spans);
    free(profile);
}

void profile_begin(struct profile *profile, int64_t left)
{
    int64_t spare = left - profile->run_capacity;

    profile->warmup = spare < 0                        ? 0
                      : spare < PROFILE_WARMUP_BATCHES ? spare
                                                       : PROFILE_WARMUP_BATCHES;
    profile->phase = PROFILE_OTHER;
    profile->mark = now_nanoseconds(profile);
}

void profile_forget(struct profile *profile)
{
    profile->run_count = profile->span_count = 0;
    for (int i = 0; i < profile->lane_count; i++)
        profile->recorder.lanes[i].count = 0;
}

static bool window_is_open(const struct profile *profile)
{
    return profile->run_count > 0 && profile->run_count < profile->run_capacity;
}

/* Whether the trace shows the span that ends now. It also shows the wait for the first batch. */
static bool span_is_kept(const struct profile *profile)
{
    if (profile->phase == PROFILE_DATA)
        return profile->run_count < profile->run_capacity && profile->batches >= profile->warmup;
    return window_is_open(profile) &&
           (profile->phase == PROFILE_EVALUATION || profile->phase == PROFILE_CHECKPOINT);
}

void profile_switch(struct profile *profile, enum profile_phase phase)
{
    int64_t now = now_nanoseconds(profile);

    profile->seconds[profile->phase] += (double)(now - profile->mark) * 1e-9;
    if (phase != profile->phase && span_is_kept(profile) &&
        profile->span_count < profile->span_capacity)
        profile->spans[profile->span_count++] =
            (struct profile_span){profile->mark, now, profile->phase};
    profile->phase = phase;
    profile->mark = now;
}

void profile_batch_begin(struct profile *profile, int64_t count)
{
    struct profile_recorder *recorder = &profile->recorder;

    profile_switch(profile, PROFILE_OTHER);
    profile->batches++;
    for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
        recorder->phase_nanoseconds[phase] = 0;
    recorder->keeps_events = profile->batches > profile->warmup &&
                             profile->run_count < profile->run_capacity &&
                             count == profile->graph->batch;
    session_profile(profile->session, recorder);
}

void profile_batch_end(struct profile *profile)
{
    struct profile_recorder *recorder = &profile->recorder;
    int64_t begin = profile->mark;

    session_profile(profile->session, NULL);
    profile_switch(profile, PROFILE_OTHER);
    for (int phase = 0; phase <= GRAPH_UPDATE; phase++) {
        double seconds = (double)recorder->phase_nanoseconds[phase] * 1e-9;

        profile->seconds[PROFILE_FORWARD + phase] += seconds;
        profile->seconds[PROFILE_OTHER] -= seconds;
    }
    if (recorder->keeps_events)
        profile->runs[profile->run_count++] =
            (struct profile_run){begin, profile->mark, profile->batches};
}

/* Adds the time of one lane to the nodes, and counts for each node the runs in which the lane
 * worked for it. `seen` holds, for each node, the run after the last such run. */
static void sum_lane(const struct profile *profile, const struct profile_lane *lane, int64_t *seen,
                     int64_t *calls, struct profile_totals *totals)
{
    int run = 0;

    for (int64_t i = 0; i < lane->count; i++) {
        const struct profile_event *event = &lane->events[i];
        int64_t took = event->end - event->begin;

        while (run + 1 < profile->run_count && event->begin >= profile->runs[run].end)
            run++;
        if (event->node == PROFILE_WAIT) {
            totals->waiting += took;
            continue;
        }
        totals->nodes[event->node].nanoseconds += took;
        calls[event->node] += seen[event->node] != run + 1;
        seen[event->node] = run + 1;
    }
}

int profile_sum_up(const struct profile *profile, struct profile_totals *totals,
                   struct error *error)
{
    size_t nodes = (size_t)profile->graph->node_count;
    AUTO_FREE int64_t *counts = calloc(2 * nodes + 1, sizeof *counts);
    int64_t working = 0;

    *totals = (struct profile_totals){.nodes = calloc(nodes + 1, sizeof *totals->nodes)};
    if (!counts || !totals->nodes) {
        free(TAKE_POINTER(totals->nodes));
        return error_set_errno(error, -ENOMEM, "cannot sum the profile up");
    }
    for (int i = 0; i < profile->run_count; i++)
        totals->nanoseconds += profile->runs[i].end - profile->runs[i].begin;
    for (int i = 0; i < profile->lane_count; i++) {
        const struct profile_lane *lane = &profile->recorder.lanes[i];

        memset(counts, 0, 2 * nodes * sizeof *counts);
        sum_lane(profile, lane, counts, counts + nodes, totals);
        totals->lanes += lane->count > 0;
        for (size_t k = 0; k < nodes; k++)
            if (counts[nodes + k] > totals->nodes[k].calls)
                totals->nodes[k].calls = counts[nodes + k];
    }
    for (size_t k = 0; k < nodes; k++)
        working += totals->nodes[k].nanoseconds;
    totals->idle = totals->lanes * totals->nanoseconds - working - totals->waiting;
    return 0;
}
