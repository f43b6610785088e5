/* searches.h: the search over the trials of a sweep, while any of them may go on. Whenever a trial
 * has measured something, its results at further rungs are stored, and all trials are judged by
 * what is stored (work/search_rules.h). Trials that wait are paused, which frees their devices;
 * those that pass are queued again and go on from their checkpoints. After a restart the table is
 * read back, what was measured meanwhile is added, and the trials are judged again: so a verdict
 * that was lost with the daemon is made up for. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/search_rules.h"
#include "daemon/work/sweep.h"

struct job;

/* The search may want further points, or is no longer busy. */
typedef void (*search_changed)(struct jobs *jobs, void *owner);

struct search_news {
    int64_t job;
    int64_t attempt; /* the last one, where it has ended */
    bool ended, failed, done;
};

struct search_run {
    struct search_table table;
    struct json_object **chosen; /* owned; values of a trial, where its point does not say them */
    bool *stopped;               /* owned; the search has ended the trial */
    struct sweep *sweep;         /* borrowed */
    search_changed changed;
    void *owner;
    struct search_news *news; /* owned; what is not stored yet */
    size_t news_count, news_capacity;
    size_t exploits; /* trials that get another one's checkpoint at present */
    bool busy;       /* news are being stored */
    bool must_load;
    bool settled; /* it is stored that all have ended, and that no result is missing */
    bool warned;  /* that the trials do not measure what the search compares */
};

/* Makes the search of a sweep. `restored`: it has rows, which search_run_start() reads. */
struct search_run *search_run_new(struct sweep *sweep, bool restored, search_changed changed,
                                  void *owner);
void search_run_free(struct search_run *run);
void search_run_start(struct jobs *jobs, struct search_run *run);
/* Stores that all have ended and no result is missing, if that is so. The search is busy until that
 * is stored. */
void search_run_settle(struct jobs *jobs, struct search_run *run);
/* Whether events of the search are to come; it must not be freed then. */
bool search_run_is_busy(const struct search_run *run);

/* The point has become a job; `ended`: one that never runs. */
void search_point_made(struct search_run *run, int64_t index, bool ended);
/* The job has ended, `done` or not, and left memory. Returns whether the search had ended it. */
bool search_point_left(struct jobs *jobs, struct search_run *run, int64_t index, bool done);
/* No further points become jobs. */
void search_points_end(struct jobs *jobs, struct search_run *run);
/* A job, which may be a trial, has measured something that is stored now; or it runs now. */
void search_job_measured(struct jobs *jobs, const struct job *job);
void search_job_started(struct jobs *jobs, const struct job *job);
/* A job, which may be a trial, is paused now, or nobody edits it any more while it is. */
void search_job_rests(struct jobs *jobs, const struct job *job);
