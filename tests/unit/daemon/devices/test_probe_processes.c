/* test_probe_processes.c: finds the processes that hold the most memory, and their users. */
#include "daemon/devices/probe_processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIST_MAX = 64, HELD = 96 << 20 };

static void who_holds_much_is_found(void **state)
{
    struct process_use *list = calloc(LIST_MAX, sizeof *list), *found = NULL;
    pid_t self = getpid(), parent = getppid(), nobody = 0;
    char *memory = malloc(HELD);
    size_t count;

    (void)state;
    memset(memory, 1, HELD);
    count = processes_find_largest(list, LIST_MAX, HELD);
    for (size_t i = 0; i < count; i++) {
        assert_true(list[i].memory >= HELD);
        assert_true(i == 0 || list[i].memory <= list[i - 1].memory);
        if (list[i].pid == self)
            found = &list[i];
    }
    assert_non_null(found);
    assert_true(found->visible);
    assert_int_equal(found->uid, geteuid());
    assert_memory_equal(found->command, "test_probe_proc", 15); /* the kernel keeps 15 bytes */
    assert_true(process_is_of(found, &self, 1));
    assert_true(process_is_of(found, &parent, 1));
    assert_false(process_is_of(found, &nobody, 1));
    assert_int_equal(processes_find_largest(list, 1, 0), 1);
    assert_int_equal(processes_find_largest(list, LIST_MAX, UINT64_MAX), 0);
    assert_int_equal(processes_find_largest(list, 0, 0), 0);
    free(memory);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_holds_much_is_found)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
