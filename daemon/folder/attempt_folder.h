/* attempt_folder.h: work in the folder of an attempt. The folder belongs to the job's user once the
 * attempt's shim runs, so nothing in it may be trusted, followed or waited for. Files that the
 * daemon trusts lie beside the folder (proto/attempt_files.h). Every function here blocks on the
 * disk, so it runs on the thread pool or a storage thread. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

enum { ATTEMPT_FILE_MAX = 4 * 1024 * 1024 };

/* The checkpoints in the folder that an attempt begins with: the one that it goes on from, the best
 * one before that, and weights for the first step. */
#define ATTEMPT_RESUME_FILE "resume.safetensors"
#define ATTEMPT_BEST_FILE "best.safetensors"
#define ATTEMPT_WEIGHTS_FILE "weights.safetensors"

/* The path of an attempt's folder: STATE/jobs/<job / 1000>/<job>.<attempt>. Only this function
 * makes it. */
void attempt_folder_path(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt);

/* The path of a file beside the folder; proto/attempt_files.h has the suffixes. */
void attempt_path_beside(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt, const char *suffix);

/* Makes the folder, empty and of mode 0700. Removes one that an earlier daemon left in its
 * place. */
int attempt_folder_make(const char *state_directory, int64_t job, int64_t attempt,
                        char path[PATH_MAX], struct error *error);

/* Makes, if it does not exist, the folder in which a command keeps its state from attempt to
 * attempt: STATE/jobs/<job / 1000>/<job>.checkpoints, of mode 0700, owned by the user. */
int checkpoint_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                           char path[PATH_MAX], struct error *error);

/* The same for the folder in which the job's frozen code is unpacked:
 * STATE/jobs/<job / 1000>/<job>.snapshot. */
int snapshot_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                         char path[PATH_MAX], struct error *error);

/* Opens the folder. Returns a descriptor, or a negative errno. */
int attempt_folder_open(const char *state_directory, int64_t job, int64_t attempt,
                        struct error *error);

/* Opens a file below an open attempt's folder for reading. It must be a regular file with one link
 * that belongs to `uid`; symbolic links and mount points are not followed. -ENOENT also if it is
 * removed meanwhile; -EPERM if it is anything else. */
int attempt_folder_open_file(int folder, const char *name, uid_t uid, struct error *error);

/* Opens a file of an attempt by the attempt's number: the two functions above in one. */
int attempt_open_file(const char *state_directory, int64_t job, int64_t attempt, uid_t uid,
                      const char *name, struct error *error);

/* Reads a file beside the folder. It must be a regular file of the daemon's user, of at most
 * ATTEMPT_FILE_MAX bytes, that holds a JSON object, which the caller owns. Otherwise a negative
 * errno. */
int attempt_read_beside(const char *state_directory, int64_t job, int64_t attempt,
                        const char *suffix, struct json_object **object);

/* Removes a file below the folder, without following links. */
int attempt_folder_remove_file(int folder, const char *name);

/* Removes the folder of an attempt, its content, and the files beside it. -ENOTEMPTY: its user adds
 * files meanwhile. */
int attempt_folder_remove(const char *state_directory, int64_t job, int64_t attempt);

/* Opens the name below the open folder. Symbolic links and mount points are not followed. A
 * descriptor, or a negative errno. */
int folder_open_beneath(int folder, const char *name, int flags);

/* Removes the entry of that name from the open folder, whatever it is, with all its content. Does
 * not follow links. */
int folder_entry_remove(int folder, const char *name);

/* The path of the folder that holds the folders of this job's and other jobs' attempts:
 * STATE/jobs/<job / 1000>. */
void job_group_path(char path[PATH_MAX], const char *state_directory, int64_t job);
