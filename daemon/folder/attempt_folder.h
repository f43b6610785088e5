/* attempt_folder.h: what is done in the folder of an attempt, which belongs to the job's user
 * once its shim runs: nothing in it may be trusted, followed or waited for. What the daemon
 * believes lies beside it (proto/attempt_files.h). Every function here blocks on the disk, so it
 * runs on the thread pool or a storage thread. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

enum { ATTEMPT_FILE_MAX = 4 * 1024 * 1024 };

/* The one place that names an attempt's folder: STATE/jobs/<job / 1000>/<job>.<attempt>. */
void attempt_folder_path(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt);

/* The path of what lies beside it; the suffixes are those of proto/attempt_files.h. */
void attempt_path_beside(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt, const char *suffix);

/* Makes it, empty and of mode 0700; what an earlier daemon left in its place goes. */
int attempt_folder_make(const char *state_directory, int64_t job, int64_t attempt,
                        char path[PATH_MAX], struct error *error);

/* Makes, if need be, the folder that a command keeps its state in from attempt to attempt:
 * STATE/jobs/<job / 1000>/<job>.checkpoints, of mode 0700, the user's. */
int checkpoint_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                           char path[PATH_MAX], struct error *error);

/* Opens it. A descriptor, or negative errno. */
int attempt_folder_open(const char *state_directory, int64_t job, int64_t attempt,
                        struct error *error);

/* Opens a file below an open attempt's folder for reading: a regular file with one link that
 * belongs to `uid`, reached without symbolic links and mount points. -ENOENT for one that is
 * removed meanwhile, too; -EPERM for anything else. */
int attempt_folder_open_file(int folder, const char *name, uid_t uid, struct error *error);

/* Both in one: what Logs needs. */
int attempt_open_file(const char *state_directory, int64_t job, int64_t attempt, uid_t uid,
                      const char *name, struct error *error);

/* Reads what lies beside the folder: a regular file of the daemon's user of at most
 * ATTEMPT_FILE_MAX bytes that holds a JSON object, which the caller owns. Negative errno for
 * anything else. */
int attempt_read_beside(const char *state_directory, int64_t job, int64_t attempt,
                        const char *suffix, struct json_object **object);

/* Removes a file below the folder, without following links. */
int attempt_folder_remove_file(int folder, const char *name);

/* Removes the folder of an attempt, all that is in it and all that is beside it. -ENOTEMPTY: its
 * user fills it meanwhile. */
int attempt_folder_remove(const char *state_directory, int64_t job, int64_t attempt);

/* Removes what is named so in the open folder, whatever it is, and all that is in it, without
 * following links. */
int folder_entry_remove(int folder, const char *name);

/* The folder that those of the job's attempts lie in, with those of others:
 * STATE/jobs/<job / 1000>. */
void job_group_path(char path[PATH_MAX], const char *state_directory, int64_t job);
