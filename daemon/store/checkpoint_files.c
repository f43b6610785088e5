/* checkpoint_files.c: see checkpoint_files.h. */
#include "daemon/store/checkpoint_files.h"

#include "daemon/store/checkpoint_rows.h"
#include "daemon/store/statement.h"

#include <string.h>
#include <unistd.h>

/* Holes are allowed as long as the disk holds at least this fraction (1/N) of the file. A
 * checkpoint may consist mostly of zeros, for example if the optimizer's states are still zero. */
enum { HOLES_PART_MIN = 8 };

bool checkpoint_file_has_holes(int file, const struct stat *status)
{
    bool holes = lseek(file, 0, SEEK_HOLE) < status->st_size;

    /* a file system that compresses stores long runs of zeros as holes by itself: the limit allows
     * that */
    return holes && (int64_t)status->st_blocks * 512 < status->st_size / HOLES_PART_MIN;
}

/* Whether the path has no empty, `.` or `..` part. Rows are found by path, so a file must have one
 * name only. */
static bool path_is_plain(const char *path)
{
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");

        if (length == 0 || (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))))
            return false;
        part += length;
        if (!*part)
            return true;
    }
}

static const char select_time[] =
    "SELECT time FROM checkpoint"
    " WHERE job = :job AND attempt = :attempt AND path = :path AND location = 'file'"
    " ORDER BY time DESC LIMIT 1";

/* If the attempt has a row for this path: drops the row if the file has changed since the row was
 * written, because the content that it described is gone. Otherwise sets `*why` to the reason for
 * refusing the record. */
static int kept_file_check(struct store_connection *connection, struct spool_store *request,
                           const char *path, const struct stat *status, const char **why,
                           struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_time, error);
    double changed = (double)status->st_ctim.tv_sec + (double)status->st_ctim.tv_nsec / 1e9;

    *why = NULL;
    statement_bind_int(&row, ":job", request->job);
    statement_bind_int(&row, ":attempt", request->attempt);
    statement_bind_text(&row, ":path", path);
    if (statement_next(&row) <= 0)
        return row.result;
    if (statement_double(&row, 0) < changed)
        return checkpoint_row_drop(connection, request, path, error);
    *why = "an earlier record named the same file";
    return 0;
}

int checkpoint_file_keep(struct store_connection *connection, struct spool_store *request,
                         const struct spool_record *record, const struct stat *status,
                         struct error *error)
{
    const char *path = json_get_string(record->object, "path", ""), *why;
    int64_t id;
    int result;

    if (!path_is_plain(path))
        return checkpoint_complain(
            connection, request, record,
            "the path of a file that stays one holds //, . or ..; leave them out", error);
    result = kept_file_check(connection, request, path, status, &why, error);
    if (result < 0)
        return result;
    return why ? checkpoint_complain(connection, request, record, why, error)
               : checkpoint_row_insert(connection, request, record, request->job, false, &id,
                                       error);
}
