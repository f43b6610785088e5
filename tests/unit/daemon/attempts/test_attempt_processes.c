/* test_attempt_processes.c: several threads search at once for processes that a shim has left. They
 * find them and leave the daemon unchanged. */
#include "daemon/attempts/processes.h"
#include "daemon/folder/attempt_folder.h"
#include "proto/attempt_files.h"
#include "tests/support/temporary_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    THREADS = 4,
    PROCESSES = 16,
    ROUNDS = 50,
    SOMEBODY = 54321 /* a number that no account has */
};

/* Starts another user's process, marked as one of the attempt. */
static pid_t somebody_start(const struct attempt_place *place)
{
    char path[PATH_MAX], entry[PATH_MAX + 64];
    char *const environment[] = {entry, NULL};
    int ready[2];
    pid_t pid;
    char byte;

    attempt_folder_path(path, place->state_directory, place->job, place->attempt);
    snprintf(entry, sizeof entry, "TRAIND_ATTEMPT_DIRECTORY=%s", path);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        if (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
            execle("/bin/sleep", "sleep", "1000", NULL, environment);
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* execve() closes it */
    close(ready[0]);
    return pid;
}

static void *look(void *data)
{
    for (int i = 0; i < ROUNDS; i++)
        attempt_kill_processes(data);
    return NULL;
}

static void test_threads(void **state)
{
    struct attempt_place found = {.state_directory = "/nowhere", .job = 1, .attempt = 1};
    struct attempt_place other = {.state_directory = "/nowhere", .job = 1, .attempt = 10};
    pthread_t threads[THREADS];
    pid_t marked, unmarked[PROCESSES];
    int status;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIPPED: reading another's environment as that user needs root\n");
        skip();
    }
    found.uid = other.uid = SOMEBODY;
    for (int i = 0; i < PROCESSES; i++)
        unmarked[i] = somebody_start(&found);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, &other), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);

    marked = somebody_start(&other);
    assert_true(attempt_kill_processes(&other));
    assert_int_equal(waitpid(marked, &status, 0), marked);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(unmarked[i], &status, WNOHANG), 0); /* job 10 is not job 1 */
        kill(unmarked[i], SIGKILL);
        waitpid(unmarked[i], &status, 0);
    }
}

/* Without a free descriptor nobody can tell what has become of an attempt, and none is taken for
 * ended. */
static void test_without_descriptors(void **state)
{
    const struct attempt_place place = {
        .state_directory = temporary_folder, .job = 1, .attempt = 1, .uid = SOMEBODY};
    struct json_object *record = NULL;
    struct rlimit limit, none;
    char path[PATH_MAX];
    int lock;

    (void)state;
    assert_int_equal(mkdir(temporary_path("jobs"), 0700), 0);
    assert_int_equal(mkdir(temporary_path("jobs/0"), 0700), 0);
    attempt_path_beside(path, temporary_folder, 1, 1, ATTEMPT_CONFIG_SUFFIX);
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(attempt_examine(&place, &record), ATTEMPT_ALIVE);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(attempt_examine(&place, &record), ATTEMPT_UNKNOWN);
    assert_true(attempt_is_alive(&place));
    assert_true(attempt_kill_processes(&place));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);

    assert_int_equal(flock(lock, LOCK_UN), 0);
    assert_int_equal(attempt_examine(&place, &record), ATTEMPT_NEVER_STARTED);
    assert_false(attempt_is_alive(&place));
    assert_false(attempt_kill_processes(&place));
    close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),
                                       cmocka_unit_test_setup_teardown(test_without_descriptors,
                                                                       temporary_folder_make,
                                                                       temporary_folder_remove)};

    unsetenv("TRAIND_WORKERS_CGROUP");
    return cmocka_run_group_tests_name("attempt_processes", tests, NULL, NULL);
}
