/* test_limits.c: the cores and the memory that affinity and control groups allow. */
#include "engine/backends/cpu/limits.h"
#include "tests/support/temporary_folder.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void make_file(const char *name, const char *content)
{
    FILE *file = fopen(temporary_path(name), "w");

    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int usable(void)
{
    return limits_cores(temporary_folder, temporary_path("membership"));
}

static uint64_t usable_memory(void)
{
    return limits_memory(temporary_folder, temporary_path("membership"));
}

static int make_folders(void **state)
{
    assert_int_equal(temporary_folder_make(state), 0);
    assert_int_equal(mkdir(temporary_path("outer"), 0755), 0);
    return mkdir(temporary_path("outer/inner"), 0755);
}

static void test_cores(void **state)
{
    cpu_set_t set;
    int all;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    all = CPU_COUNT(&set);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cores, make_folders, temporary_folder_remove),
        cmocka_unit_test_setup_teardown(test_memory, make_folders, temporary_folder_remove)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
