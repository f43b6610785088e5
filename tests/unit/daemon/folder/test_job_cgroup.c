/* test_job_cgroup.c: the path of an attempt's control group, the sentence if there is none, and how
 * its processes are killed. */
#include "base/file.h"
#include "daemon/folder/job_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/traind-cgroup.XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, 0, NULL), 0);
}

static void test_without_holder(void **state)
{
    char path[PATH_MAX];

    (void)state;
    unsetenv("TRAIND_WORKERS_CGROUP");
    assert_false(job_cgroup_path(7, 2, path, sizeof path));
    assert_non_null(strstr(job_cgroup_shortcoming(), "traind-workers.service"));
    setenv("TRAIND_WORKERS_CGROUP", "/nonexistent/group", 1);
    assert_false(job_cgroup_path(7, 2, path, sizeof path));
    setenv("TRAIND_WORKERS_CGROUP", "relative", 1);
    assert_false(job_cgroup_path(7, 2, path, sizeof path));
    job_cgroup_remove(7, 2);
}

static void test_with_holder(void **state)
{
    char path[PATH_MAX], expected[PATH_MAX], narrow[8];

    (void)state;
    setenv("TRAIND_WORKERS_CGROUP", folder, 1);
    snprintf(expected, sizeof expected, "%s/job-7-2", folder);
    assert_true(job_cgroup_path(7, 2, path, sizeof path));
    assert_string_equal(path, expected);
    assert_false(job_cgroup_path(7, 2, narrow, sizeof narrow));
    assert_non_null(strstr(job_cgroup_shortcoming(), "memory controller"));
    write_file("cgroup.subtree_control", "cpu pids\n");
    assert_non_null(strstr(job_cgroup_shortcoming(), "memory controller"));
    write_file("cgroup.subtree_control", "cpu memory pids\n");
    assert_null(job_cgroup_shortcoming());
    assert_int_equal(mkdir(path, 0755), 0);
    job_cgroup_remove(7, 2);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_limits_that_are_missing(void **state)
{
    (void)state;
    setenv("TRAIND_WORKERS_CGROUP", folder, 1);
    write_file("cgroup.subtree_control", "cpu memory\n");
    assert_non_null(strstr(job_cgroup_shortcoming(), "pids controller"));
}

/* Ordinary files stand in for those of the kernel. */
static void test_kill(void **state)
{
    char path[PATH_MAX], text[8] = "";
    FILE *file;

    (void)state;
    setenv("TRAIND_WORKERS_CGROUP", folder, 1);
    assert_int_equal(job_cgroup_kill(7, 2), -ENOENT);
    assert_true(job_cgroup_path(7, 2, path, sizeof path));
    assert_int_equal(mkdir(path, 0755), 0);
    write_file("job-7-2/cgroup.kill", "");
    write_file("job-7-2/cgroup.events", "populated 1\nfrozen 0\n");
    assert_int_equal(job_cgroup_kill(7, 2), 1);
    strcat(path, "/cgroup.kill");
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "1");
    write_file("job-7-2/cgroup.events", "populated 0\nfrozen 0\n");
    assert_int_equal(job_cgroup_kill(7, 2), 0);
    unlink(path);
    strcpy(strrchr(path, '/'), "/cgroup.events");
    unlink(path);
    job_cgroup_remove(7, 2);
}

static void test_tasks_max(void **state)
{
    (void)state;
    assert_int_equal(job_tasks_max(0), 0);
    assert_int_equal(job_tasks_max(77), 77);
    assert_in_range(job_tasks_max(-1), 100, 4194304 * 15 / 100);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[PATH_MAX];

    (void)state;
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_holder),
        cmocka_unit_test(test_with_holder),
        cmocka_unit_test(test_limits_that_are_missing),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_tasks_max),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
