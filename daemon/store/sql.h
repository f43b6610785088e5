/* sql.h: SQL that several statements of the store share. */
#pragma once

/* clang-format off */

/* A column of JSON text, or null if the text is not JSON. SQLite's JSON functions fail the whole
 * query on such text, and one damaged row must not hide the others. */
#define SQL_JSON(column) "iif(json_valid(" column "), " column ", NULL)"

/* The job has not ended. The same text as in the index job_live, so that SQLite uses the index. */
#define SQL_LIVE "state NOT IN ('done', 'failed', 'cancelled')"

/* Seconds since the epoch. */
#define SQL_NOW "(julianday('now') - 2440587.5) * 86400"

/* Seconds that a row of table attempt ran, or runs by now. While it is suspended, it does not. */
#define SQL_ATTEMPT_RAN \
    "max(coalesce(attempt.ended, attempt.suspended_since," \
    " " SQL_NOW ") - attempt.started - attempt.suspended, 0)"

/* The same of all attempts of job.id. */
#define SQL_RAN \
    "(SELECT sum(" SQL_ATTEMPT_RAN ") FROM attempt" \
    "  WHERE attempt.job = job.id AND number > 0)"

/* A search has ended the job, which is a trial of it: that is no failure of its sweep. */
#define SQL_STOPPED \
    "EXISTS (SELECT 1 FROM search_trial WHERE search_trial.job = job.id AND stopped)"

/* The sweep of the point :job that has no row yet, or, if the sweep was cancelled, never got one. A
 * point among the first `expanded` without a row was removed and is not found. Use it only if table
 * job has no row :job. */
#define SQL_SWEEP_OF_POINT \
    " FROM sweep WHERE first_job = (SELECT max(first_job) FROM sweep WHERE first_job <= :job)" \
    " AND :job >= first_job + expanded AND :job < first_job + points"

/* Drops checkpoints; a condition must follow. No query looks for job 0. After the commit,
 * checkpoints_purge() deletes them. */
#define SQL_CHECKPOINTS_DROP "UPDATE checkpoint SET job = 0, uid = NULL WHERE "
