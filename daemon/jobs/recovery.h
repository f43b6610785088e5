/* recovery.h: after a restart every job that has not ended comes back into memory. */
#pragma once

struct jobs;

void jobs_recover(struct jobs *jobs);
