/* test_process_memory.c: the memory that all processes of an attempt hold together. */
#include "daemon/devices/process_memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { HELD = 96 << 20, CHILDREN = 3 };

static void hold_memory(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;

    if (mmap(NULL, HELD, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        _exit(1);
}

/* The process, or its children, allocate memory and report that on `ready`. The children end with
 * their parent. */
static void make_children(int count, bool children_hold, int ready)
{
    for (int i = 0; i < count; i++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (children_hold)
            hold_memory();
        if (write(ready, "", 1) == 1)
            pause();
        _exit(1);
    }
}

/* Starts a process with `count` children, and waits until all are ready. */
static pid_t start_tree(int count, bool children_hold)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!children_hold)
            hold_memory();
        make_children(count, children_hold, ready[1]);
        pause();
        _exit(1);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_tree(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void what_children_hold_counts(void **state)
{
    struct process_memory all = {0}, first = {0};
    pid_t pid = start_tree(CHILDREN, true);

    (void)state;
    process_memory_read(pid, false, &all);
    process_memory_read(pid, true, &first);
    end_tree(pid);
    assert_int_equal(all.processes, 1 + CHILDREN);
    assert_true(all.bytes >= (uint64_t)CHILDREN * HELD);
    assert_int_equal(first.processes, 1);
    assert_true(first.bytes < HELD);
}

static void a_page_that_several_share_counts_once(void **state)
{
    struct process_memory memory = {0};
    pid_t pid = start_tree(CHILDREN, false);

    (void)state;
    for (int i = 0; i < 3; i++) { /* later readings use what the first one has found */
        process_memory_read(pid, false, &memory);
        assert_int_equal(memory.processes, 1 + CHILDREN);
        assert_true(memory.bytes >= HELD);
        assert_true(memory.bytes < (uint64_t)2 * HELD);
    }
    end_tree(pid);
}

static void what_is_gone_holds_nothing(void **state)
{
    struct process_memory memory = {0};
    pid_t pid = start_tree(1, true);

    (void)state;
    process_memory_read(pid, false, &memory);
    assert_true(memory.bytes >= HELD);
    end_tree(pid);
    process_memory_read(pid, false, &memory);
    assert_int_equal(memory.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_children_hold_counts),
        cmocka_unit_test(a_page_that_several_share_counts_once),
        cmocka_unit_test(what_is_gone_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
