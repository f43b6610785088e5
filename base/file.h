/* file.h: reads whole files, and replaces a file so that a crash leaves the old or the new
 * content. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a regular file of at most `limit` bytes into a fresh buffer, with a NUL after its end; the
 * caller frees it. -EFBIG beyond the limit. `directory` as for openat(2), AT_FDCWD allowed. */
int file_read(int directory, const char *path, size_t limit, char **content, size_t *size,
              struct error *error);

/* Writes "<path>.tmp", renames it over `path`; with `durable` the file is synced before the rename
 * and its directory after it. A failure removes the temporary file. */
int file_replace(int directory, const char *path, const void *content, size_t size, mode_t mode,
                 int durable, struct error *error);

/* The same, durably, for a result whose path a person has named: refuses what
 * file_check_replaceable() refuses. */
int file_write_result(const char *path, const void *content, size_t size, struct error *error);

/* 0 if a rename may replace `path`: nothing is there, or a regular file. Otherwise -EINVAL: a
 * rename would replace, for example, the device /dev/null by a file. */
int file_check_replaceable(const char *path, struct error *error);

/* Says before the work is done whether its result can be written to `path`: -EINVAL if that is
 * empty, what file_check_replaceable() refuses, or `source`, the file that the result is made of
 * (NULL: none), by any name; another negative errno if its folder takes no file. */
int file_check_result(const char *path, const char *source, struct error *error);

/* Fills what the caller left closed of standard input, output and error, before any file or pipe
 * takes its number and gets what is written there. Reading and writing them fails as before. */
void file_fill_standard(void);

/* pread(2) until the buffer is full or the file ends; repeats after EINTR. Returns the number of
 * bytes read, or a negative errno. */
ssize_t file_read_at(int descriptor, void *buffer, size_t size, int64_t offset);

/* write(2) until everything is written; repeats after EINTR. 0 or a negative errno. */
int file_write_all(int descriptor, const void *content, size_t size);

/* Whether a file could not be opened for lack of descriptors or memory, which says nothing about
 * the file: a later try may succeed. */
bool file_opens_later(int result);

/* Syncs the folder of `path`, which is relative to `directory`. 0 or a negative errno. */
int file_sync_folder(int directory, const char *path);

/* Whether the name is that of a NumPy archive (.npz). */
bool file_is_archive(const char *path);
/* NAME in FILE.npz:NAME, an array of such an archive; the byte before it is the colon. NULL: the
 * path names a whole file. */
char *file_archive_member(char *path);

/* The path of `name` beside the running program (/proc/self/exe's folder), malloc'd. NULL if the
 * folder cannot be read or memory is short. */
char *file_beside_program(const char *name);
