/* sweep.h: finds the sweeps and jobs that the command line names; "sweep:12" is the sweep whose
 * first job is 12. */
#pragma once

#include "client/command_line/invocation.h"

/* Whether `text` names a sweep; `*id` gets its first job. */
bool sweep_named(const char *text, int64_t *id);

/* Fetches the Sweep of that id, which is the member `sweep` of the reply. The caller releases the
 * reply. */
struct varlink_reply;
enum exit_status sweep_fetch(struct invocation *invocation, int64_t id,
                             struct varlink_reply *reply);

/* Appends the ids of the jobs that `text` names: all jobs of a sweep that were not removed, or one
 * job. */
struct id_list {
    int64_t *ids; /* owned */
    size_t count;
};
enum exit_status sweep_append_ids(struct invocation *invocation, const char *text,
                                  struct id_list *list);

/* Prints, for example, "sweep 12 (name): 300 jobs, 120 done, 3 failed, 176 queued, 1 removed". */
void sweep_print_sentence(struct json_object *sweep, FILE *output);
