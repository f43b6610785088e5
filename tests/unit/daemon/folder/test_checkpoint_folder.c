/* test_checkpoint_folder.c: what a command has saved is copied whole or not at all. */
#include "daemon/folder/checkpoint_folder.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool inner_is_synced;
static int file_syncs, system_syncs;

/* Takes the place of that of the C library in this program. */
int fsync(int descriptor)
{
    char link[64], path[PATH_MAX];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    if (strcmp(strrchr(path, '/'), "/deep") == 0)
        inner_is_synced = true;
    file_syncs++;
    return 0;
}

int syncfs(int descriptor)
{
    (void)descriptor;
    system_syncs++;
    return 0;
}

/* The path of a name below STATE/jobs/0. */
static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/jobs/0/%s", temporary_folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void check_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "re");
    char content[64] = "";

    assert_non_null(file);
    (void)!fread(content, 1, sizeof content - 1, file);
    fclose(file);
    assert_string_equal(content, text);
}

static int copy(int64_t from, int64_t to, struct error *error)
{
    return checkpoint_folder_copy(temporary_folder, from, to, geteuid(), error);
}

static int set_up(void **state)
{
    assert_int_equal(temporary_folder_make(state), 0);
    assert_int_equal(mkdir(temporary_path("jobs"), 0700), 0);
    assert_int_equal(mkdir(path_of(""), 0700), 0);
    assert_int_equal(mkdir(path_of("1.checkpoints"), 0700), 0);
    assert_int_equal(mkdir(path_of("2.checkpoints"), 0700), 0);
    write_file("2.checkpoints/old", "of two");
    return 0;
}

static void all_is_copied(void **state)
{
    const struct timespec times[] = {{1000, 0}, {2000, 500}};
    struct error error = {0};
    struct stat status;
    char target[16] = "";

    (void)state;
    write_file("1.checkpoints/model", "weights");
    assert_int_equal(chmod(path_of("1.checkpoints/model"), 0640), 0);
    assert_int_equal(utimensat(AT_FDCWD, path_of("1.checkpoints/model"), times, 0), 0);
    assert_int_equal(mkdir(path_of("1.checkpoints/deep"), 0750), 0);
    write_file("1.checkpoints/deep/state", "");
    assert_int_equal(symlink("deep/state", path_of("1.checkpoints/latest")), 0);
    assert_int_equal(symlink("/nowhere", path_of("1.checkpoints/outside")), 0);
    assert_int_equal(mkfifo(path_of("1.checkpoints/pipe"), 0600), 0);
    assert_int_equal(mkdir(path_of("2.checkpoints.new"), 0700), 0); /* a kill left it */
    write_file("2.checkpoints.new/half", "half");

    assert_int_equal(copy(1, 2, &error), 0);
    check_file("2.checkpoints/model", "weights");
    check_file("2.checkpoints/deep/state", "");
    assert_true(inner_is_synced);
    assert_int_equal(system_syncs, 0);
    assert_int_equal(stat(path_of("2.checkpoints/model"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_true(status.st_mtim.tv_sec == 2000 && status.st_mtim.tv_nsec == 500);
    assert_true(readlink(path_of("2.checkpoints/latest"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "deep/state");
    assert_int_equal(lstat(path_of("2.checkpoints/outside"), &status), 0);
    assert_int_equal(lstat(path_of("2.checkpoints/pipe"), &status), -1);
    assert_int_equal(lstat(path_of("2.checkpoints/old"), &status), -1);
    assert_int_equal(lstat(path_of("2.checkpoints/half"), &status), -1);
    assert_int_equal(lstat(path_of("2.checkpoints.new"), &status), -1);
    check_file("1.checkpoints/model", "weights");

    assert_int_equal(copy(1, 3, &error), 0); /* which has none yet */
    check_file("3.checkpoints/model", "weights");
}

/* The files of many become durable together: each by itself takes as long as it keeps others. */
static void many_files_are_flushed_together(void **state)
{
    enum { FILES = 100 };
    struct error error = {0};
    char name[64];

    (void)state;
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "1.checkpoints/%d", i);
        write_file(name, "part");
    }
    file_syncs = system_syncs = 0;
    assert_int_equal(copy(1, 2, &error), 0);
    assert_int_equal(system_syncs, 1);
    assert_in_range(file_syncs, 1, FILES / 2);
    check_file("2.checkpoints/99", "part");
}

static void what_cannot_be_copied_changes_nothing(void **state)
{
    struct error error = {0};
    struct stat status;

    (void)state;
    assert_int_equal(copy(1, 2, &error), -ENOENT);
    assert_string_equal(error.text, "job 1 has saved nothing below TRAIND_CHECKPOINT_DIRECTORY");
    write_file("1.checkpoints/theirs", "of another user");
    assert_int_equal(checkpoint_folder_copy(temporary_folder, 1, 2, geteuid() + 1, &error), -EPERM);
    assert_non_null(strstr(error.text, "theirs, which job 1 has saved, is not its user's file"));
    assert_int_equal(copy(7, 2, &error), -ENOENT);
    check_file("2.checkpoints/old", "of two");
    assert_int_equal(lstat(path_of("2.checkpoints.new"), &status), -1);
    /* a folder that is a link is not followed */
    assert_int_equal(symlink("/etc", path_of("9.checkpoints")), 0);
    assert_true(copy(9, 2, &error) < 0);
    check_file("2.checkpoints/old", "of two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_is_copied, set_up, temporary_folder_remove),
        cmocka_unit_test_setup_teardown(many_files_are_flushed_together, set_up,
                                        temporary_folder_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_copied_changes_nothing, set_up,
                                        temporary_folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
