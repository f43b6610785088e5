/* job_table.c: see job_table.h. */
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

enum {
    BUCKETS_AT_FIRST = 256,
    QUEUE_AT_FIRST = 4 /* most queues belong to a class with few jobs */
};

static size_t bucket_of(int64_t id, size_t count)
{
    return ((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (count - 1);
}

static int table_grow(struct job_table *table)
{
    size_t count = table->bucket_count ? table->bucket_count * 2 : BUCKETS_AT_FIRST;
    struct job **buckets = calloc(count, sizeof *buckets);

    if (!buckets)
        return -ENOMEM;
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct job *job = table->buckets[i];

        while (job) {
            struct job *next = job->next_in_bucket;
            size_t bucket = bucket_of(job->id, count);

            job->next_in_bucket = buckets[bucket];
            buckets[bucket] = job;
            job = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
    return 0;
}

int job_table_add(struct job_table *table, struct job *job)
{
    size_t bucket;

    /* a table that cannot grow only gets slower */
    if (table->count >= table->bucket_count && table_grow(table) < 0 && table->bucket_count == 0)
        return -ENOMEM;
    bucket = bucket_of(job->id, table->bucket_count);
    job->next_in_bucket = table->buckets[bucket];
    table->buckets[bucket] = job;
    table->count++;
    table->in_state[job->state]++;
    return 0;
}

struct job *job_table_find(const struct job_table *table, int64_t id)
{
    struct job *job;

    if (table->bucket_count == 0)
        return NULL;
    job = table->buckets[bucket_of(id, table->bucket_count)];
    while (job && job->id != id)
        job = job->next_in_bucket;
    return job;
}

void job_table_remove(struct job_table *table, struct job *job)
{
    struct job **link = &table->buckets[bucket_of(job->id, table->bucket_count)];

    while (*link != job)
        link = &(*link)->next_in_bucket;
    *link = job->next_in_bucket;
    table->count--;
    table->in_state[job->state]--;
}

void job_table_set_state(struct job_table *table, struct job *job, enum job_state state)
{
    table->in_state[job->state]--;
    table->in_state[state]++;
    job->state = (uint8_t)state;
}

void job_table_release(struct job_table *table)
{
    free(table->buckets);
    *table = (struct job_table){0};
}

/* ---- heap ------------------------------------------------------------------------------------ */

static bool goes_before(const struct job *a, const struct job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->put_first != b->put_first ? a->put_first > b->put_first : a->id < b->id;
}

static void queue_place(struct job_queue *queue, size_t index, struct job *job)
{
    queue->jobs[index] = job;
    job->queue_index = (uint32_t)index;
}

static void queue_rise(struct job_queue *queue, size_t index, struct job *job)
{
    while (index > 0 && goes_before(job, queue->jobs[(index - 1) / 2])) {
        queue_place(queue, index, queue->jobs[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    queue_place(queue, index, job);
}

static void queue_sink(struct job_queue *queue, size_t index, struct job *job)
{
    for (size_t child = 2 * index + 1; child < queue->count; child = 2 * index + 1) {
        if (child + 1 < queue->count && goes_before(queue->jobs[child + 1], queue->jobs[child]))
            child++;
        if (!goes_before(queue->jobs[child], job))
            break;
        queue_place(queue, index, queue->jobs[child]);
        index = child;
    }
    queue_place(queue, index, job);
}

int job_queue_push(struct job_queue *queue, struct job *job)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? queue->capacity * 2 : QUEUE_AT_FIRST;
        struct job **jobs = realloc(queue->jobs, capacity * sizeof(struct job *));

        if (!jobs)
            return -ENOMEM;
        queue->jobs = jobs;
        queue->capacity = capacity;
    }
    job->queue = queue;
    queue_rise(queue, queue->count++, job);
    return 0;
}

void job_queue_remove(struct job *job)
{
    struct job_queue *queue = job->queue;
    struct job *last;
    size_t index = job->queue_index;

    if (!queue)
        return;
    job->queue = NULL;
    last = queue->jobs[--queue->count];
    if (last == job)
        return;
    if (index > 0 && goes_before(last, queue->jobs[(index - 1) / 2]))
        queue_rise(queue, index, last);
    else
        queue_sink(queue, index, last);
}

struct job *job_queue_first(const struct job_queue *queue)
{
    return queue->count ? queue->jobs[0] : NULL;
}

void job_queue_release(struct job_queue *queue)
{
    free(queue->jobs);
    *queue = (struct job_queue){0};
}
