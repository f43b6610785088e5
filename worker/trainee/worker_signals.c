/* worker_signals.c: see worker_signals.h. */
#include "worker/trainee/worker_signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Signals that a thread causes itself. If they were blocked, the process would end without a report
 * of the cause. */
static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static struct training_requests *_Atomic served;
static pthread_t taker;
static bool takes;

/* Gives the signal its default effect. It may be ignored, as with nohup and shells without job
 * control. */
static void take_default(int number)
{
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
}

/* Only in the thread that takes signals. */
static void take(int number, struct training_requests *requests)
{
    static bool interrupted;

    if (!requests) {
        take_default(number);
    } else if (number == SIGUSR1) {
        atomic_store(&requests->checkpoint, 1);
    } else {
        if (number == SIGINT && interrupted) {
            signal(SIGINT, SIG_DFL);
            take_default(number);
        }
        interrupted |= number == SIGINT;
        atomic_store(&requests->stop, 1);
    }
}

/* Every other signal except SIGCHLD has its default effect here. Code that starts processes waits
 * for SIGCHLD, which is lost if some thread does not block it. */
static void *run(void *data)
{
    sigset_t *waited = data, mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(waited, number) == 0 && number != SIGCHLD)
            sigdelset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    for (;;) {
        int number;

        if (sigwait(waited, &number) == 0)
            take(number, atomic_load(&served));
    }
    return NULL;
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int worker_signals_begin(struct error *error)
{
    static sigset_t waited;
    sigset_t all;
    int code;

    sigemptyset(&waited);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGINT);
    sigaddset(&waited, SIGUSR1);
    if (!is_ignored(SIGHUP)) /* sigwait() would take it in spite of nohup */
        sigaddset(&waited, SIGHUP);
    sigfillset(&all);
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        sigdelset(&all, synchronous[i]);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    code = pthread_create(&taker, NULL, run, &waited);
    if (code)
        return error_set_errno(error, -code, "cannot start a thread; raise the limit of processes");
    takes = true;
    return 0;
}

void worker_signals_end(void)
{
    if (!takes)
        return;
    takes = false;
    pthread_cancel(taker); /* sigwait(3) is the only cancellation point */
    pthread_join(taker, NULL);
}

void worker_signals_serve(struct training_requests *requests)
{
    atomic_store(&served, requests);
}

void worker_signals_reset(void)
{
    sigset_t none;

    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}
