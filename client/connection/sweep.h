/* sweep.h: sweeps named on the command line ("sweep:12", by their first job), and the jobs that a
 * word names. */
#pragma once

#include "client/command_line/invocation.h"

/* Whether `text` names a sweep; its first job. */
bool sweep_named(const char *text, int64_t *id);

/* The Sweep of that id: one row of `sweep`, released by the caller with the reply. */
struct varlink_reply;
enum exit_status sweep_fetch(struct invocation *invocation, int64_t id,
                             struct varlink_reply *reply);

/* Appends the ids of what `text` names: every job of a sweep that was not removed, or one job. */
struct id_list {
    int64_t *ids; /* owned */
    size_t count;
};
enum exit_status sweep_append_ids(struct invocation *invocation, const char *text,
                                  struct id_list *list);

/* "sweep 12 (name): 300 jobs, 120 done, 3 failed, 176 queued, 1 removed" */
void sweep_print_sentence(struct json_object *sweep, FILE *output);
