/* snapshot_files.h: which files a snapshot takes: those that git tracks or does not ignore, or a
 * whole folder. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SNAPSHOT_NAMED_MAX = 8 /* names that a message has */ };

/* Names for a message: the first few, and how many there are. */
struct snapshot_names {
    char *names[SNAPSHOT_NAMED_MAX]; /* owned */
    size_t count;
};

struct snapshot_files {
    char *folder; /* absolute, without links; owned */
    char **names; /* relative to it, in ascending order; owned */
    size_t count, room;
    size_t files;
    char *plain;         /* the folder of the last file, none of whose folders is a link; owned */
    char **bare_modules; /* submodules with files whose `.git` is gone; owned */
    size_t bare_module_count;
    uint64_t bytes;
    uint64_t bytes_max;             /* the search ends beyond; 0: no limit */
    struct snapshot_names left_out; /* pipes, sockets, devices */
    struct snapshot_names unreadable;
    struct snapshot_names leading_out;   /* symbolic links whose target is not in the snapshot */
    struct snapshot_names pointers;      /* of Git LFS, whose content was not fetched */
    struct snapshot_names empty_modules; /* submodules that are not checked out */
    struct snapshot_names largest;       /* files of more than a tenth of the limit */
};

/* The top folder of the git working tree that `directory` lies in; the caller frees it. NULL with a
 * sentence: it lies in none. */
char *snapshot_git_folder(const char *directory, struct error *error);

/* Lists what the snapshot of `files->folder` takes; `git`: by git, else all but folders `.git`. It
 * always takes the folder `inner`, in which the job runs. */
int snapshot_files_find(struct snapshot_files *files, bool git, const char *inner,
                        struct error *error);
void snapshot_files_release(struct snapshot_files *files);

/* Writes "a, b and 3 others"; cut to `size`. Returns `output`. */
char *snapshot_names_format(const struct snapshot_names *names, char *output, size_t size);
