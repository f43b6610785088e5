/* test_shim_unpack.c: frozen code gets its name when it is on disk, and not before. */
#include "tests/support/temporary_folder.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

static bool full; /* the disk */

static void mark(const char *name)
{
    int file = open(temporary_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    close(file);
}

/* Takes the place of those of the C library in this program. */
int syncfs(int descriptor)
{
    (void)descriptor;
    if (access(temporary_path("tree.unpacked/code"), F_OK) == 0 &&
        access(temporary_path("tree"), F_OK) < 0)
        mark("files synced");
    if (!full)
        return 0;
    errno = ENOSPC;
    return -1;
}

int fsync(int descriptor)
{
    (void)descriptor;
    if (access(temporary_path("tree/code"), F_OK) == 0)
        mark("name synced");
    return 0;
}

/* Runs shim_unpack() in a process of its own. Returns its exit status. */
static int unpack(void)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char archive[512], command[] = "true", *arguments[] = {command, NULL};
        int records = open(temporary_path("records"), O_WRONLY | O_CREAT, 0600);

        snprintf(archive, sizeof archive, "%s", temporary_path("code.tar"));
        dup2(records, ATTEMPT_METRICS_DESCRIPTOR);
        _exit(shim_unpack(archive, temporary_folder, "", arguments));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int set_up(void **state)
{
    char command[1024];

    full = false;
    if (temporary_folder_make(state) < 0)
        return -1;
    mark("code");
    snprintf(command, sizeof command, "tar --create --file %s/code.tar --directory %s code",
             temporary_folder, temporary_folder);
    return system(command);
}

static bool is_there(const char *name)
{
    return access(temporary_path(name), F_OK) == 0;
}

static void synced_then_renamed(void **state)
{
    (void)state;
    assert_int_equal(unpack(), 0);
    assert_true(is_there("files synced"));
    assert_true(is_there("name synced"));
    assert_true(is_there("tree/code"));
}

static void not_synced(void **state)
{
    (void)state;
    full = true;
    assert_int_equal(unpack(), EX_IOERR);
    assert_false(is_there("tree"));
    assert_false(is_there("tree.unpacked"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(synced_then_renamed, set_up, temporary_folder_remove),
        cmocka_unit_test_setup_teardown(not_synced, set_up, temporary_folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
