/* recovery.h: loads every job that has not ended into memory after a restart. */
#pragma once

struct jobs;

void jobs_recover(struct jobs *jobs);
