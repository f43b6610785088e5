/* test_worker_signals.c: how a process handles signals if all its threads leave them to one. */
#include "worker/trainee/worker_signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct process {
    pid_t pid;
    int told; /* the pipe that it writes to */
};

/* Starts a child that runs `run`, which writes to `tell` and never returns. */
static struct process process_start(void (*run)(int tell))
{
    int ends[2];
    struct process process;

    assert_int_equal(pipe(ends), 0);
    process.pid = fork();
    assert_true(process.pid >= 0);
    if (process.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(ends[1]);
        _exit(EXIT_FAILURE);
    }
    close(ends[1]);
    process.told = ends[0];
    return process;
}

static char process_read(const struct process *process)
{
    char byte = 0;

    assert_int_equal(read(process->told, &byte, 1), 1);
    return byte;
}

/* The status that waitpid() returns for it. */
static int process_end(const struct process *process)
{
    int status;

    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    close(process->told);
    return status;
}

static void tell(int descriptor, char byte)
{
    if (write(descriptor, &byte, 1) != 1)
        _exit(EXIT_FAILURE);
}

static void begin(void)
{
    struct error error;

    if (worker_signals_begin(&error) < 0)
        _exit(EXIT_FAILURE);
}

/* ---- default effects ---- */

static void run_idle(int descriptor)
{
    begin();
    tell(descriptor, 'b');
    for (;;)
        pause();
}

static void test_ends_as_any_program(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGALRM, SIGVTALRM};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct process process = process_start(run_idle);
        int status;

        process_read(&process);
        kill(process.pid, numbers[i]);
        status = process_end(&process);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), numbers[i]);
    }
}

static void run_ignoring(int descriptor)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    run_idle(descriptor);
}

/* As under nohup, or in the background of a shell without job control. */
static void test_ignored_stays_ignored(void **state)
{
    struct process process = process_start(run_ignoring);

    (void)state;
    process_read(&process);
    kill(process.pid, SIGINT);
    kill(process.pid, SIGHUP);
    kill(process.pid, SIGTERM);
    assert_int_equal(WTERMSIG(process_end(&process)), SIGTERM);
}

static void test_stops_and_goes_on(void **state)
{
    struct process process = process_start(run_idle);
    int status;

    (void)state;
    process_read(&process);
    setpgid(process.pid, process.pid);
    kill(process.pid, SIGSTOP); /* SIGTSTP has no effect if no process has job control */
    assert_int_equal(waitpid(process.pid, &status, WUNTRACED), process.pid);
    assert_true(WIFSTOPPED(status));
    kill(process.pid, SIGCONT);
    assert_int_equal(waitpid(process.pid, &status, WCONTINUED), process.pid);
    assert_true(WIFCONTINUED(status));
    kill(process.pid, SIGTERM);
    assert_int_equal(WTERMSIG(process_end(&process)), SIGTERM);
}

/* ---- requests ---- */

static void run_serving(int descriptor)
{
    static struct training_requests requests;

    begin();
    worker_signals_serve(&requests);
    tell(descriptor, 'b');
    for (;;) {
        if (atomic_exchange(&requests.checkpoint, 0))
            tell(descriptor, 'c');
        if (atomic_exchange(&requests.stop, 0))
            tell(descriptor, 's');
    }
}

static void run_serving_ignoring(int descriptor)
{
    signal(SIGHUP, SIG_IGN);
    run_serving(descriptor);
}

static void run_serving_default(int descriptor)
{
    signal(SIGHUP, SIG_DFL);
    run_serving(descriptor);
}

/* A terminal that closes ends a job as SIGTERM does, unless it was started by nohup. */
static void test_hang_up(void **state)
{
    struct process process = process_start(run_serving_default);

    (void)state;
    assert_int_equal(process_read(&process), 'b');
    kill(process.pid, SIGHUP);
    assert_int_equal(process_read(&process), 's');
    kill(process.pid, SIGKILL);
    process_end(&process);
    process = process_start(run_serving_ignoring);
    assert_int_equal(process_read(&process), 'b');
    kill(process.pid, SIGHUP);
    kill(process.pid, SIGUSR1);
    assert_int_equal(process_read(&process), 'c');
    kill(process.pid, SIGKILL);
    process_end(&process);
}

static void test_requests(void **state)
{
    struct process process = process_start(run_serving);

    (void)state;
    assert_int_equal(process_read(&process), 'b');
    kill(process.pid, SIGUSR1);
    assert_int_equal(process_read(&process), 'c');
    kill(process.pid, SIGTERM);
    assert_int_equal(process_read(&process), 's');
    kill(process.pid, SIGTERM);
    assert_int_equal(process_read(&process), 's');
    kill(process.pid, SIGINT);
    assert_int_equal(process_read(&process), 's');
    kill(process.pid, SIGINT);
    assert_int_equal(WTERMSIG(process_end(&process)), SIGINT);
}

/* ---- processes that it starts ---- */

static void run_forking(int descriptor)
{
    sigset_t children;
    pid_t child;
    int status;

    begin();
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    child = fork();
    if (child == 0) {
        worker_signals_reset();
        raise(SIGALRM);
        _exit(EXIT_FAILURE);
    }
    if (sigwaitinfo(&children, NULL) == SIGCHLD && waitpid(child, &status, 0) == child &&
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        tell(descriptor, 'a');
    _exit(EXIT_SUCCESS);
}

/* The end of a child reaches the thread that waits for it, and signals end a child. */
static void test_children(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct process process = process_start(run_forking);

        assert_int_equal(process_read(&process), 'a');
        assert_int_equal(process_end(&process), 0);
    }
}

/* ---- before another program ---- */

static void run_leave(int descriptor)
{
    sigset_t pending;

    begin();
    worker_signals_end();
    kill(getpid(), SIGTERM);
    sigemptyset(&pending);
    sigpending(&pending);
    tell(descriptor, sigismember(&pending, SIGTERM) == 1 ? 'p' : 'l');
    _exit(EXIT_SUCCESS);
}

static void test_stays_pending_for_the_next_program(void **state)
{
    struct process process = process_start(run_leave);

    (void)state;
    assert_int_equal(process_read(&process), 'p');
    assert_int_equal(process_end(&process), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_as_any_program),
        cmocka_unit_test(test_ignored_stays_ignored),
        cmocka_unit_test(test_stops_and_goes_on),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_stays_pending_for_the_next_program),
    };

    /* a shell without job control starts programs in the background with it ignored */
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL); /* nohup starts programs with it ignored */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
