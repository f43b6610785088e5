/* prepare.c: checks the database files before the store opens them for writing. A file that cannot
 * be read, is damaged or comes from a newer traind is left unchanged. All checks use read-only
 * connections, which neither copy back nor delete a write-ahead log. */
#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/store/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Fails with a sentence that holds the commands to recover a damaged database. `.dump` reads a
 * damaged table from both ends. `.recover` would be simpler, but Debian 12's sqlite3 is built
 * without it. */
static int refuse_damaged(const char *path, const char *what, int version, struct error *error)
{
    const char *name = strrchr(path, '/') + 1;

    return error_set(
        error, -ERROR_DAMAGED,
        "%s is damaged (%s). It was left as it is. To recover what can be read, keep a copy and "
        "rebuild it with\n"
        "    cd '%.*s' && umask 077\n" /* the new file holds other users' jobs: nobody else may read
                                        * it */
        "    mkdir -p damaged && cp -a --backup=numbered %s* damaged/\n"
        "    { sqlite3 %s .dump | sed 's/^ROLLBACK.*/COMMIT;/'; echo 'PRAGMA user_version=%d;'; } "
        "| sqlite3 new.db\n"
        "    rm -f %s* && mv new.db %s\n"
        "and start traind again; to begin anew instead, move the files away",
        path, what, (int)(name - path - 1), path, name, name, version, name, name);
}

static int refuse_newer(const char *path, int version, int known, struct error *error)
{
    return error_set(
        error, -ERROR_OTHER_VERSION,
        "%s has schema %d, but this traind knows up to %d: it was written by a newer "
        "traind. It was left as it is. Install that traind again, or keep the old state "
        "and begin anew with\n    mv %s %s.newer",
        path, version, known, path, path);
}

static const char quick_check_once[] = "PRAGMA quick_check(1)";
static const char select_clean_end[] = "SELECT value FROM setting WHERE name = 'clean_end'";
static const char read_anything[] = "SELECT count(*) FROM sqlite_master";

/* Returns the first column of the first row as text, malloc'd. NULL if there is no row or the query
 * fails; `*code` says which. */
static char *query_text(sqlite3 *database, const char *sql, int *code)
{
    sqlite3_stmt *statement;
    char *text = NULL;

    *code = sqlite3_prepare_v2(database, sql, -1, &statement, NULL);
    if (*code != SQLITE_OK)
        return NULL;
    *code = sqlite3_step(statement);
    if (*code == SQLITE_ROW && sqlite3_column_text(statement, 0))
        text = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
}

/* A check that is in progress. */
struct check {
    const char *path;
    store_progress progress;
    time_t told;
};

/* Checking a large file takes minutes: report it to the person who waits for the start. */
static int report_progress(void *data)
{
    struct check *check = data;
    time_t now = time(NULL);

    if (check->progress && now - check->told >= 5) {
        char status[PATH_MAX + 64];

        check->told = now;
        snprintf(status, sizeof status, "Checking %s after an unclean end", check->path);
        check->progress(status);
    }
    return 0;
}

static int quick_check(sqlite3 *database, const char *path, int version, store_progress progress,
                       struct error *error)
{
    struct check check = {.path = path, .progress = progress};
    int code;

    log_info("traind did not end cleanly last time: checking %s", path);
    sqlite3_progress_handler(database, 100000, report_progress, &check);
    AUTO_FREE char *verdict = query_text(database, quick_check_once, &code);
    if (verdict && strcmp(verdict, "ok") == 0)
        return 0;
    return refuse_damaged(path, verdict ? verdict : sqlite3_errmsg(database), version, error);
}

