/* test_dependencies.c: dependencies of jobs: reading them, the check for cycles, whether they are
 * met, and their descriptions. */
#include "daemon/work/job_dependencies.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { JOBS = 10000 };

static struct dependency on_index(int64_t index)
{
    return (struct dependency){.index = index};
}

static void reading_keeps_the_stricter(void **state)
{
    static const char text[] =
        "[{\"job\":7,\"on\":\"end\"},{\"job\":8,\"on\":\"end\"},{\"job\":7,\"on\":\"success\"},"
        "{\"index\":0,\"on\":\"end\"},{\"sweep\":7,\"on\":\"end\"}]";
    JSON_AUTO struct json_object *after = NULL;
    struct dependencies read;

    (void)state;
    assert_int_equal(json_parse(text, strlen(text), &after, NULL), 0);
    assert_int_equal(dependencies_read(after, &read), 0);
    assert_int_equal(read.count, 4);
    assert_int_equal(read.list[0].on_job, 7);
    assert_int_equal(read.list[0].condition, DEPENDENCY_SUCCESS);
    assert_int_equal(read.list[1].condition, DEPENDENCY_END);
    assert_int_equal(read.list[2].index, 0);
    assert_int_equal(read.list[3].on_job, dependency_on_sweep(7)); /* it is sweep 7, not job 7 */
    assert_int_equal(read.list[3].index, -1);
    dependencies_release(&read);
    assert_int_equal(dependencies_read(NULL, &read), 0);
    assert_int_equal(read.count, 0);
}

/* Makes a chain of JOBS jobs, each after the next one. Then the last one waits for the first. */
static void circles_are_found(void **state)
{
    struct dependency *edges = calloc(JOBS, sizeof *edges);
    struct dependencies *all = calloc(JOBS, sizeof *all);
    struct dependency both[2], unknown = on_index(JOBS), self = on_index(3);
    struct error error;
    size_t culprit;

    (void)state;
    for (int i = 0; i + 1 < JOBS; i++) {
        edges[i] = on_index(i + 1);
        all[i] = (struct dependencies){&edges[i], 1};
    }
    assert_int_equal(dependencies_check(all, JOBS, &culprit, &error), 0);
    both[0] = on_index(JOBS - 2);
    both[1] = on_index(JOBS / 2);
    all[JOBS - 1] = (struct dependencies){both, 2};
    assert_int_equal(dependencies_check(all, JOBS, &culprit, &error), -EINVAL);
    assert_non_null(strstr(error.text, "circle"));
    all[JOBS - 1] = (struct dependencies){0};
    all[3] = (struct dependencies){&self, 1};
    assert_int_equal(dependencies_check(all, JOBS, &culprit, &error), -EINVAL);
    assert_int_equal(culprit, 3);
    all[3] = (struct dependencies){&unknown, 1};
    assert_int_equal(dependencies_check(all, JOBS, &culprit, &error), -EINVAL);
    assert_non_null(strstr(error.text, "no specification 10000"));
    assert_int_equal(dependencies_check(NULL, 0, &culprit, &error), 0);
    free(edges);
    free(all);
}

/* Many jobs wait for many others: the check counts no edge twice. */
static void layers_are_no_circle(void **state)
{
    enum { WIDTH = 100 };
    struct dependency edges[WIDTH];
    struct dependencies all[2 * WIDTH] = {0};
    struct error error;
    size_t culprit;

    (void)state;
    for (int i = 0; i < WIDTH; i++) {
        edges[i] = on_index(WIDTH + i);
        all[i] = (struct dependencies){edges, WIDTH};
    }
    assert_int_equal(dependencies_check(all, 2 * WIDTH, &culprit, &error), 0);
    all[2 * WIDTH - 1] = (struct dependencies){(struct dependency[]){on_index(0)}, 1};
    assert_int_equal(dependencies_check(all, 2 * WIDTH, &culprit, &error), -EINVAL);
}

static void judging(void **state)
{
    (void)state;
    for (int condition = DEPENDENCY_SUCCESS; condition <= DEPENDENCY_END; condition++)
        for (int job = JOB_QUEUED; job < JOB_DONE; job++)
            assert_int_equal(dependency_judge(condition, job), DEPENDENCY_OPEN);
    assert_int_equal(dependency_judge(DEPENDENCY_SUCCESS, JOB_DONE), DEPENDENCY_MET);
    assert_int_equal(dependency_judge(DEPENDENCY_SUCCESS, JOB_FAILED), DEPENDENCY_IMPOSSIBLE);
    assert_int_equal(dependency_judge(DEPENDENCY_SUCCESS, JOB_CANCELLED), DEPENDENCY_IMPOSSIBLE);
    assert_int_equal(dependency_judge(DEPENDENCY_END, JOB_FAILED), DEPENDENCY_MET);
    assert_int_equal(dependency_judge(DEPENDENCY_END, JOB_CANCELLED), DEPENDENCY_MET);
}

static void sentences(void **state)
{
    struct dependency list[9];
    char text[256];

    (void)state;
    for (int i = 0; i < 9; i++)
        list[i] = (struct dependency){.on_job = i + 1,
                                      .condition = i == 1 ? DEPENDENCY_END : DEPENDENCY_SUCCESS};
    assert_string_equal(dependencies_describe(list, 1, text, sizeof text),
                        "waits for job 1 to be done");
    assert_string_equal(dependencies_describe(list, 2, text, sizeof text),
                        "waits for job 1 to be done and for job 2 to end");
    assert_non_null(strstr(dependencies_describe(list, 9, text, sizeof text),
                           "for job 5 to be done and for 4 more"));
    assert_string_equal(dependencies_describe(list, 9, text, 12), "waits for j");
    list[0].on_job = dependency_on_sweep(14);
    assert_string_equal(dependencies_describe(list, 1, text, sizeof text),
                        "waits for all jobs of sweep 14 to be done");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_keeps_the_stricter),
        cmocka_unit_test(circles_are_found),
        cmocka_unit_test(layers_are_no_circle),
        cmocka_unit_test(judging),
        cmocka_unit_test(sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
