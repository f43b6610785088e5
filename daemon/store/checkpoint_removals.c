/* checkpoint_removals.c: see checkpoint_removals.h. */
#include "daemon/store/checkpoint_removals.h"

#include "base/cleanup.h"
#include "daemon/folder/attempt_folder.h"

#include <stdlib.h>
#include <string.h>

struct removal {
    const char *path; /* the record's */
    size_t index;     /* of that record: the last one that names the path */
};

/* Sorted by path, then by index. */
struct checkpoint_removals {
    struct removal *list;
    size_t count, capacity;
    struct spool_batch next; /* what follows the batch, whose records come behind its own */
};

static int removal_compare(const void *a, const void *b)
{
    const struct removal *first = a, *second = b;
    int order = strcmp(first->path, second->path);

    return order ? order : (first->index > second->index) - (first->index < second->index);
}

static bool removals_add(struct checkpoint_removals *removals, const struct spool_batch *batch,
                         size_t index)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct spool_record *record = &batch->records[i];
        struct json_object *paths =
            record->type == SPOOL_CHECKPOINT ? json_get(record->object, "remove") : NULL;
        size_t count = paths ? json_object_array_length(paths) : 0;

        for (size_t k = 0; k < count; k++) {
            if (removals->count == removals->capacity) {
                size_t capacity = removals->capacity ? 2 * removals->capacity : 64;
                struct removal *grown = realloc(removals->list, capacity * sizeof *grown);

                if (!grown)
                    return false;
                removals->list = grown;
                removals->capacity = capacity;
            }
            removals->list[removals->count++] = (struct removal){
                json_object_get_string(json_object_array_get_idx(paths, k)), index + i};
        }
    }
    return true;
}

static struct checkpoint_removals *removals_read(const struct spool_store *request)
{
    struct checkpoint_removals *removals = calloc(1, sizeof *removals);
    AUTO_CLOSE int spool = attempt_folder_open_file(request->folder, "spool", request->uid, NULL);

    if (!removals)
        return NULL;
    if (spool >= 0 && spool_read(spool, &request->batch->after, false, &removals->next, NULL) < 0)
        removals->next = (struct spool_batch){0};
    if (!removals_add(removals, request->batch, 0) ||
        !removals_add(removals, &removals->next, request->batch->count)) {
        checkpoint_removals_free(removals);
        return NULL;
    }
    if (removals->count > 0)
        qsort(removals->list, removals->count, sizeof *removals->list, removal_compare);
    return removals;
}

bool checkpoint_removals_follow(struct spool_store *request, const struct spool_record *record,
                                const char *path)
{
    struct removal wanted = {path, (size_t)(record - request->batch->records) + 1};
    size_t low = 0, high;

    if (!*request->removals)
        *request->removals = removals_read(request);
    if (!*request->removals)
        return false;
    high = (*request->removals)->count;
    while (low < high) { /* the first that is not before it */
        size_t middle = low + (high - low) / 2;

        if (removal_compare(&(*request->removals)->list[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < (*request->removals)->count &&
           strcmp((*request->removals)->list[low].path, path) == 0;
}

void checkpoint_removals_free(struct checkpoint_removals *removals)
{
    if (!removals)
        return;
    spool_batch_release(&removals->next);
    free(removals->list);
    free(removals);
}
