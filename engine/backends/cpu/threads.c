/* threads.c: see threads.h. Every wait is for a 32-bit word to change its value. The waiting thread
 * first reads it again and again for a while, and then sleeps in the kernel. Whoever changes the
 * word wakes the sleepers, by a system call that is made only if the word's count of sleepers is
 * not zero.
 *
 * Linux may wake a thread on the core of the thread that woke it, although another core is free,
 * and do so at each barrier. This was seen on virtual machines whose cores share no cache that the
 * kernel knows of: after 0.1 s of idleness, a step took twice its time. A thread that finds itself
 * on the core of another thread of its team therefore stays off the others' cores for a while. The
 * caller does so only until the run ends, because programs that it starts would inherit that. */
#include "engine/backends/cpu/threads.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long a wait reads its word before it sleeps. Between the steps of a small model a batch is
 * fetched in less time. A wake-up through the kernel costs 5 to 50 µs. */
enum { SPIN_NANOSECONDS = 30000, SPINS_BETWEEN_CLOCK_READS = 64, CACHE_LINE = 64 };

/* How long a thread stays off the others' cores. A move to another core takes some 30 µs. */
enum { BOUND_NANOSECONDS = 50000000 };

struct wait_word {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

struct member {
    struct wait_word ticket; /* counts the runs to which this thread was called */
    struct thread_team *team;
    int index;
    pthread_t thread;
    _Atomic int core; /* on which it ran when it last looked */
    bool bound;       /* to some of the cores in `allowed` */
    cpu_set_t allowed;
    int64_t bound_until;
};

struct thread_team {
    int count, started;
    int members; /* of the current run */
    bool leave;
    void (*thread_begin)(void);
    void (*function)(void *context, int thread);
    void *context;
    struct wait_word barrier; /* counts completed barriers */
    _Alignas(CACHE_LINE) _Atomic int arrived;
    struct member *member;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Returns whether the thread slept. */
static bool wait_while_equal(struct wait_word *word, uint32_t value)
{
    int64_t give_up = 0;

    for (unsigned spin = 1; atomic_load_explicit(&word->value, memory_order_acquire) == value;
         spin++) {
        cpu_relax();
        if (spin % SPINS_BETWEEN_CLOCK_READS)
            continue;
        int64_t now = clock_monotonic_nanoseconds();
        if (!give_up)
            give_up = now + SPIN_NANOSECONDS;
        if (now < give_up)
            continue;
        /* Sequentially consistent with word_advance(): either that function sees the sleeper, or
         * the kernel sees the new value and does not let this thread sleep. */
        atomic_fetch_add(&word->sleepers, 1);
        while (atomic_load(&word->value) == value)
            futex_wait(&word->value, value);
        atomic_fetch_sub(&word->sleepers, 1);
        return true;
    }
    return false;
}

static void word_advance(struct wait_word *word)
{
    atomic_fetch_add(&word->value, 1);
    if (atomic_load(&word->sleepers))
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Removes the cores of the run's other members from `cores`. Returns whether one of them runs on
 * `core`. */
static bool remove_cores_of_others(const struct member *member, int core, cpu_set_t *cores)
{
    bool shared = false;

    for (int i = 0; i < member->team->members; i++) {
        int other = atomic_load_explicit(&member->team->member[i].core, memory_order_relaxed);

        if (i == member->index)
            continue;
        shared = shared || other == core;
        CPU_CLR((size_t)other, cores);
    }
    return shared;
}

static void release_cores(struct member *member)
{
    if (member->bound)
        sched_setaffinity(0, sizeof member->allowed, &member->allowed);
    member->bound = false;
}

/* Moves the thread off the others' cores. Does nothing if no core is left, or if the system
 * refuses. */
static void take_other_cores(struct member *member)
{
    cpu_set_t cores;

    if (!member->bound && sched_getaffinity(0, sizeof member->allowed, &member->allowed) < 0)
        return;
    cores = member->allowed;
    remove_cores_of_others(member, -1, &cores);
    if (CPU_COUNT(&cores) == 0 || sched_setaffinity(0, sizeof cores, &cores) < 0)
        return;
    member->bound = true;
    atomic_store_explicit(&member->core, sched_getcpu(), memory_order_relaxed);
}

/* Publishes on which core the thread runs, and leaves a core on which another member of the run
 * is. */
static void keep_apart(struct member *member)
{
    int core = sched_getcpu();
    cpu_set_t cores;

    atomic_store_explicit(&member->core, core, memory_order_relaxed);
    CPU_ZERO(&cores);
    if (core >= 0 && remove_cores_of_others(member, core, &cores)) {
        take_other_cores(member);
        member->bound_until = clock_monotonic_nanoseconds() + BOUND_NANOSECONDS;
    } else if (member->bound && clock_monotonic_nanoseconds() > member->bound_until) {
        release_cores(member);
    }
}

/* The caller is not bound to cores between runs. */
static void begin_run(struct member *caller)
{
    atomic_store_explicit(&caller->core, sched_getcpu(), memory_order_relaxed);
    if (caller->bound_until && clock_monotonic_nanoseconds() < caller->bound_until)
        take_other_cores(caller);
    else
        caller->bound_until = 0;
}

void thread_team_barrier(struct thread_team *team, int thread)
{
    /* Read this before arriving: once all threads have arrived, the caller may start another
     * run. */
    const int members = team->members;
    const uint32_t round = atomic_load(&team->barrier.value);

    if (members == 1)
        return;
    if (atomic_fetch_add(&team->arrived, 1) + 1 == members) {
        atomic_store(&team->arrived, 0);
        word_advance(&team->barrier);
    } else if (wait_while_equal(&team->barrier, round)) {
        keep_apart(&team->member[thread]);
    }
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct thread_team *team = member->team;

    if (team->thread_begin)
        team->thread_begin();
    for (uint32_t seen = 0;; seen++) {
        wait_while_equal(&member->ticket, seen);
        if (team->leave)
            return NULL;
        keep_apart(member);
        team->function(team->context, member->index);
        thread_team_barrier(team, member->index);
    }
}

void thread_team_run(struct thread_team *team, int members,
                     void (*function)(void *context, int thread), void *context)
{
    team->members = members < team->count ? members : team->count;
    team->function = function;
    team->context = context;
    begin_run(&team->member[0]);
    for (int i = 1; i < team->members; i++)
        word_advance(&team->member[i].ticket);
    function(context, 0);
    thread_team_barrier(team, 0);
    release_cores(&team->member[0]);
}

static void do_nothing(void *context, int thread)
{
    (void)context;
    (void)thread;
}

int thread_team_create(int count, void (*thread_begin)(void), struct thread_team **team,
                       struct error *error)
{
    struct thread_team *new_team = aligned_alloc(CACHE_LINE, sizeof(*new_team));
    sigset_t all, before;
    int result = 0;

    if (!new_team)
        return error_no_memory(error, "a team of %d threads", count);
    memset(new_team, 0, sizeof(*new_team));
    new_team->count = count;
    new_team->members = 1;
    new_team->thread_begin = thread_begin;
    new_team->member = aligned_alloc(CACHE_LINE, (size_t)count * sizeof(*new_team->member));
    if (!new_team->member) {
        free(new_team);
        return error_no_memory(error, "a team of %d threads", count);
    }
    memset(new_team->member, 0, (size_t)count * sizeof(*new_team->member));
    new_team->started = 1;
    new_team->member[0].team = new_team;
    /* Only the caller's thread handles signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < count && !result; i++) {
        struct member *member = &new_team->member[i];

        member->team = new_team;
        member->index = i;
        result = -pthread_create(&member->thread, NULL, member_main, member);
        if (!result)
            new_team->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result) {
        thread_team_free(new_team);
        return error_set_errno(error, result,
                               "cannot start %d threads; raise the limit of processes or ask "
                               "for fewer threads",
                               count);
    }
    if (thread_begin)
        thread_begin();
    /* Returns once every thread has begun: a thread that begins later would allocate within a
     * step. */
    thread_team_run(new_team, count, do_nothing, NULL);
    *team = new_team;
    return 0;
}

void thread_team_free(struct thread_team *team)
{
    if (!team)
        return;
    team->leave = true;
    for (int i = 1; i < team->started; i++) {
        word_advance(&team->member[i].ticket);
        pthread_join(team->member[i].thread, NULL);
    }
    free(team->member);
    free(team);
}

int thread_team_size(const struct thread_team *team)
{
    return team->count;
}
