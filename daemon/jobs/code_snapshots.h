/* code_snapshots.h: removes frozen code that no job names any more. */
#pragma once

struct daemon;

/* Looks at a start, and whenever jobs were removed. One pass runs at a time. */
void code_snapshots_tidy(struct daemon *daemon);

/* Looks if that was more than an hour ago: a snapshot may be kept, and no job follow. */
void code_snapshots_tidy_hourly(struct daemon *daemon);
