/* test_attempt_folder.c: files of an attempt's folder that change while the
 * daemon looks at them. */
#include "base/cleanup.h"
#include "daemon/folder/attempt_folder.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPENINGS = 20000 };

struct trainee {
    int folder;
    atomic_bool ended;
};

static void *write_and_remove(void *data)
{
    struct trainee *trainee = data;

    while (!atomic_load(&trainee->ended)) {
        int file = openat(trainee->folder, "step-1", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        if (file >= 0)
            close(file);
        unlinkat(trainee->folder, "step-1", 0);
    }
    return NULL;
}

/* A trainee drops its older checkpoints while the daemon opens them. Such a file exists or it does
 * not; it is never reported as a file that must not be there. */
static void a_file_that_is_removed_meanwhile_is_not_there(void **state)
{
    char path[] = "/tmp/traind-attempt-folder.XXXXXX";
    struct trainee trainee = {.folder = -1};
    pthread_t thread;
    int others = 0;

    (void)state;
    assert_non_null(mkdtemp(path));
    trainee.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(trainee.folder >= 0);
    assert_int_equal(pthread_create(&thread, NULL, write_and_remove, &trainee), 0);
    for (int i = 0; i < OPENINGS; i++) {
        struct error error = {0};
        AUTO_CLOSE int file = attempt_folder_open_file(trainee.folder, "step-1", geteuid(), &error);

        others += file < 0 && file != -ENOENT;
    }
    atomic_store(&trainee.ended, true);
    pthread_join(thread, NULL);
    close(trainee.folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(others, 0);
}

/* A folder that was left behind cannot be emptied without a descriptor: that is what is told, so
 * that the start is tried again soon. */
static void a_folder_that_was_left_and_no_descriptor(void **state)
{
    char path[PATH_MAX];
    struct rlimit limit, none;
    struct error error = {0};

    (void)state;
    assert_int_equal(mkdir(temporary_path("jobs"), 0700), 0);
    assert_int_equal(attempt_folder_make(temporary_folder, 5, 1, path, &error), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(attempt_folder_make(temporary_folder, 5, 1, path, &error), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(attempt_folder_make(temporary_folder, 5, 1, path, &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_removed_meanwhile_is_not_there),
        cmocka_unit_test_setup_teardown(a_folder_that_was_left_and_no_descriptor,
                                        temporary_folder_make, temporary_folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
