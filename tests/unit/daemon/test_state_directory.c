/* test_state_directory.c: only one daemon at a time has the state directory. The lock ends with
 * that daemon. */
#include "daemon/state_directory.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_line(int descriptor)
{
    char byte;

    assert_int_equal(read(descriptor, &byte, 1), 1);
}

/* A daemon is killed while a child of it lives on that has not called exec() yet. */
static void test_lock_of_a_killed_daemon(void **state)
{
    int ready[2], go[2], lock, status;
    struct error error;
    pid_t daemon;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    daemon = fork();
    if (daemon == 0) {
        if (state_directory_open(temporary_folder, &lock, &error) < 0)
            _exit(1);
        if (fork() == 0) {
            char byte;

            close(go[1]);
            if (write(ready[1], "", 1) < 0 || read(go[0], &byte, 1) < 0)
                _exit(1);
            _exit(0);
        }
        pause();
        _exit(0);
    }
    close(ready[1]);
    expect_line(ready[0]); /* fails if the daemon could not open it */
    assert_int_equal(state_directory_open(temporary_folder, &lock, &error), -EBUSY);
    assert_non_null(strstr(error.text, "another traind with process id"));
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    if (state_directory_open(temporary_folder, &lock, &error) < 0)
        fail_msg("%s", error.text);
    close(lock);
    close(go[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lock_of_a_killed_daemon)};

    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
