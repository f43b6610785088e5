/* planning.h: native jobs get their plans. */
#pragma once

struct daemon;
struct jobs;

/* Plans jobs that need it, as many at once as may be. */
void planning_begin(struct jobs *jobs);
/* Devices train that did not: jobs that wait and could run on one that their plan does not know are
 * planned again. */
void planning_begin_anew(struct daemon *daemon);
