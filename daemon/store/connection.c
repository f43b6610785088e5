/* connection.c: opening a connection, the cache of prepared statements, and errors. */
#include "daemon/store/connection.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <string.h>

enum {
    STATEMENT_SLOTS = 256, /* a power of two, well above the number of statements in the source */
    BUSY_TIMEOUT_MILLISECONDS = 10000 /* an administrator's sqlite3 may hold the lock for a
                                       * moment */
};

struct store_connection {
    sqlite3 *database;
    int log_pages[STORE_FILES];
    struct {
        const char *sql; /* key: the literal's address */
        sqlite3_stmt *statement;
    } statements[STATEMENT_SLOTS];
};

static const char *const file_names[STORE_FILES] = {
    [STORE_JOBS] = "traind.db", [STORE_CHECKPOINTS] = "checkpoints.db"};

char *store_file_path(const char *directory, enum store_file file)
{
    char *path;

    return asprintf(&path, "%s/%s", directory, file_names[file]) < 0 ? NULL : path;
}

/* ---- errors ---------------------------------------------------------------------------------- */

int store_error(sqlite3 *database, struct error *error)
{
    int code = sqlite3_errcode(database), system = sqlite3_system_errno(database);
    const char *text = sqlite3_errmsg(database);

    if (code == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT))
        code = SQLITE_FULL; /* for example, the log's index cannot grow */
    switch (code) {
    case SQLITE_FULL:
        return error_set(
            error, -ENOSPC,
            "the disk that holds traind's state is full; free some space and try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return error_set(error, -ERROR_DAMAGED, "traind's database is damaged (%s)", text);
    case SQLITE_CONSTRAINT:
        return error_set(error, -EEXIST, "the database refused the change (%s)", text);
    case SQLITE_NOMEM:
        return error_no_memory(error, "the database");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(error, -EBUSY,
                         "another program holds traind's database locked; end it and try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return error_set(error, -EACCES, "traind's database cannot be opened or written (%s)",
                         text);
    default:
        return error_set(error, -EIO, "writing or reading traind's database failed (%s%s%s)", text,
                         system ? ": " : "", system ? strerror(system) : "");
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static int note_log_pages(void *data, sqlite3 *database, const char *name, int pages)
{
    struct store_connection *connection = data;

    (void)database;
    connection->log_pages[strcmp(name, "main") == 0 ? STORE_CHECKPOINTS : STORE_JOBS] = pages;
    return SQLITE_OK;
}

static int run_text(struct store_connection *connection, const char *sql, struct error *error)
{
    if (sqlite3_exec(connection->database, sql, NULL, NULL, NULL) != SQLITE_OK)
        return store_error(connection->database, error);
    return 0;
}

static int attach_jobs(struct store_connection *connection, const char *path, struct error *error)
{
    static const char attach[] = "ATTACH :path AS traind";
    AUTO_STATEMENT struct statement statement = statement_open(connection, attach, error);

    statement_bind_text(&statement, ":path", path);
    return statement_run(&statement);
}

static int open_files(struct store_connection *connection, const char *directory,
                      enum store_access access, struct error *error)
{
    AUTO_FREE char *checkpoints = store_file_path(directory, STORE_CHECKPOINTS);
    AUTO_FREE char *jobs = store_file_path(directory, STORE_JOBS);
    int flags = SQLITE_OPEN_NOMUTEX |
                (access == STORE_READ_ONLY ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);

    if (!checkpoints || !jobs)
        return error_no_memory(error, "the database");
    if (sqlite3_open_v2(checkpoints, &connection->database, flags, NULL) != SQLITE_OK)
        return store_error(connection->database, error);
    sqlite3_busy_timeout(connection->database, BUSY_TIMEOUT_MILLISECONDS);
    return attach_jobs(connection, jobs, error);
}

int store_connection_open(const char *directory, enum store_access access,
                          struct store_connection **connection, struct error *error)
{
    static const char both[] = "PRAGMA foreign_keys=ON;"
                               "PRAGMA temp_store=MEMORY;"
                               "PRAGMA trusted_schema=OFF;";
    static const char writer[] = "PRAGMA main.synchronous=FULL;"
                                 "PRAGMA traind.synchronous=FULL;"
                                 "PRAGMA main.journal_size_limit=67108864;"
                                 "PRAGMA traind.journal_size_limit=67108864;"
                                 "PRAGMA main.secure_delete=OFF;" /* Debian's default is on */
                                 "PRAGMA traind.secure_delete=OFF;"
                                 "PRAGMA wal_autocheckpoint=0;";
    struct store_connection *opened = memory_zero(sizeof *opened);
    int result;

    result = open_files(opened, directory, access, error);
    if (result == 0)
        result = run_text(opened, both, error);
    if (result == 0)
        result =
            run_text(opened, access == STORE_READ_WRITE ? writer : "PRAGMA query_only=ON", error);
    if (result < 0) {
        store_connection_close(opened);
        return result;
    }
    if (access == STORE_READ_WRITE)
        sqlite3_wal_hook(opened->database, note_log_pages, opened);
    *connection = opened;
    return 0;
}

void store_connection_close(struct store_connection *connection)
{
    if (!connection)
        return;
    for (int i = 0; i < STATEMENT_SLOTS; i++)
        sqlite3_finalize(connection->statements[i].statement);
    sqlite3_close(connection->database);
    free(connection);
}

sqlite3 *store_database(struct store_connection *connection)
{
    return connection->database;
}

int store_connection_log_pages(const struct store_connection *connection)
{
    int pages = 0;

    for (int i = 0; i < STORE_FILES; i++)
        pages += connection->log_pages[i];
    return pages;
}

void store_connection_fold_log(struct store_connection *connection)
{
    static const struct {
        const char *name;
        enum store_file file;
    } parts[] = {{"main", STORE_CHECKPOINTS}, {"traind", STORE_JOBS}};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (connection->log_pages[parts[i].file] == 0)
            continue;
        sqlite3_wal_checkpoint_v2(connection->database, parts[i].name, SQLITE_CHECKPOINT_PASSIVE,
                                  NULL, NULL);
        connection->log_pages[parts[i].file] = 0;
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

int store_connection_prepare(struct store_connection *connection, const char *sql,
                             sqlite3_stmt **statement, struct error *error)
{
    size_t slot = ((uintptr_t)sql >> 3) * 0x9E3779B97F4A7C15u >> 56;

    for (int probes = 0; probes < STATEMENT_SLOTS; probes++, slot = (slot + 1) % STATEMENT_SLOTS) {
        if (connection->statements[slot].sql == sql) {
            *statement = connection->statements[slot].statement;
            return sqlite3_stmt_busy(*statement)
                       ? error_set(error, -EINVAL, "a statement of traind is run within itself: %s",
                                   sql)
                       : 0;
        }
        if (!connection->statements[slot].sql)
            break;
    }
    if (connection->statements[slot].sql)
        return error_set(error, -ENOBUFS, "too many different statements");
    if (sqlite3_prepare_v3(connection->database, sql, -1, SQLITE_PREPARE_PERSISTENT, statement,
                           NULL) != SQLITE_OK)
        return store_error(connection->database, error);
    connection->statements[slot].sql = sql;
    connection->statements[slot].statement = *statement;
    return 0;
}

int store_connection_run(struct store_connection *connection, const char *sql, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, sql, error);

    return statement_run(&statement);
}
