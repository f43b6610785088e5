/* report.h: what a report of jobs says. The replies of the daemon become a document. */
#pragma once

#include "client/command_line/invocation.h"

/* A job of the report. */
struct report_job {
    int64_t id;
    struct json_object *shown;     /* the reply to Show; owned */
    struct json_object *explained; /* the reply to Explain; owned; NULL: not fetched */
    struct json_object *curves;    /* {metric: reply to Curve}; owned; NULL: not fetched */
};

struct report_jobs {
    struct report_job *jobs; /* owned */
    size_t count;
};

enum {
    REPORT_DETAILED_JOBS = 12, /* of more jobs there are tables alone */
    REPORT_CURVES_JOBS = 32,   /* of more jobs there are no curves */
    REPORT_METRICS = 64        /* curves of so many metrics are drawn */
};

/* Fetches the jobs that the command line names, each once, with all that is to be said. `names`: an
 * array of the metrics to draw; NULL: those that the jobs have. Prints every error. */
enum exit_status report_jobs_fetch(struct invocation *invocation, struct json_object *names,
                                   struct report_jobs *jobs);
void report_jobs_release(struct report_jobs *jobs);

/* The document about the jobs; the caller owns it. `now`: when it is made, seconds since the
 * epoch. */
struct json_object *report_document_new(const struct report_jobs *jobs, double now);

/* Whether a key of a specification may hold a secret, such as a token in a variable of the
 * environment: reports are handed on, so they have no values of such keys. */
bool report_key_is_private(const char *key);

/* "12 fashion-cnn" */
char *report_job_title(const struct report_job *job, char *output, size_t size);

/* The parts of the document. */
/* With `compared` the comparison has the metrics already, each in a figure of its own. */
void report_add_job(struct json_object *document, const struct report_job *job, bool compared,
                    double now);
void report_add_comparison(struct json_object *document, const struct report_jobs *jobs,
                           double now);
/* The curves of one job, those of one kind in one figure; `compared`: figures of several curves
 * alone. */
void report_add_curves(struct json_object *document, const struct report_job *job, bool compared);
/* The curves of several jobs, a figure for each metric. */
void report_add_common_curves(struct json_object *document, const struct report_jobs *jobs);

/* Seconds that the job waited, ran and was paused, by its transitions up to `now`. `*complete`:
 * false if the daemon has left the oldest ones out. */
struct report_times {
    double waited, ran, paused;
    bool complete;
};
struct report_times report_times_find(struct json_object *shown, double now);
