/* test_job_class.c: classes of waiting jobs, and what jobs have in common: needs and workloads. */
#include "daemon/devices/registry/registry.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/workload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { JOBS = 3000, KINDS = 7 };

/* Makes jobs of KINDS kinds in turn; kinds differ in workload and priority. */
static struct job *make_jobs(struct workload_table *workloads)
{
    struct job *jobs = calloc(JOBS, sizeof *jobs);

    for (int i = 0; i < JOBS; i++) {
        char digest[8];

        snprintf(digest, sizeof digest, "%d", i % KINDS);
        jobs[i].id = i + 1;
        jobs[i].priority = i % KINDS == 3;
        jobs[i].kind = JOB_COMMAND;
        jobs[i].workload = workload_take(workloads, 1000, JOB_COMMAND, digest);
        assert_non_null(jobs[i].workload);
        jobs[i].workload->runs = 1;
    }
    return jobs;
}

static void alike_jobs_are_one_class(void **state)
{
    struct workload_table workloads = {0};
    struct job_classes classes = {0};
    struct job *jobs = make_jobs(&workloads);
    struct job_class *const *list;
    size_t count;

    (void)state;
    for (int i = JOBS - 1; i >= 0; i--) /* the newest first: the order must not matter */
        assert_int_equal(job_classes_add(&classes, &jobs[i]), 0);
    assert_int_equal(classes.job_count, JOBS);
    list = job_classes_sorted(&classes, &count);
    assert_int_equal(count, KINDS);
    for (int i = 0; i < KINDS; i++) { /* the one with a higher priority comes first */
        static const int order[KINDS] = {3, 0, 1, 2, 4, 5, 6};

        assert_ptr_equal(list[i]->waiting.jobs[0], &jobs[order[i]]);
        assert_int_equal(list[i]->waiting.count, JOBS / KINDS + (order[i] < JOBS % KINDS));
        assert_int_equal(list[i]->priority, i == 0);
    }
    /* a job that has run is a class of its own */
    job_classes_remove(&classes, &jobs[0]);
    assert_null(jobs[0].class);
    jobs[0].attempt_number = 1;
    assert_int_equal(job_classes_add(&classes, &jobs[0]), 0);
    list = job_classes_sorted(&classes, &count);
    assert_int_equal(count, KINDS + 1);
    assert_int_equal(list[1]->waiting.count, 1);
    assert_ptr_equal(list[1]->waiting.jobs[0], &jobs[0]);
    for (int i = 0; i < JOBS; i++)
        job_classes_remove(&classes, &jobs[i]);
    assert_int_equal(classes.job_count, 0);
    job_classes_sorted(&classes, &count);
    assert_int_equal(count, 0);
    for (int i = 0; i < JOBS; i++)
        workload_drop(&workloads, jobs[i].workload);
    assert_int_equal(workloads.count, 0);
    job_classes_release(&classes);
    workload_table_release(&workloads);
    free(jobs);
}

static void commands_that_never_ran_are_one_class(void **state)
{
    struct workload_table workloads = {0};
    struct job_classes classes = {0};
    struct job *jobs = make_jobs(&workloads);
    size_t count;

    (void)state;
    for (int i = 0; i < JOBS; i++) {
        jobs[i].workload->runs = 0;
        jobs[i].priority = 0;
        assert_int_equal(job_classes_add(&classes, &jobs[i]), 0);
    }
    job_classes_sorted(&classes, &count);
    assert_int_equal(count, 1);
    job_classes_release(&classes);
    workload_table_release(&workloads);
    free(jobs);
}

static void assert_in_order(struct job_classes *classes, size_t expected)
{
    size_t count;
    struct job_class *const *list = job_classes_sorted(classes, &count);

    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        const struct job *job = list[i]->waiting.jobs[0];

        assert_int_equal(list[i]->index, i);
        assert_ptr_equal(job->class, list[i]);
        if (i > 0) {
            const struct job *before = list[i - 1]->waiting.jobs[0];

            assert_true(before->priority > job->priority ||
                        (before->priority == job->priority && before->id < job->id));
        }
    }
}

/* The place of a class changes if its first job leaves, or if an older one joins. */
static void classes_change_places(void **state)
{
    struct workload_table workloads = {0};
    struct job_classes classes = {0};
    struct job *jobs = make_jobs(&workloads);

    (void)state;
    for (int i = 0; i < 20 * KINDS; i++)
        assert_int_equal(job_classes_add(&classes, &jobs[i]), 0);
    assert_in_order(&classes, KINDS);
    for (int i = 0; i < 19 * KINDS; i++) { /* the oldest leaves, and sometimes an old one returns */
        job_classes_remove(&classes, &jobs[i]);
        if (i % 3 == 0 && i > KINDS)
            assert_int_equal(job_classes_add(&classes, &jobs[i - KINDS]), 0);
        if (i % 5 == 0) /* one of many changes at once, or several */
            assert_in_order(&classes, KINDS);
    }
    job_classes_release(&classes);
    workload_table_release(&workloads);
    free(jobs);
}

