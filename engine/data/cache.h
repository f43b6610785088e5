/* cache.h: data sets that were decoded or generated, as files that every worker of the user maps.
 *
 * The files are in $XDG_CACHE_HOME/traind/datasets, or ~/.cache/traind/datasets. A file's name
 * identifies the set (its place and how it is read), and the file holds a digest of its sources. It
 * is used only if both are as expected and its size and checksums are right. Otherwise a warning
 * names it and it is made again.
 *
 * A file is made under a temporary name, which is also the lock: if two workers want the same set,
 * one makes it and the other waits. If no folder can be written, the set is made in memory.
 * docs/data.md describes this for users. */
#pragma once

#include "base/sha256.h"
#include "engine/data/dataset.h"

/* A set to find in the cache, or to make. */
struct cache_entry {
    char identity[SHA256_HEX_SIZE]; /* digest of place and options; the file's name */
    char content[SHA256_HEX_SIZE];  /* digest of the sources of the samples */
    const char *source;             /* the sources, for messages: "the images in /data/train" */
    enum dataset_element element;   /* UINT8 or FLOAT32 */
    enum dataset_target target;
    int rank;
    int64_t shape[DATASET_RANK_MAX];
    int64_t count;
    int32_t target_width; /* 1 for CLASS */
    /* Writes all samples, [count][shape...], and targets: int32 [count] or float32
     * [count][target_width]. */
    int (*make)(void *context, void *samples, void *targets, struct error *error);
    void *context;
    const struct dataset_events *events; /* NULL allowed */
};

/* Fills shape, element, samples and targets of the set, from the cache or by make(); classes are
 * the caller's. -EINTR when events->stop was set; the errors of make(); -ENOMEM. */
int cache_obtain(const struct cache_entry *entry, struct dataset *dataset, struct error *error);

/* Whether a usable file is there: 1 or 0, without a warning. */
int cache_has(const struct cache_entry *entry);

/* ---- between the files of the cache ---- */

enum { CACHE_NAME_SIZE = SHA256_HEX_SIZE + 8 };

/* cache_folder.c: the folder is made where it is missing; `*path` is malloc'd. The descriptor, or a
 * negative errno with a sentence saying why there is none. */
int cache_folder_open(char **path, struct error *error);
/* Deletes the files that were not used for longest until `bytes` more fit into the cache; -EFBIG
 * with a sentence when they never will. */
int cache_folder_make_room(int folder, uint64_t bytes, struct error *error);
/* Opens `name`, the temporary name of a file, empty and locked until it is closed. 1: another
 * process has it. */
int cache_folder_try_lock(int folder, const char *name, int *descriptor, struct error *error);

/* A folder of the cache whose name has this prefix holds parts of a set that is being generated.
 * While it is locked, nothing deletes it. An unlocked one is deleted at once if it has no finished
 * part (a file whose name has the suffix), otherwise after a week without use. */
#define CACHE_PARTS_PREFIX "parts."
#define CACHE_PART_SUFFIX ".done"
/* Deletes the folder `name` of `folder` (or AT_FDCWD), which holds files alone. */
void cache_folder_remove_parts(int folder, const char *name);

/* cache_file.c: the form of a file. Where its parts lie, in bytes from its beginning. */
struct cache_parts {
    size_t samples, targets, checksums, end; /* end: the length of the file */
    size_t chunks;                           /* checksums: one for each */
};
/* -EFBIG with a sentence when the set is absurdly large. */
int cache_file_lay_out(const struct cache_entry *entry, struct cache_parts *parts,
                       struct error *error);
/* Writes header and checksums of a mapped file whose samples and targets are complete. */
int cache_file_finish(const struct cache_entry *entry, const struct cache_parts *parts,
                      uint8_t *file, struct error *error);
/* Whether the file is the one expected and whole: -ERROR_STALE_FILE with a sentence that says what
 * is wrong with the file at `path`. */
int cache_file_check(const struct cache_entry *entry, const struct cache_parts *parts,
                     const char *path, const uint8_t *file, size_t size, struct error *error);
