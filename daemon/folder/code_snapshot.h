/* code_snapshot.h: code that users freeze with their jobs, as archives below the state folder:
 *
 *     snapshots/<uid>/upload-XXXXXX     begun: the client, as its user, writes an archive into it
 *     snapshots/<uid>/upload-XXXXXX.diff  … and how it differs from its commit
 *     snapshots/<uid>/<id>.tar, <id>.diff  kept: `id` is the SHA-256 of both
 *
 * The folders belong to the daemon, so nobody else makes, links, replaces or removes a name in
 * them. The files belong to their user: they count against that user's disk quota, and only
 * processes of that user read the archive. Every function blocks on the disk. */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CODE_SNAPSHOT_ID_SIZE = 65,         /* of the text of an id */
    CODE_SNAPSHOT_DIFF_MAX = 384 * 1024 /* bytes that are read of a diff; a reply must hold them */
};

/* [Snapshots] of the configuration; 0: no limit. */
struct code_snapshot_limits {
    uint64_t bytes_per_snapshot, bytes_per_user;
};

bool code_snapshot_id_is_valid(const char *id);

/* The path of a kept archive. */
void code_snapshot_path(char path[PATH_MAX], const char *state_directory, uid_t uid,
                        const char *id);

/* Makes the two empty files of an upload of `bytes` bytes, owned by the user. `path` is that of the
 * archive; the diff's has ".diff" behind it. Removes uploads that were given up. -EDQUOT: a limit
 * forbids it; -ENOSPC: the disk has too little room. */
int code_snapshot_begin(const char *state_directory, uid_t uid, uint64_t bytes,
                        const struct code_snapshot_limits *limits, char path[PATH_MAX],
                        struct error *error);

/* Keeps what was uploaded to `path`, durably, under its id; drops it if the same is kept already.
 * -EINVAL: `path` is no upload of the user; -EDQUOT: it has grown beyond a limit. */
int code_snapshot_keep(const char *state_directory, uid_t uid, const char *path, const char *id,
                       const struct code_snapshot_limits *limits, struct error *error);

/* -ENOENT with a sentence if the snapshot is not kept. Else nobody removes it in the next hour. */
int code_snapshot_check(const char *state_directory, uid_t uid, const char *id,
                        struct error *error);

/* Reads how the snapshot differs from its commit, at most CODE_SNAPSHOT_DIFF_MAX bytes. The caller
 * frees `*diff`. */
int code_snapshot_read_diff(const char *state_directory, uid_t uid, const char *id, char **diff,
                            bool *complete, struct error *error);

/* A snapshot that some job, sweep or schedule names. */
struct code_snapshot_use {
    uid_t uid;
    char id[CODE_SNAPSHOT_ID_SIZE];
};

/* Removes every file that is older than an hour and whose snapshot is not among the `count` uses,
 * which ascend by user and id. */
void code_snapshot_files_tidy(const char *state_directory, const struct code_snapshot_use *uses,
                              size_t count);
int code_snapshot_use_compare(const void *a, const void *b);
