/* test_file.c: whole files, and what may be in place of a file: reading never waits for a pipe. */
#include "base/cleanup.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char folder[] = "/tmp/traind-file.XXXXXX";
static int directory;

static void test_replace_and_read(void **state)
{
    AUTO_FREE char *content = NULL;
    struct error error;
    size_t size;

    (void)state;
    assert_int_equal(file_replace(directory, "whole", "first", 5, 0600, 0, &error), 0);
    assert_int_equal(file_replace(directory, "whole", "later", 5, 0600, 1, &error), 0);
    assert_int_equal(file_read(directory, "whole", 5, &content, &size, &error), 0);
    assert_int_equal(size, 5);
    assert_string_equal(content, "later");
    assert_int_equal(file_read(directory, "whole", 4, &content, &size, &error), -EFBIG);
    unlinkat(directory, "whole", 0);
}

static void test_pipes(void **state)
{
    char *content;
    struct error error;

    (void)state;
    assert_int_equal(mkfifoat(directory, "pipe", 0600), 0);
    assert_int_equal(mkfifoat(directory, "new.tmp", 0600), 0);
    assert_int_equal(file_read(directory, "pipe", 100, &content, NULL, &error), -EINVAL);
    assert_non_null(strstr(error.text, "not a regular file"));
    assert_int_equal(file_replace(directory, "new", "x", 1, 0600, 0, &error), -ENXIO);
    unlinkat(directory, "pipe", 0);
    unlinkat(directory, "new.tmp", 0);
}

/* A result replaces files, but not what else a person may have named, such as /dev/stdout. */
static void test_results(void **state)
{
    AUTO_FREE char *content = NULL;
    struct error error;
    struct stat status;
    char path[64], same[64];

    (void)state;
    snprintf(path, sizeof path, "%s/result", folder);
    assert_int_equal(file_write_result(path, "first", 5, &error), 0);
    assert_int_equal(file_write_result(path, "later", 5, &error), 0);
    assert_int_equal(file_read(directory, "result", 5, &content, NULL, &error), 0);
    assert_string_equal(content, "later");
    assert_int_equal(file_check_result(path, NULL, &error), 0);
    snprintf(same, sizeof same, "%s/./result", folder);
    assert_int_equal(file_check_result(path, same, &error), -EINVAL);
    assert_non_null(strstr(error.text, "from which it is made"));
    assert_int_equal(file_check_result("", NULL, &error), -EINVAL);
    assert_int_equal(file_check_result(folder, NULL, &error), -EINVAL);
    snprintf(same, sizeof same, "%s/none/result", folder);
    assert_int_equal(file_check_result(same, NULL, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/none/; make it, or give another name"));
    snprintf(same, sizeof same, "%s/result/below", folder);
    assert_int_equal(file_check_result(same, NULL, &error), -ENOTDIR);
    assert_non_null(strstr(error.text, "/result/ (Not a directory)"));
    assert_int_equal(file_check_result("/result-of-nobody", NULL, &error), geteuid() ? -EACCES : 0);
    snprintf(same, sizeof same, "%s/./result", folder);
    unlinkat(directory, "result", 0);
    assert_int_equal(file_check_result(path, same, &error), 0);
    assert_int_equal(mkfifoat(directory, "result", 0600), 0);
    assert_int_equal(file_write_result(path, "x", 1, &error), -EINVAL);
    assert_non_null(strstr(error.text, "give the name of a file"));
    assert_int_equal(fstatat(directory, "result", &status, 0), 0);
    assert_true(S_ISFIFO(status.st_mode));
    unlinkat(directory, "result", 0);
}

static void test_read_at(void **state)
{
    char buffer[8] = "";

    (void)state;
    assert_int_equal(file_replace(directory, "whole", "0123456789", 10, 0600, 0, NULL), 0);
    AUTO_CLOSE int file = openat(directory, "whole", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_read_at(file, buffer, 4, 3), 4);
    assert_string_equal(buffer, "3456");
    assert_int_equal(file_read_at(file, buffer, 4, 8), 2);
    assert_memory_equal(buffer, "8956", 4);
    assert_int_equal(file_read_at(file, buffer, 4, 10), 0);
    assert_int_equal(file_read_at(directory, buffer, 4, 0), -EISDIR);
    unlinkat(directory, "whole", 0);
}

static int make_folder(void **state)
{
    (void)state;
    directory = mkdtemp(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return directory < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    close(directory);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replace_and_read),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_read_at),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
