/* test_threads.c: the CPU backend's team of threads: all members run, barriers order memory, more
 * threads than cores make progress, an idle team uses no processor time, and threads on the same
 * core move apart. */
#include "base/clock.h"
#include "engine/backends/cpu/threads.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MEMBERS_MAX = 9, ROUNDS = 20, RUNS = 40 };

struct relay {
    struct thread_team *team;
    int members;
    int64_t value[MEMBERS_MAX]; /* plain memory, which only barriers order */
};

/* Each member takes the value that its neighbour wrote before the last barrier, plus one. */
static void pass_on(void *context, int thread)
{
    struct relay *relay = context;
    int next = (thread + 1) % relay->members;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t seen = relay->value[next];

        thread_team_barrier(relay->team, thread);
        relay->value[thread] = seen + 1;
        thread_team_barrier(relay->team, thread);
    }
}

static void test_barriers(void **state)
{
    (void)state;
    for (int count = 1; count <= MEMBERS_MAX; count += 2) {
        struct relay relay = {.members = count};
        struct error error = {0};

        assert_int_equal(thread_team_create(count, NULL, &relay.team, &error), 0);
        assert_int_equal(thread_team_size(relay.team), count);
        for (int run = 0; run < RUNS; run++)
            thread_team_run(relay.team, count, pass_on, &relay);
        /* every value has passed all members, so all are equal to the number of rounds */
        for (int i = 0; i < count; i++)
            assert_int_equal(relay.value[i], RUNS * ROUNDS);
        thread_team_free(relay.team);
    }
}

static void mark(void *context, int thread)
{
    atomic_fetch_or((_Atomic unsigned *)context, 1u << thread);
}

/* A run with fewer members leaves the others idle. A request for more members than there are uses
 * all. */
static void test_members(void **state)
{
    struct thread_team *team;
    struct error error = {0};

    (void)state;
    assert_int_equal(thread_team_create(4, NULL, &team, &error), 0);
    for (int run = 0; run < 3000; run++) {
        int members = 1 + run % 6;
        _Atomic unsigned marks = 0;

        thread_team_run(team, members, mark, &marks);
        assert_int_equal(marks, (1u << (members < 4 ? members : 4)) - 1);
    }
    thread_team_free(team);
}

static _Atomic int begun;

static void count_begin(void)
{
    begun++;
}

static void test_begin(void **state)
{
    struct thread_team *team;
    struct error error = {0};

    (void)state;
    assert_int_equal(thread_team_create(3, count_begin, &team, &error), 0);
    thread_team_run(team, 3, mark, &(_Atomic unsigned){0});
    thread_team_free(team);
    assert_int_equal(begun, 3);
}

static void test_idle(void **state)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    struct thread_team *team;
    struct error error = {0};
    double before;

    (void)state;
    assert_int_equal(thread_team_create(4, NULL, &team, &error), 0);
    thread_team_run(team, 4, mark, &(_Atomic unsigned){0});
    before = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    assert_true(clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - before < 0.05);
    thread_team_free(team);
}

/* The cores of the two members. Then the second one goes to the first one's core, and is bound to
 * none. */
struct meeting {
    struct thread_team *team;
    cpu_set_t allowed;
    int core[2];
};

static void meet(void *context, int thread)
{
    struct meeting *meeting = context;
    cpu_set_t first;

    meeting->core[thread] = sched_getcpu();
    thread_team_barrier(meeting->team, thread);
    if (thread == 0)
        return;
    CPU_ZERO(&first);
    CPU_SET((size_t)meeting->core[0], &first);
    assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
    assert_int_equal(sched_setaffinity(0, sizeof meeting->allowed, &meeting->allowed), 0);
}

static void test_parting(void **state)
{
    struct meeting meeting;
    struct error error = {0};
    int apart = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof meeting.allowed, &meeting.allowed), 0);
    if (CPU_COUNT(&meeting.allowed) < 2)
        skip();
    assert_int_equal(thread_team_create(2, NULL, &meeting.team, &error), 0);
    for (int run = 0; run < RUNS; run++) {
        thread_team_run(meeting.team, 2, meet, &meeting);
        apart += run > 0 && meeting.core[0] != meeting.core[1];
    }
    thread_team_free(meeting.team);
    /* the system may move the first one after the second one has looked */
    assert_true(apart > RUNS * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers), cmocka_unit_test(test_members),
        cmocka_unit_test(test_begin),    cmocka_unit_test(test_idle),
        cmocka_unit_test(test_parting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
