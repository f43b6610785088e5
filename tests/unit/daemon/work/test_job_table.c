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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_small),
        cmocka_unit_test(find_and_remove),
        cmocka_unit_test(priority_then_order_of_submission),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
