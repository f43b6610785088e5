/* threads.c: see threads.h. Every wait is for a 32-bit word to leave a value: look at it for a
 * while, then sleep in the kernel until whoever changes it wakes the sleepers. The changer makes
 * the system call only when the word's count of sleepers is not zero. */
#include "engine/backends/cpu/threads.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long a wait looks at its word before it sleeps: between the steps of a small model a batch is
 * fetched in less; a wake-up through the kernel costs 5 to 50 µs. */
enum { SPIN_NANOSECONDS = 30000, SPINS_BETWEEN_CLOCK_READS = 64, CACHE_LINE = 64 };

struct wait_word {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

struct member {
    struct wait_word ticket; /* counts the runs this thread was called to */
    struct thread_team *team;
    int index;
    pthread_t thread;
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

static int64_t now_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wait_while_equal(struct wait_word *word, uint32_t value)
{
    int64_t give_up = 0;

    for (unsigned spin = 1; atomic_load_explicit(&word->value, memory_order_acquire) == value;
         spin++) {
        cpu_relax();
        if (spin % SPINS_BETWEEN_CLOCK_READS)
            continue;
        int64_t now = now_nanoseconds();
        if (!give_up)
            give_up = now + SPIN_NANOSECONDS;
        if (now < give_up)
            continue;
        /* Sequentially consistent against word_advance(): either it sees the sleeper, or the
         * kernel sees the new value and does not sleep. */
        atomic_fetch_add(&word->sleepers, 1);
        while (atomic_load(&word->value) == value)
            futex_wait(&word->value, value);
        atomic_fetch_sub(&word->sleepers, 1);
        return;
    }
}

static void word_advance(struct wait_word *word)
{
    atomic_fetch_add(&word->value, 1);
    if (atomic_load(&word->sleepers))
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void thread_team_barrier(struct thread_team *team)
{
    /* Read before arriving: once all have, the caller may start another run. */
    const int members = team->members;
    const uint32_t round = atomic_load(&team->barrier.value);

    if (members == 1)
        return;
    if (atomic_fetch_add(&team->arrived, 1) + 1 == members) {
        atomic_store(&team->arrived, 0);
        word_advance(&team->barrier);
    } else {
        wait_while_equal(&team->barrier, round);
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
        team->function(team->context, member->index);
        thread_team_barrier(team);
    }
}

void thread_team_run(struct thread_team *team, int members,
                     void (*function)(void *context, int thread), void *context)
{
    team->members = members < team->count ? members : team->count;
    team->function = function;
    team->context = context;
    for (int i = 1; i < team->members; i++)
        word_advance(&team->member[i].ticket);
    function(context, 0);
    thread_team_barrier(team);
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
        return error_set(error, -ENOMEM, "no memory for a team of %d threads", count);
    memset(new_team, 0, sizeof(*new_team));
    new_team->count = count;
    new_team->members = 1;
    new_team->thread_begin = thread_begin;
    new_team->member = aligned_alloc(CACHE_LINE, (size_t)count * sizeof(*new_team->member));
    if (!new_team->member) {
        free(new_team);
        return error_set(error, -ENOMEM, "no memory for a team of %d threads", count);
    }
    memset(new_team->member, 0, (size_t)count * sizeof(*new_team->member));
    new_team->started = 1;
    /* Signals belong to the caller's thread. */
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
    /* All have begun when it returns: a thread that begins late would allocate within a step. */
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