static void classes_come_and_go(void **state)
{
    struct workload_table workloads = {0};
    struct job_classes classes = {0};
    struct job *jobs = make_jobs(&workloads);

    (void)state;
    for (int i = 0; i < JOBS; i++)
        jobs[i].attempt_number = 1; /* each is a class of its own */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(job_classes_add(&classes, &jobs[i]), 0);
        for (int i = 0; i < JOBS; i += 2)
            job_classes_remove(&classes, &jobs[i]);
        assert_in_order(&classes, JOBS / 2);
        for (int i = 1; i < JOBS; i += 2)
            job_classes_remove(&classes, &jobs[i]);
    }
    job_classes_release(&classes);
    workload_table_release(&workloads);
    free(jobs);
}

static void equal_needs_are_shared(void **state)
{
    static const char text[] = "{\"device\":{\"prefer\":\"auto\",\"deny\":[\"cpu\"],\"threads\":2},"
                               "\"resources\":{\"devices\":2,\"time\":7.5}}";
    struct job_needs_table table = {0};
    struct job_needs *needs = job_needs_take(&table, text);

    (void)state;
    assert_non_null(needs);
    assert_ptr_equal(job_needs_take(&table, text), needs);
    assert_ptr_not_equal(job_needs_take(&table, "{}"), needs);
    assert_int_equal(table.count, 2);
    assert_null(needs->prefer);
    assert_int_equal(needs->threads, 2);
    assert_int_equal(needs->devices, 2);
    assert_true(needs->seconds == 7.5);
    assert_null(job_needs_take(&table, "{"));
    job_needs_drop(&table, needs);
    job_needs_drop(&table, needs);
    assert_int_equal(table.count, 1);
    job_needs_table_release(&table);
}

static void needs_choose_devices(void **state)
{
    static const struct device cpu = {.name = "cpu", .id = "c", .driver = &device_driver_cpu},
                               gpu = {.name = "cuda:0",
                                      .id = "GPU-1",
                                      .driver = &device_driver_nvidia};
    static const struct {
        const char *device, *resources;
        bool native_cpu, native_gpu, command_cpu, command_gpu;
    } cases[] = {
        {"{}", "{}", true, true, true, true}, /* jobs/job_default.h says which of them */
        {"{}", "{\"device_memory\":5}", true, true, false, true},
        {"{\"allow\":[\"cuda\"]}", "{}", false, true, false, true},
        {"{\"allow\":[\"cuda\",\"cpu\"],\"deny\":[\"GPU-1\"]}", "{}", true, false, true, false},
        {"{\"force\":\"cuda:0\",\"deny\":[\"cuda\"]}", "{}", false, false, false, false},
        {"{\"force\":\"cuda:0\",\"allow\":[\"cpu\"]}", "{}", false, true, false, true},
        {"{\"prefer\":\"cuda\"}", "{}", true, true, true, true},
        {"{\"prefer\":\"cuda\",\"fallback\":false}", "{}", false, true, false, true},
        {"{\"prefer\":\"cuda\",\"fallback\":false,\"allow\":[\"cpu\",\"cuda\"]}", "{}", false, true,
         false, true},
        {"{\"prefer\":\"auto\",\"fallback\":false}", "{}", true, true, true, true},
        {"{\"allow\":[\"gpu\"]}", "{}", false, true, false, true},
        {"{\"allow\":[\"any\"]}", "{}", true, true, true, true},
        {"{\"force\":\"gpu\"}", "{}", false, true, false, true},
    };
    struct job_needs_table table = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];

        snprintf(text, sizeof text, "{\"device\":%s,\"resources\":%s}", cases[i].device,
                 cases[i].resources);
        struct job_needs *needs = job_needs_take(&table, text);
        assert_non_null(needs);
        assert_int_equal(job_needs_allow(needs, JOB_NATIVE, &cpu), cases[i].native_cpu);
        assert_int_equal(job_needs_allow(needs, JOB_NATIVE, &gpu), cases[i].native_gpu);
        assert_int_equal(job_needs_allow(needs, JOB_COMMAND, &cpu), cases[i].command_cpu);
        assert_int_equal(job_needs_allow(needs, JOB_COMMAND, &gpu), cases[i].command_gpu);
    }
    job_needs_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike_jobs_are_one_class),
        cmocka_unit_test(commands_that_never_ran_are_one_class),
        cmocka_unit_test(classes_change_places),
        cmocka_unit_test(classes_come_and_go),
        cmocka_unit_test(equal_needs_are_shared),
        cmocka_unit_test(needs_choose_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
