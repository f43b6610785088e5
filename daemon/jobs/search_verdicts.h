/* search_verdicts.h: judges the trials of a search by the results in its table, and puts the
 * verdicts in effect as by a user's call: a trial goes on, is paused, or ends. In population based
 * training the worst trials first get what the best ones have saved, and changed values. */
#pragma once

#include "daemon/jobs/searches.h"

/* Judges all trials. Verdicts that are in effect already change nothing. */
void search_run_judge(struct jobs *jobs, struct search_run *run);
/* A trial may have become free to be changed, or has ended: begins the next change that waits. */
void search_exploits_go_on(struct jobs *jobs);
