/* planning.h: makes the plans of native jobs. */
#pragma once

struct daemon;
struct jobs;

/* Begins planning runs for the jobs that need a plan, as many as may run at once. */
void planning_begin(struct jobs *jobs);
/* More devices can train now: waiting jobs are planned again if they could run on a device that
 * their plan does not cover. */
void planning_begin_anew(struct daemon *daemon);
