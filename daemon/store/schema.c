/* schema.c: the schema as a list of migration steps. A released step never changes; a new version
 * is a new step. tests/fixtures has a database of every released version. */
#include "daemon/store/schema.h"

#include "daemon/store/connection.h"

#include <stdio.h>

/* Times are seconds since the epoch; states, kinds, endings and reasons are
 * the names of io.traind. */
static const char *const jobs_steps[] = {
    /* 1 */
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;"
    "CREATE TABLE job ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* never given out twice */
    "  name TEXT NOT NULL,"
    "  kind TEXT NOT NULL CHECK (kind IN ('native', 'command')),"
    "  state TEXT NOT NULL CHECK (state IN ('queued', 'starting', 'running', 'preempting',"
    "    'paused', 'done', 'failed', 'cancelled')),"
    "  uid INTEGER NOT NULL,"
    "  user TEXT NOT NULL," /* the name at the time of submission */
    "  priority INTEGER NOT NULL,"
    "  spec TEXT NOT NULL," /* normalised JSON */
    "  plan_digest TEXT,"   /* native jobs: key of plan, with uid */
    "  device TEXT,"
    "  reason TEXT,"                        /* a sentence for a person */
    "  wait_reason TEXT,"                   /* null once it does not wait */
    "  attempt INTEGER NOT NULL DEFAULT 0," /* the last one started; 0 before the first */
    "  submitted REAL NOT NULL,"
    "  started REAL,"
    "  ended REAL,"
    "  exit_status INTEGER,"
    "  best_metric TEXT, best_value REAL, best_step INTEGER, best_epoch REAL"
    ") STRICT;"
    "CREATE INDEX job_live ON job (id) WHERE state NOT IN ('done', 'failed', 'cancelled');"
    "CREATE INDEX job_by_name ON job (name, id);"
    "CREATE TABLE attempt ("
    "  job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
    "  number INTEGER NOT NULL," /* 0: the planning run */
    "  device TEXT NOT NULL,"
    "  pid INTEGER,"
    "  started REAL NOT NULL,"
    "  ended REAL,"
    "  ending TEXT CHECK (ending IN ('completed', 'exited', 'signalled', 'out_of_memory',"
    "    'timed_out', 'preempted', 'cancelled', 'lost')),"
    "  exit_status INTEGER,"
    "  signal INTEGER,"
    "  message TEXT,"
    "  resumed_from_step INTEGER,"
    "  peak_resident_bytes INTEGER,"
    "  cpu_seconds REAL,"
    "  PRIMARY KEY (job, number)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE spool_offset (" /* how far an attempt's spool is stored */
    "  job INTEGER NOT NULL,"
    "  attempt INTEGER NOT NULL,"
    "  offset INTEGER NOT NULL,"
    "  n INTEGER NOT NULL," /* the last record's number */
    "  PRIMARY KEY (job, attempt),"
    "  FOREIGN KEY (job, attempt) REFERENCES attempt (job, number) ON DELETE CASCADE"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE transition ("
    "  id INTEGER PRIMARY KEY,"
    "  job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
    "  time REAL NOT NULL,"
    "  from_state TEXT,"
    "  to_state TEXT NOT NULL,"
    "  reason TEXT"
    ") STRICT;"
    "CREATE INDEX transition_by_job ON transition (job, id);"
    "CREATE TABLE metric ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* the cursor of Metrics: never given out twice */
    "  job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
    "  name TEXT NOT NULL,"
    "  step INTEGER NOT NULL,"
    "  epoch REAL,"
    "  time REAL NOT NULL,"
    "  value REAL," /* null: not a number */
    "  UNIQUE (job, name, step)"
    ") STRICT;"
    "CREATE INDEX metric_by_job ON metric (job, id);"
    "CREATE TABLE plan ("
    "  uid INTEGER NOT NULL," /* the plan was made with this user's rights to the data */
    "  digest TEXT NOT NULL,"
    "  plan TEXT NOT NULL," /* JSON */
    "  time REAL NOT NULL,"
    "  PRIMARY KEY (uid, digest)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE event (" /* warnings, placements and their reasons */
    "  id INTEGER PRIMARY KEY,"
    "  job INTEGER REFERENCES job ON DELETE CASCADE,"
    "  attempt INTEGER,"
    "  time REAL NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  detail TEXT NOT NULL" /* JSON */
    ") STRICT;"
    "CREATE INDEX event_by_job ON event (job, id);",
    /* 2: finds the open attempts when the daemon starts, without reading all attempts */
    "CREATE INDEX attempt_open ON attempt (job) WHERE ended IS NULL;",
    /* 3: the graph of jobs: dependencies, sweeps, groups, jobs on hold, notifications */
    "ALTER TABLE job ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE job ADD COLUMN job_group TEXT;"
    "ALTER TABLE job ADD COLUMN sweep INTEGER;" /* the sweep's first job */
    "ALTER TABLE job ADD COLUMN notifies INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX job_by_sweep ON job (sweep, id) WHERE sweep IS NOT NULL;"
    "CREATE TABLE dependency ("
    "  job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
    "  on_job INTEGER NOT NULL," /* negative: a sweep, dependency_on_sweep() */
    "  condition TEXT NOT NULL CHECK (condition IN ('success', 'end')),"
    "  PRIMARY KEY (job, on_job)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE job_group ("
    "  uid INTEGER NOT NULL," /* each user has groups of his own */
    "  name TEXT NOT NULL,"
    "  job_limit INTEGER NOT NULL," /* jobs that run at once */
    "  PRIMARY KEY (uid, name)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE sweep ("
    "  first_job INTEGER PRIMARY KEY," /* ids first_job … first_job + points - 1 are its jobs */
    "  points INTEGER NOT NULL,"
    "  expanded INTEGER NOT NULL DEFAULT 0," /* the first `expanded` of them are rows */
    "  uid INTEGER NOT NULL,"
    "  user TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  priority INTEGER NOT NULL,"
    "  spec TEXT NOT NULL," /* as it was given, JSON */
    "  axes TEXT NOT NULL," /* what varies, JSON */
    "  submitted REAL NOT NULL,"
    "  cancelled REAL" /* when the points that are not rows ended */
    ") STRICT;"
    "CREATE INDEX sweep_open ON sweep (first_job) WHERE cancelled IS NULL AND expanded < points;",
    /* 4: why a job runs where it does, or waits: JSON, see jobs/candidates.h */
    "ALTER TABLE job ADD COLUMN decision TEXT;"
    "ALTER TABLE attempt ADD COLUMN decision TEXT;",
    /* 5: measurements of a command's earlier runs: work/command_history.h */
    "CREATE TABLE command_history ("
    "  uid INTEGER NOT NULL,"
    "  digest TEXT NOT NULL," /* plan_digest of its jobs */
    "  device_type TEXT NOT NULL,"
    "  runs INTEGER NOT NULL,"   /* completed */
    "  seconds REAL NOT NULL,"   /* their mean */
    "  squares REAL NOT NULL,"   /* sum of the squared differences from it */
    "  cores REAL NOT NULL,"     /* mean of those kept busy */
    "  memory INTEGER NOT NULL," /* bytes at most, 0: not known */
    "  device_memory INTEGER NOT NULL,"
    "  PRIMARY KEY (uid, digest, device_type)"
    ") STRICT, WITHOUT ROWID;",
    /* 6: devices that take no job */
    "CREATE TABLE device_state ("
    "  device TEXT PRIMARY KEY," /* its id */
    "  health TEXT NOT NULL CHECK (health IN ('draining', 'quarantined')),"
    "  reason TEXT NOT NULL,"
    "  time REAL NOT NULL,"
    "  uid INTEGER NOT NULL" /* who caused it; 0 for the daemon itself */
    ") STRICT, WITHOUT ROWID;",
    /* 7: why an attempt had to leave its device, and the device that a job was moved to */
    "ALTER TABLE attempt ADD COLUMN preemption TEXT;"
    "ALTER TABLE job ADD COLUMN pinned TEXT;",
    /* 8 */
    "CREATE TABLE step_time ("
    "  step TEXT NOT NULL," /* what makes steps alike: a plan's step_digest */
    "  type TEXT NOT NULL," /* of device */
    "  seconds REAL NOT NULL,"
    "  deviation REAL NOT NULL," /* of log(seconds) */
    "  steps REAL NOT NULL,"     /* measured */
    "  predicted REAL,"          /* seconds, before any were */
    "  time REAL NOT NULL,"
    "  PRIMARY KEY (step, type)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX step_time_by_time ON step_time (time);"
    "CREATE TABLE calibration (" /* as `traind-worker calibrate` prints it */
    "  device TEXT NOT NULL,"
    "  threads INTEGER NOT NULL,"
    "  describes TEXT NOT NULL," /* model, instruction sets, versions of libraries */
    "  json TEXT NOT NULL,"
    "  time REAL NOT NULL,"
    "  PRIMARY KEY (device, threads)" /* the latest */
    ") STRICT, WITHOUT ROWID;",
    /* 9: sweeps that are held or released as a whole; null: as their specification says */
    "ALTER TABLE sweep ADD COLUMN held INTEGER;",
    /* 10: the energy that an attempt used, and that its devices used meanwhile:
     * devices/device_energy.h */
    "ALTER TABLE attempt ADD COLUMN energy_joules REAL;"
    "ALTER TABLE attempt ADD COLUMN device_energy_joules REAL;",
    /* 11: `kind` of the trainee's error record */
    "ALTER TABLE attempt ADD COLUMN error_kind TEXT;",
    /* 12: finds the failed and cancelled jobs of a sweep without reading all of its 100,000 jobs */
    "CREATE INDEX job_missed_of_sweep ON job (sweep, state) WHERE sweep IS NOT NULL AND "
    "state IN ('failed', 'cancelled');",
    /* 13: step times belong to the user whose jobs measured them, and calibrations to the service.
     * Earlier rows do not say who measured them, so they are deleted. */
    "DROP TABLE step_time;"
    "CREATE TABLE step_time ("
    "  uid INTEGER NOT NULL,"
    "  step TEXT NOT NULL," /* what makes steps alike: a plan's step_digest */
    "  type TEXT NOT NULL," /* of device */
    "  seconds REAL NOT NULL,"
    "  deviation REAL NOT NULL," /* of log(seconds) */
    "  steps REAL NOT NULL,"     /* measured */
    "  predicted REAL,"          /* seconds, before any were */
    "  time REAL NOT NULL,"
    "  PRIMARY KEY (uid, step, type)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX step_time_by_time ON step_time (time);"
    "DELETE FROM calibration;"
    "ALTER TABLE command_history ADD COLUMN utilisation REAL;" /* of a GPU; null: not measured */
    /* 1: the last run held no memory of its GPU, as far as the driver saw */
    "ALTER TABLE command_history ADD COLUMN held_none INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX dependency_on_job ON dependency (on_job);" /* finds the dependencies on a job that
                                                              * is removed */
    /* finds one user's jobs of a name without reading other users' jobs */
    "CREATE INDEX job_by_name_of_user ON job (name, uid, id);",
    /* 14: removed jobs whose folders must still be deleted: attempts/removed_folders.h */
    "CREATE TABLE removed_job (id INTEGER PRIMARY KEY) STRICT;"
    /* ended attempts whose folders must still be swept: attempts/checkpoint_sweep.h */
    "CREATE TABLE unswept_attempt ("
    "  job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
    "  attempt INTEGER NOT NULL,"
    "  notes INTEGER NOT NULL DEFAULT 1," /* how often it was noted: a sweep may be under way when
                                           * it is noted again */
    "  PRIMARY KEY (job, attempt)"
    ") STRICT, WITHOUT ROWID;"
    /* of the first `expanded` points: how many were removed, and how many of those had failed or
     * been cancelled. How earlier removed points ended is unknown: counting them as cancelled means
     * that none is taken for done. */
    "ALTER TABLE sweep ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sweep ADD COLUMN removed_failed INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sweep ADD COLUMN removed_cancelled INTEGER NOT NULL DEFAULT 0;"
    "UPDATE sweep SET removed = expanded - (SELECT count(*) FROM job WHERE sweep = first_job AND "
    "id < first_job + expanded);"
    "UPDATE sweep SET removed_cancelled = removed;",
    /* 15: which frozen code a job runs: daemon/folder/code_snapshot.h */
    "ALTER TABLE job ADD COLUMN snapshot TEXT;"
    "CREATE INDEX job_by_snapshot ON job (uid, snapshot) WHERE snapshot IS NOT NULL;",
    /* 16: specifications of which a job is made again and again: daemon/jobs/schedules.h */
    "CREATE TABLE schedule ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  uid INTEGER NOT NULL,"
    "  user TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  every TEXT NOT NULL," /* calendar expression: work/calendar.h */
    "  spec TEXT NOT NULL,"  /* normalised, JSON */
    "  submitted REAL NOT NULL,"
    "  next REAL,"        /* when it makes the next job; null: never again */
    "  last_job INTEGER," /* which may have been removed */
    "  skipped INTEGER NOT NULL DEFAULT 0,"
    "  failure TEXT" /* why the last job could not be made */
    ") STRICT;",
    /* 17: searches over the trials of a sweep: work/search.h */
    "CREATE TABLE search_result ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* the order in which results came */
    "  sweep INTEGER NOT NULL,"
    "  job INTEGER NOT NULL,"
    "  rung INTEGER NOT NULL,"
    "  step INTEGER NOT NULL,"             /* of the metric that was measured there */
    "  resource REAL NOT NULL,"            /* its epoch or step */
    "  value REAL,"                        /* null: not a number */
    "  passed INTEGER NOT NULL DEFAULT 0," /* 1: the trial goes on from there */
    "  UNIQUE (job, rung)"
    ") STRICT;"
    "CREATE INDEX search_result_by_sweep ON search_result (sweep, id);"
    "CREATE TABLE search_trial ("
    "  job INTEGER PRIMARY KEY,"
    "  sweep INTEGER NOT NULL,"
    "  chosen TEXT," /* JSON: values that the search chose; null: those of its point */
    "  stopped INTEGER NOT NULL DEFAULT 0" /* 1: the search ended the trial */
    ") STRICT;"
    "CREATE INDEX search_trial_by_sweep ON search_trial (sweep);",
    /* 18: when a job was put before others of its user: `put_first` of its specification */
    "ALTER TABLE job ADD COLUMN put_first REAL NOT NULL DEFAULT 0;",
    /* 19: how long an attempt was suspended, and since when it is: no time that it ran */
    "ALTER TABLE attempt ADD COLUMN suspended REAL NOT NULL DEFAULT 0;"
    "ALTER TABLE attempt ADD COLUMN suspended_since REAL;",
    /* 20: the job whose checkpoint a job begins with: `weights.job` of its specification */
    "ALTER TABLE job ADD COLUMN weights_job INTEGER;"
    "CREATE INDEX job_by_weights ON job (weights_job) WHERE weights_job IS NOT NULL;",
    /* 21: samples of devices and of the queue: store/sample_rows.h */
    "CREATE TABLE sample_series ("
    "  id INTEGER PRIMARY KEY,"
    "  device TEXT NOT NULL," /* its id; '': the queue */
    "  quantity TEXT NOT NULL,"
    "  seen REAL NOT NULL," /* when it was sampled last, up to an hour before */
    "  UNIQUE (device, quantity)"
    ") STRICT;"
    "CREATE TABLE sample_bucket ("
    "  resolution INTEGER NOT NULL," /* seconds */
    "  place INTEGER NOT NULL,"      /* number modulo the places of the resolution */
    "  series INTEGER NOT NULL,"
    "  number INTEGER NOT NULL," /* begins number * resolution seconds after the epoch */
    "  samples INTEGER NOT NULL,"
    "  total INTEGER NOT NULL," /* these three in parts of the quantity's unit */
    "  least INTEGER NOT NULL,"
    "  greatest INTEGER NOT NULL,"
    "  PRIMARY KEY (resolution, place, series)"
    ") STRICT, WITHOUT ROWID;",
    /* 22: when a run of the command was added last: the oldest commands are forgotten */
    "ALTER TABLE command_history ADD COLUMN added REAL NOT NULL DEFAULT 0;",
    /* 23: sweep.results_due: 1: a search whose trials may have results that are not stored yet. Of
     * commands that ran before step 22 their last attempt says when, where it is known; and
     * indexes by which the newest, and the oldest of those with the fewest runs, are found without
     * reading all commands of the user */
    "ALTER TABLE sweep ADD COLUMN results_due INTEGER NOT NULL DEFAULT 0;"
    "UPDATE sweep SET results_due = 1 WHERE json_valid(axes) AND json_type(axes, '$.search') ="
    "  'object' AND ((cancelled IS NULL AND expanded < points) OR EXISTS (SELECT 1 FROM job WHERE"
    "  job.sweep = first_job AND state NOT IN ('done', 'failed', 'cancelled')));"
    "UPDATE command_history SET added = last FROM"
    "  (SELECT uid AS user, plan_digest, max(attempt.ended) AS last"
    "    FROM job JOIN attempt ON attempt.job = job.id"
    "    WHERE kind = 'command' AND plan_digest IS NOT NULL AND attempt.ended IS NOT NULL"
    "    GROUP BY uid, plan_digest)"
    "  WHERE uid = user AND digest = plan_digest AND added = 0;"
    "CREATE INDEX command_history_by_age ON command_history (uid, added);"
    "CREATE INDEX command_history_by_runs ON command_history (uid, runs, added);",
};

static const char *const checkpoints_steps[] = {
    /* 1 */
    "CREATE TABLE checkpoint ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  job INTEGER NOT NULL,"
    "  attempt INTEGER NOT NULL,"
    "  step INTEGER NOT NULL,"
    "  epoch REAL,"
    "  time REAL NOT NULL,"
    "  bytes INTEGER NOT NULL,"
    "  digest TEXT NOT NULL," /* SHA-256 of the whole file, hexadecimal */
    "  best INTEGER NOT NULL,"
    "  location TEXT NOT NULL CHECK (location IN ('database', 'file')),"
    "  path TEXT,"             /* location 'file': relative to the attempt's folder */
    "  metrics TEXT NOT NULL," /* JSON object: name to value */
    "  UNIQUE (job, step)"
    ") STRICT;"
    "CREATE TABLE checkpoint_chunk ("
    "  id INTEGER PRIMARY KEY,"
    "  checkpoint INTEGER NOT NULL REFERENCES checkpoint ON DELETE CASCADE,"
    "  number INTEGER NOT NULL," /* from 0; each but the last has 1 MiB */
    "  digest TEXT NOT NULL,"    /* SHA-256 of the chunk */
    "  data BLOB NOT NULL,"
    "  UNIQUE (checkpoint, number)"
    ") STRICT;",
    /* 2: a step may have two checkpoints: the best one, and one written during the accumulation
     * that follows */
    "CREATE TABLE checkpoint_of_2 ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  job INTEGER NOT NULL,"
    "  attempt INTEGER NOT NULL,"
    "  step INTEGER NOT NULL,"
    "  epoch REAL,"
    "  time REAL NOT NULL,"
    "  bytes INTEGER NOT NULL,"
    "  digest TEXT NOT NULL,"
    "  best INTEGER NOT NULL,"
    "  location TEXT NOT NULL CHECK (location IN ('database', 'file')),"
    "  path TEXT,"
    "  metrics TEXT NOT NULL"
    ") STRICT;"
    "INSERT INTO checkpoint_of_2 SELECT id, job, attempt, step, epoch, time, bytes, digest, best,"
    "  location, path, metrics FROM checkpoint;"
    /* ids that were used are not used again. The first release of this step lacked these two
     * statements; the resulting schema is the same. */
    "DELETE FROM sqlite_sequence WHERE name = 'checkpoint_of_2';"
    "UPDATE sqlite_sequence SET name = 'checkpoint_of_2' WHERE name = 'checkpoint';"
    "DROP TABLE checkpoint;"
    "ALTER TABLE checkpoint_of_2 RENAME TO checkpoint;"
    "CREATE INDEX checkpoint_by_step ON checkpoint (job, step);"
    /* the owner, for limits; indexes to find the checkpoints that a record removes without a
     * search */
    "ALTER TABLE checkpoint ADD COLUMN uid INTEGER;"
    "CREATE INDEX checkpoint_by_user ON checkpoint (uid, bytes);"
    "CREATE INDEX checkpoint_by_path ON checkpoint (job, path);"
    "CREATE INDEX checkpoint_by_attempt ON checkpoint (job, attempt, bytes);",
};

static const struct {
    const char *const *steps;
    int count;
} schemas[STORE_FILES] = {
    [STORE_JOBS] = {jobs_steps, sizeof jobs_steps / sizeof *jobs_steps},
    [STORE_CHECKPOINTS] = {checkpoints_steps, sizeof checkpoints_steps / sizeof *checkpoints_steps},
};

int store_schema_version(enum store_file file)
{
    return schemas[file].count;
}

int store_schema_read_version(sqlite3 *database, int *version, struct error *error)
{
    static const char select_version[] = "PRAGMA user_version";
    sqlite3_stmt *statement;
    int result;

    if (sqlite3_prepare_v2(database, select_version, -1, &statement, NULL) != SQLITE_OK)
        return store_error(database, error);
    result = sqlite3_step(statement) == SQLITE_ROW ? 0 : store_error(database, error);
    if (result == 0)
        *version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

static int run_step(sqlite3 *database, enum store_file file, int step, struct error *error)
{
    char version[64];
    int result = 0;

    snprintf(version, sizeof version, "PRAGMA user_version=%d", step + 1);
    if (sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(database, schemas[file].steps[step], NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(database, version, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        result = store_error(database, error);
        sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
    }
    return result;
}

int store_schema_migrate(const char *path, enum store_file file, struct error *error)
{
    /* page_size counts only for a file that is still empty; checkpoints are long blobs */
    static const char prepare[] = "PRAGMA page_size=%d; PRAGMA journal_mode=WAL;"
                                  "PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF";
    char pragmas[sizeof prepare + 16];
    sqlite3 *database = NULL;
    int version = 0, result;

    snprintf(pragmas, sizeof pragmas, prepare, file == STORE_CHECKPOINTS ? 16384 : 4096);
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(database, pragmas, NULL, NULL, NULL) != SQLITE_OK)
        result = store_error(database, error);
    else
        result = store_schema_read_version(database, &version, error);
    for (; result == 0 && version < schemas[file].count; version++)
        result = run_step(database, file, version, error);
    sqlite3_close(database);
    return result < 0 ? error_prefix(error, "%s", path) : 0;
}