/* traind.db sets `*unclean`; checkpoints.db, which is checked after it, relies on that. */
static int check_database(sqlite3 *database, enum store_file file, const char *path, bool *unclean,
                          store_progress progress, struct error *error)
{
    int version = store_schema_version(file), code,
        result = store_schema_read_version(database, &version, error);

    if (result == -ERROR_DAMAGED)
        return refuse_damaged(path, sqlite3_errmsg(database), version, error);
    if (result < 0)
        return error_prefix(error, "%s", path);
    if (version > store_schema_version(file))
        return refuse_newer(path, version, store_schema_version(file), error);
    if (version == 0) /* the file has no schema yet, because the first start was interrupted */
        return 0;
    if (file == STORE_JOBS) {
        AUTO_FREE char *clean = query_text(database, select_clean_end, &code);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            return refuse_damaged(path, sqlite3_errmsg(database), version, error);
        *unclean = !clean || strcmp(clean, "1") != 0;
    }
    return *unclean ? quick_check(database, path, version, progress, error) : 0;
}

/* Undoes a change that a kill interrupted before there was a write-ahead log. A first start and
 * migrations write rollback journals. Only SQLite's own recovery can tell such a file from a
 * damaged one, and it must open the file for writing. Any sqlite3 that opens the file does the
 * same. */
static void roll_back(const char *path)
{
    AUTO_FREE char *journal = NULL;
    sqlite3 *database = NULL;

    if (asprintf(&journal, "%s-journal", path) < 0 || access(journal, F_OK) < 0)
        return;
    log_info("undoing an interrupted change of %s", path);
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
        SQLITE_OK) {
        sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sqlite3_exec(database, read_anything, NULL, NULL, NULL);
    }
    sqlite3_close(database); /* the check that follows reports what is still wrong */
}

static int check_file(enum store_file file, const char *path, bool *unclean,
                      store_progress progress, struct error *error)
{
    sqlite3 *database = NULL;
    int result;

    roll_back(path);
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        result = store_error(database, error);
        error_prefix(error, "%s", path);
    } else {
        sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        result = check_database(database, file, path, unclean, progress, error);
    }
    sqlite3_close(database);
    return result;
}

/* Creates the file, or removes the permissions of all others from it. SQLite gives its -wal and
 * -shm files the mode of the database. An administrator may open the database to a group. It must
 * not be open to all, as a restored file may be because of the shell's umask. */
static int make_file(const char *path, struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status;

    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot make %s", path);
    if (fstat(descriptor, &status) < 0 || !(status.st_mode & S_IRWXO))
        return 0;
    if (fchmod(descriptor, status.st_mode & 0770) < 0)
        return error_set_errno(error, -errno,
                               "cannot remove the permissions of other users from %s", path);
    log_warning("removed the permissions of other users from %s", path);
    return 0;
}

int store_prepare(const char *directory, store_progress progress, struct error *error)
{
    AUTO_FREE char *jobs = store_file_path(directory, STORE_JOBS);
    AUTO_FREE char *checkpoints = store_file_path(directory, STORE_CHECKPOINTS);
    bool unclean = false;
    int result = 0;

    if (!jobs || !checkpoints)
        return error_no_memory(error, "the database");

    bool has_jobs = access(jobs, F_OK) == 0, has_checkpoints = access(checkpoints, F_OK) == 0;
    if (has_checkpoints && !has_jobs) /* job ids would be used again */
        return error_set(error, -ERROR_DAMAGED,
                         "%s is there but %s is missing. Put it back; or, to begin anew, move both "
                         "away with\n    mv %s %s.old",
                         checkpoints, jobs, checkpoints, checkpoints);
    if (has_jobs)
        result = check_file(STORE_JOBS, jobs, &unclean, progress, error);
    if (result == 0 && has_checkpoints)
        result = check_file(STORE_CHECKPOINTS, checkpoints, &unclean, progress, error);
    if (result == 0)
        result = make_file(jobs, error);
    if (result == 0)
        result = store_schema_migrate(jobs, STORE_JOBS, error);
    if (result == 0)
        result = make_file(checkpoints, error);
    if (result == 0)
        result = store_schema_migrate(checkpoints, STORE_CHECKPOINTS, error);
    return result;
}
