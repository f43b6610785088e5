/* checkpoint_removals.c: see checkpoint_removals.h. */
#include "daemon/store/checkpoint_removals.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/folder/attempt_folder.h"

#include <stdlib.h>
#include <string.h>

/* How many bytes behind the batch are searched. A spool may have any length, and a best checkpoint
 * may stay for long before the trainee removes it. */
enum { READ_AHEAD_MAX = 8 * 1024 * 1024 };

struct removal {
    char *path;   /* owned */
    size_t index; /* of the record that names the path, counted from the batch's first record */
};

/* Sorted by path, then by index. */
struct checkpoint_removals {
    struct removal *list;
    size_t count, capacity;
    struct spool_position begin, read; /* where the batch ends, and how far the spool has been
                                        * read */
    size_t records;                    /* searched so far, including the batch's */
};

static int removal_compare(const void *a, const void *b)
{
    const struct removal *first = a, *second = b;
    int order = strcmp(first->path, second->path);

    return order ? order : (first->index > second->index) - (first->index < second->index);
}

static bool removal_add(struct checkpoint_removals *removals, const char *path)
{
    char *copy;

    if (removals->count == removals->capacity) {
        size_t capacity = removals->capacity ? 2 * removals->capacity : 64;
        struct removal *grown = realloc(removals->list, capacity * sizeof *grown);

        if (!grown)
            return false;
        removals->list = grown;
        removals->capacity = capacity;
    }
    copy = path ? strdup(path) : NULL;
    if (copy)
        removals->list[removals->count++] = (struct removal){copy, removals->records};
    return copy || !path;
}

static bool removals_add(struct checkpoint_removals *removals, const struct spool_batch *batch)
{
    size_t before = removals->count;

    for (size_t i = 0; i < batch->count; i++, removals->records++) {
        const struct spool_record *record = &batch->records[i];
        struct json_object *paths =
            record->type == SPOOL_CHECKPOINT ? json_get(record->object, "remove") : NULL;
        size_t count = paths ? json_object_array_length(paths) : 0;

        for (size_t k = 0; k < count; k++)
            if (!removal_add(removals, json_object_get_string(json_object_array_get_idx(paths, k))))
                return false;
    }
    if (removals->count > before)
        qsort(removals->list, removals->count, sizeof *removals->list, removal_compare);
    return true;
}

/* Collects the removals of the batch itself. */
static struct checkpoint_removals *removals_new(const struct spool_batch *batch)
{
    struct checkpoint_removals *removals = memory_zero(sizeof *removals);

    removals->begin = removals->read = batch->after;
    if (!removals_add(removals, batch)) {
        checkpoint_removals_free(removals);
        return NULL;
    }
    return removals;
}

/* Reads the next piece of the spool behind the batch. Returns whether there was one. */
static bool removals_read_on(struct checkpoint_removals *removals,
                             const struct spool_store *request)
{
    AUTO_CLOSE int spool = -1;
    struct spool_batch next = {0};
    int64_t offset = removals->read.offset;

    if (offset - removals->begin.offset > READ_AHEAD_MAX)
        return false;
    spool = attempt_folder_open_file(request->folder, "spool", request->uid, NULL);
    if (spool < 0 || spool_read(spool, &removals->read, false, &next, NULL) < 0)
        return false;
    removals->read = next.after;
    if (!removals_add(removals, &next))
        removals->read.offset = offset; /* no memory: stop the search here */
    spool_batch_release(&next);
    return removals->read.offset > offset;
}

static bool removals_have(const struct checkpoint_removals *removals, const struct removal *wanted)
{
    size_t low = 0, high = removals->count;

    while (low < high) { /* finds the first entry that is not less than `wanted` */
        size_t middle = low + (high - low) / 2;

        if (removal_compare(&removals->list[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < removals->count && strcmp(removals->list[low].path, wanted->path) == 0;
}

enum removals_answer checkpoint_removals_follow(struct spool_store *request,
                                                const struct spool_record *record, const char *path)
{
    struct removal wanted = {(char *)path, (size_t)(record - request->batch->records) + 1};

    if (!*request->removals)
        *request->removals = removals_new(request->batch);
    if (!*request->removals)
        return REMOVALS_LACK;
    if (removals_have(*request->removals, &wanted))
        return REMOVALS_HAVE;
    return removals_read_on(*request->removals, request) ? REMOVALS_UNREAD : REMOVALS_LACK;
}

void checkpoint_removals_free(struct checkpoint_removals *removals)
{
    if (!removals)
        return;
    for (size_t i = 0; i < removals->count; i++)
        free(removals->list[i].path);
    free(removals->list);
    free(removals);
}
