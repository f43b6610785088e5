/* sql.h: SQL that several statements of the store share. */
#pragma once

/* clang-format off */

/* A column of JSON text, null where it is none. SQLite's functions fail the whole query on text
 * that they cannot read, and one damaged row must not hide the others. */
#define SQL_JSON(column) "iif(json_valid(" column "), " column ", NULL)"

/* Of a job: it has not ended. As the index job_live has it. */
#define SQL_LIVE "state NOT IN ('done', 'failed', 'cancelled')"

/* The sweep of the job :job, which is no row yet; of a cancelled sweep, which never became one.
 * What a sweep has come to and is no row was removed: it is no job. To be asked for once `job`
 * lacks :job. */
#define SQL_SWEEP_OF_POINT \
    " FROM sweep WHERE first_job = (SELECT max(first_job) FROM sweep WHERE first_job <= :job)" \
    " AND :job >= first_job + expanded AND :job < first_job + points"

/* Drops checkpoints, to be followed by a condition: no query looks for job 0. Once that is
 * committed, checkpoints_purge() removes them. */
#define SQL_CHECKPOINTS_DROP "UPDATE checkpoint SET job = 0, uid = NULL WHERE "
