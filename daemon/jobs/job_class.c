/* job_class.c: see job_class.h. */
#include "daemon/jobs/job_class.h"

#include "base/hash.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

enum { INSERTED_MAX = 16 }; /* more unsorted classes are sorted together */

/* ---- the table ------------------------------------------------------------------------------- */

static size_t bucket_of(const struct job_classes *classes, const struct job_class *class)
{
    uint64_t hash = HASH_START;

    hash = hash_bytes(hash, &class->workload, sizeof class->workload);
    hash = hash_bytes(hash, &class->needs, sizeof class->needs);
    hash = hash_bytes(hash, &class->only, sizeof class->only);
    hash = hash_bytes(hash, &class->priority, sizeof class->priority);
    hash = hash_bytes(hash, &class->put_first, sizeof class->put_first);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): made before the first class */
    return hash % classes->bucket_count;
}

static bool is_same(const struct job_class *a, const struct job_class *b)
{
    return a->workload == b->workload && a->needs == b->needs && a->only == b->only &&
           a->uid == b->uid && a->priority == b->priority && a->put_first == b->put_first;
}

static int grow(struct job_classes *classes)
{
    size_t capacity = classes->capacity ? classes->capacity * 2 : 64;
    struct job_class **list = realloc(classes->list, capacity * sizeof(struct job_class *));
    struct job_class **buckets;

    if (!list)
        return -ENOMEM;
    classes->list = list;
    buckets = calloc(capacity * 2, sizeof(struct job_class *));
    if (!buckets)
        return -ENOMEM;
    free(classes->buckets);
    classes->buckets = buckets;
    classes->bucket_count = capacity * 2;
    classes->capacity = capacity;
    for (size_t i = 0; i < classes->count; i++) {
        if (classes->list[i]) {
            struct job_class **bucket = &buckets[bucket_of(classes, classes->list[i])];

            classes->list[i]->next_in_bucket = *bucket;
            *bucket = classes->list[i];
        }
    }
    return 0;
}

static void close_holes(struct job_classes *classes)
{
    size_t count = 0, sorted = 0;

    for (size_t i = 0; i < classes->count; i++) {
        if (!classes->list[i])
            continue;
        if (i < classes->sorted)
            sorted++;
        if (i != count) {
            classes->list[i]->index = count;
            classes->list[count] = classes->list[i];
        }
        count++;
    }
    classes->count = count;
    classes->sorted = sorted;
    classes->gone = 0;
}

static struct job_class *class_new(struct job_classes *classes, const struct job_class *key)
{
    struct job_class *class, **bucket;

    if (classes->gone > classes->count / 2)
        close_holes(classes);
    if (classes->count == classes->capacity && grow(classes) < 0)
        return NULL;
    class = malloc(sizeof *class);
    if (!class)
        return NULL;
    *class = *key;
    bucket = &classes->buckets[bucket_of(classes, class)];
    class->next_in_bucket = *bucket;
    *bucket = class;
    class->index = classes->count;
    classes->list[classes->count++] = class;
    return class;
}

static void class_free(struct job_classes *classes, struct job_class *class)
{
    struct job_class **link = &classes->buckets[bucket_of(classes, class)];

    while (*link != class)
        link = &(*link)->next_in_bucket;
    *link = class->next_in_bucket;
    classes->list[class->index] = NULL;
    classes->gone++;
    job_queue_release(&class->waiting);
    free(class);
}

/* The class has another first job now, so it moves to the unsorted classes. */
static void class_leave_place(struct job_classes *classes, struct job_class *class)
{
    if (class->index >= classes->sorted)
        return;
    classes->list[class->index] = NULL;
    classes->gone++;
    if (classes->count == classes->capacity)
        close_holes(classes);
    class->index = classes->count;
    classes->list[classes->count++] = class;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

int job_classes_add(struct job_classes *classes, struct job *job)
{
    /* nothing is known that distinguishes commands that have never run */
    bool unknown = job->kind == JOB_COMMAND && job->workload->runs == 0;
    struct job_class key = {.workload = unknown ? NULL : job->workload,
                            .needs = job->needs,
                            .only = job->attempt_number > 0 ? job->id : 0,
                            .uid = job->uid,
                            .priority = job->priority,
                            .put_first = job->put_first};
    struct job_class *class = NULL;
    int result;

    if (classes->bucket_count) {
        class = classes->buckets[bucket_of(classes, &key)];
        while (class && !is_same(class, &key))
            class = class->next_in_bucket;
    }
    if (!class)
        class = class_new(classes, &key);
    if (!class)
        return -ENOMEM;
    result = job_queue_push(&class->waiting, job);
    if (result == 0) {
        job->class = class;
        classes->job_count++;
        if (class->waiting.jobs[0] == job)
            class_leave_place(classes, class);
    } else if (class->waiting.count == 0) {
        class_free(classes, class);
    }
    return result;
}

void job_classes_remove(struct job_classes *classes, struct job *job)
{
    struct job_class *class = job->class;
    bool first;

    if (!class)
        return;
    first = class->waiting.jobs[0] == job;
    job_queue_remove(job);
    job->class = NULL;
    classes->job_count--;
    if (class->waiting.count == 0)
        class_free(classes, class);
    else if (first)
        class_leave_place(classes, class);
}

/* Orders classes by their first jobs: higher priorities first, then what was put first, then
 * older jobs. */
static int compare_classes(const struct job_class *a, const struct job_class *b)
{
    const struct job *first = a->waiting.jobs[0], *other = b->waiting.jobs[0];

    if (first->priority != other->priority)
        return first->priority > other->priority ? -1 : 1;
    if (first->put_first != other->put_first)
        return first->put_first > other->put_first ? -1 : 1;
    return (first->id > other->id) - (first->id < other->id);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_classes(*(struct job_class *const *)a, *(struct job_class *const *)b);
}

/* Moves the first unsorted class to its place among the sorted ones. */
static void insert(struct job_classes *classes)
{
    struct job_class **list = classes->list, *class = list[classes->sorted];
    size_t at = classes->sorted++;

    for (; at > 0 && compare_classes(list[at - 1], class) > 0; at--) {
        list[at] = list[at - 1];
        list[at]->index = at;
    }
    list[at] = class;
    class->index = at;
}

struct job_class *const *job_classes_sorted(struct job_classes *classes, size_t *count)
{
    if (classes->gone)
        close_holes(classes);
    if (classes->count - classes->sorted <= INSERTED_MAX) {
        while (classes->sorted < classes->count)
            insert(classes);
    } else {
        qsort(classes->list, classes->count, sizeof(struct job_class *), compare_entries);
        for (size_t i = 0; i < classes->count; i++)
            classes->list[i]->index = i;
        classes->sorted = classes->count;
    }
    *count = classes->count;
    return classes->list;
}

void job_classes_release(struct job_classes *classes)
{
    for (size_t i = 0; i < classes->count; i++) {
        if (classes->list[i]) {
            job_queue_release(&classes->list[i]->waiting);
            free(classes->list[i]);
        }
    }
    free(classes->list);
    free(classes->buckets);
    *classes = (struct job_classes){0};
}
