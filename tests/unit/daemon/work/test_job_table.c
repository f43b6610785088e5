/* test_job_table.c: the table of live jobs and the heap of waiting ones. */
#include "daemon/work/job_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { JOBS = 5000 };

static struct job *make_jobs(void)
{
    struct job *jobs = calloc(JOBS, sizeof *jobs);

    for (int i = 0; i < JOBS; i++) {
        jobs[i].id = i + 1;
        jobs[i].priority = (int32_t)((unsigned)i * 2654435761u >> 20) % 5 - 2;
    }
    return jobs;
}

static void entries_are_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct job) <= 200);
}

static void find_and_remove(void **state)
{
    struct job *jobs = make_jobs();
    struct job_table table = {0};

    (void)state;
    assert_null(job_table_find(&table, 1));
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(job_table_add(&table, &jobs[i]), 0);
    for (int i = 0; i < JOBS; i++)
        assert_ptr_equal(job_table_find(&table, i + 1), &jobs[i]);
    assert_null(job_table_find(&table, 0));
    assert_null(job_table_find(&table, JOBS + 1));
    for (int i = 0; i < JOBS; i += 2)
        job_table_remove(&table, &jobs[i]);
    assert_int_equal(table.count, JOBS / 2);
    assert_null(job_table_find(&table, 1));
    assert_ptr_equal(job_table_find(&table, 2), &jobs[1]);
    job_table_release(&table);
    free(jobs);
}

static void priority_then_order_of_submission(void **state)
{
    struct job *jobs = make_jobs(), *before = NULL, *first;
    struct job_queue queue = {0};
    int left = 0;

    (void)state;
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(job_queue_push(&queue, &jobs[(i * 1237) % JOBS]), 0);
    for (int i = 0; i < JOBS; i += 3) { /* from the middle, as a cancel does */
        job_queue_remove(&jobs[i]);
        assert_null(jobs[i].queue);
    }
    while ((first = job_queue_first(&queue))) {
        if (before)
            assert_true(before->priority > first->priority ||
                        (before->priority == first->priority && before->id < first->id));
        assert_true((first->id - 1) % 3 != 0);
        before = first;
        job_queue_remove(first);
        left++;
    }
    assert_int_equal(left, JOBS - (JOBS + 2) / 3);
    job_queue_release(&queue);
    free(jobs);
}

/* What Statistics tells must be what a walk over the table finds. */
static void waits_are_compared(const struct job_table *table, const struct job *jobs)
{
    const struct job *longest = job_wait_longest(table);
    size_t count = 0;
    double since = 0;

    for (int i = 0; i < JOBS; i++)
        if (jobs[i].waits_since > 0) {
            count++;
            since = since == 0 || jobs[i].waits_since < since ? jobs[i].waits_since : since;
        }
    assert_int_equal(table->waits.count, count);
    assert_true(longest ? longest->waits_since == since : count == 0);
}

static void who_waits_longest(void **state)
{
    struct job *jobs = make_jobs();
    struct job_table table = {0};
    struct job_queue queue = {0};

    (void)state;
    assert_null(job_wait_longest(&table));
    for (int i = 0; i < JOBS; i++) {
        jobs[i].state = JOB_QUEUED;
        assert_int_equal(job_table_add(&table, &jobs[i]), 0);
        job_wait_begin(&table, &jobs[i], 1 + (i * 1237) % JOBS);
        job_wait_begin(&table, &jobs[i], 0.5); /* it waits already */
        assert_int_equal(job_queue_push(&queue, &jobs[i]), 0);
    }
    waits_are_compared(&table, jobs);
    for (int i = 0; i < JOBS; i++) {
        struct job *job = &jobs[(i * 2741) % JOBS];

        if (i % 5 == 0)
            job_wait_end(&table, job, JOBS + 100);
        else if (i % 5 == 1)
            job_table_set_state(&table, job, JOB_STARTING);
        else if (i % 5 == 2)
            job_table_remove(&table, job);
        else if (i % 5 == 3)
            job_wait_forget(&table, job);
        if (i % 5 < 4)
            job_wait_forget(&table, job); /* once more */
        assert_true(job->waits_since == 0 || i % 5 == 4);
        assert_true((job->waited > 0) == (i % 5 == 0));
        if (i % 50 == 0)
            waits_are_compared(&table, jobs);
    }
    waits_are_compared(&table, jobs);
    assert_int_equal(table.waits.count, JOBS / 5);
    job_wait_begin(&table, &jobs[0], 0.25);
    assert_ptr_equal(job_wait_longest(&table), &jobs[0]);
    for (int i = 0; i < JOBS; i++) { /* the other heap was not touched */
        assert_ptr_equal(jobs[i].queue, &queue);
        job_queue_remove(&jobs[i]);
    }
    job_queue_release(&queue);
    job_table_release(&table);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_small),
        cmocka_unit_test(find_and_remove),
        cmocka_unit_test(priority_then_order_of_submission),
        cmocka_unit_test(who_waits_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
