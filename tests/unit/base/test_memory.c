/* test_memory.c: small allocations return memory or end the process with one clear line. Each
 * case without memory runs in a process of its own: this program again, with the case as its
 * argument. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static volatile size_t too_many = SIZE_MAX / 4; /* more bytes than any machine has */

static void run_case(const char *name)
{
    log_configure("test", LOG_LEVEL_INFO);
    if (strcmp(name, "allocate") == 0)
        free(memory_allocate(too_many));
    else if (strcmp(name, "zero") == 0)
        free(memory_zero(too_many));
    else if (strcmp(name, "grow") == 0)
        free(memory_grow(NULL, too_many));
    else
        memory_exhausted(0);
}

/* Runs `name` in a process of its own. Returns its exit status, and what it wrote to standard
 * error. */
static int ended_with(const char *name, char *output, size_t size)
{
    size_t length = 0;
    int ends[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* the address sanitizer refuses as malloc() does, and says so in lines of its own */
        setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 1);
        unsetenv("JOURNAL_STREAM");
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "test_memory", name, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    while ((got = read(ends[0], output + length, size - 1 - length)) > 0)
        length += (size_t)got;
    output[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_without_memory(void **state)
{
    static const char *const cases[] = {"allocate", "zero", "grow"};
    char output[8192], expected[128];

    (void)state;
    snprintf(expected, sizeof expected,
             " error: no memory left: %zu bytes were refused; the process ends\n", too_many);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line;

        assert_int_equal(ended_with(cases[i], output, sizeof output), MEMORY_EXIT_STATUS);
        line = strstr(output, expected);
        assert_non_null(line);
        assert_null(strstr(line + 1, expected));
        assert_string_equal(line, expected); /* nothing follows it */
    }
    assert_int_equal(ended_with("unknown", output, sizeof output), MEMORY_EXIT_STATUS);
    assert_non_null(strstr(output, " error: no memory left; the process ends\n"));
}

static void test_with_memory(void **state)
{
    AUTO_FREE char *text = memory_copy_text("a text");
    AUTO_FREE char *formatted = memory_format("%s and %d", text, 5);
    AUTO_FREE unsigned char *zeros = memory_zero(64);
    AUTO_FREE void *nothing = memory_allocate(0);
    static const unsigned char expected[64];

    (void)state;
    assert_string_equal(text, "a text");
    assert_string_equal(formatted, "a text and 5");
    assert_memory_equal(zeros, expected, sizeof expected);
    assert_non_null(nothing);
    assert_null(memory_copy_text(NULL));
    zeros = memory_grow(zeros, 128);
    assert_memory_equal(zeros, expected, sizeof expected);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_with_memory),
    };

    if (argument_count > 1) {
        run_case(arguments[1]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
