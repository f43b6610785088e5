/* test_limits.c: the cores and the memory that affinity and control groups allow. */
#include "engine/backends/cpu/limits.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[512];

static void make_file(const char *name, const char *content)
{
    char path[1024];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int usable(void)
{
    char membership[1024];

    snprintf(membership, sizeof membership, "%s/membership", folder);
    return limits_cores(folder, membership);
}

static uint64_t usable_memory(void)
{
    char membership[1024];

    snprintf(membership, sizeof membership, "%s/membership", folder);
    return limits_memory(folder, membership);
}

static void make_folders(void)
{
    char path[1024];

    snprintf(folder, sizeof folder, "%s/limits-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/outer", folder);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/outer/inner", folder);
    mkdir(path, 0755);
}

static void test_cores(void **state)
{
    cpu_set_t set;
    int all;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    all = CPU_COUNT(&set);
    make_folders();
    assert_int_equal(usable(), all); /* no membership */
    make_file("membership", "1:cpu:/other\n0::/outer/inner\n");
    assert_int_equal(usable(), all); /* no cpu.max */
    make_file("outer/inner/cpu.max", "max 100000\n");
    assert_int_equal(usable(), all);
    make_file("outer/cpu.max", "150000 100000\n"); /* one and a half cores: one whole thread */
    assert_int_equal(usable(), 1);
    make_file("outer/cpu.max", "6400000 100000\n");
    assert_int_equal(usable(), all < 64 ? all : 64);
    make_file("outer/inner/cpu.max", "20000 100000\n"); /* at least one thread */
    assert_int_equal(usable(), 1);
}

static void test_memory(void **state)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    (void)state;
    make_folders();
    assert_true(usable_memory() == all);
    make_file("membership", "0::/outer/inner\n");
    make_file("outer/inner/memory.max", "max\n");
    assert_true(usable_memory() == all);
    make_file("outer/memory.max", "67108864\n");
    assert_true(usable_memory() == 67108864);
    make_file("outer/inner/memory.max", "33554432\n");
    assert_true(usable_memory() == 33554432);
    make_file("outer/memory.max", "9223372036854771712\n"); /* a limit above the machine's memory */
    make_file("outer/inner/memory.max", "max\n");
    assert_true(usable_memory() == all);
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"outer/inner/cpu.max",
                                        "outer/cpu.max",
                                        "outer/inner/memory.max",
                                        "outer/memory.max",
                                        "membership",
                                        "outer/inner",
                                        "outer",
                                        ""};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_cores, remove_folder),
                                       cmocka_unit_test_teardown(test_memory, remove_folder)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
