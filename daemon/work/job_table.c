/* job_table.c: see job_table.h. */
#include "daemon/work/job_table.h"

#include "base/memory.h"

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
    job_wait_forget(table, job);
}

void job_table_set_state(struct job_table *table, struct job *job, enum job_state state)
{
    table->in_state[job->state]--;
    table->in_state[state]++;
    job->state = (uint8_t)state;
    if (state != JOB_QUEUED)
        job_wait_forget(table, job);
}

void job_table_release(struct job_table *table)
{
    free(table->buckets);
    job_queue_release(&table->waits);
    *table = (struct job_table){0};
}

/* ---- heap ------------------------------------------------------------------------------------ */

static bool goes_before(const struct job_queue *queue, const struct job *a, const struct job *b)
{
    if (queue->by_wait)
        return a->waits_since < b->waits_since;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->put_first != b->put_first ? a->put_first > b->put_first : a->id < b->id;
}

static void heap_place(struct job_queue *queue, size_t index, struct job *job)
{
    queue->jobs[index] = job;
    *(queue->by_wait ? &job->wait_index : &job->queue_index) = (uint32_t)index;
}

static void heap_rise(struct job_queue *queue, size_t index, struct job *job)
{
    while (index > 0 && goes_before(queue, job, queue->jobs[(index - 1) / 2])) {
        heap_place(queue, index, queue->jobs[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    heap_place(queue, index, job);
}

static void heap_sink(struct job_queue *queue, size_t index, struct job *job)
{
    for (size_t child = 2 * index + 1; child < queue->count; child = 2 * index + 1) {
        if (child + 1 < queue->count &&
            goes_before(queue, queue->jobs[child + 1], queue->jobs[child]))
            child++;
        if (!goes_before(queue, queue->jobs[child], job))
            break;
        heap_place(queue, index, queue->jobs[child]);
        index = child;
    }
    heap_place(queue, index, job);
}

static int heap_push(struct job_queue *queue, struct job *job)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? queue->capacity * 2 : QUEUE_AT_FIRST;
        struct job **jobs = realloc(queue->jobs, capacity * sizeof(struct job *));

        if (!jobs)
            return -ENOMEM;
        queue->jobs = jobs;
        queue->capacity = capacity;
    }
    heap_rise(queue, queue->count++, job);
    return 0;
}

static void heap_remove(struct job_queue *queue, struct job *job, size_t index)
{
    struct job *last = queue->jobs[--queue->count];

    if (last == job)
        return;
    if (index > 0 && goes_before(queue, last, queue->jobs[(index - 1) / 2]))
        heap_rise(queue, index, last);
    else
        heap_sink(queue, index, last);
}

int job_queue_push(struct job_queue *queue, struct job *job)
{
    int result = heap_push(queue, job);

    if (result == 0)
        job->queue = queue;
    return result;
}

void job_queue_remove(struct job *job)
{
    struct job_queue *queue = job->queue;

    job->queue = NULL;
    if (queue)
        heap_remove(queue, job, job->queue_index);
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

/* ---- waiting --------------------------------------------------------------------------------- */

void job_wait_begin(struct job_table *table, struct job *job, double since)
{
    if (job->waits_since > 0 || !(since > 0))
        return;
    job->waits_since = since;
    table->waits.by_wait = true;
    if (heap_push(&table->waits, job) < 0) /* it is acknowledged already */
        memory_exhausted(0);
}

void job_wait_forget(struct job_table *table, struct job *job)
{
    if (job->waits_since > 0)
        heap_remove(&table->waits, job, job->wait_index);
    job->waits_since = 0;
}

void job_wait_end(struct job_table *table, struct job *job, double now)
{
    job->waited += job->waits_since > 0 ? now - job->waits_since : 0;
    job_wait_forget(table, job);
}

const struct job *job_wait_longest(const struct job_table *table)
{
    return job_queue_first(&table->waits);
}
