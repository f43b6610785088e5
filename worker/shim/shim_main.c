/* shim_main.c: traind-shim FOLDER, one attempt of one job from its start to its exit record.
 *
 * Sequence: it reads attempt.json, becomes a session leader and a subreaper, opens the cgroup's
 * files, acts as the job's user in the file system, opens the log, and starts the trainee as that
 * user. Then one poll() loop serves signals, socket and connections until the exit record is
 * acknowledged or on disk.
 *
 * Creating files is the most expensive part of a short attempt, so the shim does it late. It makes
 * spool and worker.sock 50 ms after the start, or when the daemon hangs up. It writes exit.json
 * only if the daemon, which stores the record in its database, does not acknowledge in time. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "proto/attempt_files.h"
#include "worker/attempt/attempt_handover.h"
#include "worker/attempt/attempt_identity.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    OPEN_DELAY_MILLISECONDS = 50, /* a trainee that ends earlier needs neither socket nor spool */
    MEMORY_DELAY_MILLISECONDS = 1000, /* before the first sample of the job's memory */
    RECORD_DELAY_MILLISECONDS = 200,  /* how long a connected daemon has to acknowledge */
    DEFAULT_STOP_GRACE_SECONDS = 10,  /* for a SIGTERM to the shim itself */
    LISTEN_BACKLOG = 8,
};

static int shim_enter_folder(const char *folder, struct error *error)
{
    if (chdir(folder) < 0)
        return error_set_errno(error, -errno, "cannot enter the attempt's folder %s", folder);
    return 0;
}

static int shim_prepare_process(struct shim *shim, struct error *error)
{
    sigset_t signals;

    setsid(); /* fails only for the leader of a group, such as a shim that is run by hand */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return error_set_errno(error, -errno, "cannot become the reaper of the job's processes");
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, children could not be waited for */
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return error_set_errno(error, -errno, "cannot block signals");
    shim->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (shim->signals < 0)
        return error_set_errno(error, -errno, "cannot watch for signals");
    return 0;
}

/* The folder's path with a suffix of proto/attempt_files.h. */
static bool shim_path_beside(const struct shim *shim, const char *suffix, char path[PATH_MAX])
{
    return shim->config.folder &&
           snprintf(path, PATH_MAX, "%s%s", shim->config.folder, suffix) < PATH_MAX;
}

/* Acts on files as the job's user again. If that fails, the shim must not touch any other file: it
 * aborts. */
static void shim_return_to_user(const struct shim *shim)
{
    struct error error;

    if (attempt_identity_files_user(&shim->config, &error) < 0) {
        log_error("%s", error.text);
        abort();
    }
}

/* Uses a path through "..", because an absolute path may be too long for a socket address. The
 * current directory is the attempt's folder. */
static int shim_listen(struct shim *shim, struct error *error)
{
    const char *name = strrchr(shim->config.folder, '/');
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_CLOSE int listener = -1;

    if (snprintf(address.sun_path, sizeof address.sun_path, "..%s" ATTEMPT_SOCKET_SUFFIX, name) >=
        (int)sizeof address.sun_path)
        return error_set(error, -ENAMETOOLONG, "the name of %s is too long for a socket's",
                         shim->config.folder);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, LISTEN_BACKLOG) < 0)
        return error_set_errno(error, -errno, "cannot listen on %s" ATTEMPT_SOCKET_SUFFIX,
                               shim->config.folder);
    shim->listener = TAKE_DESCRIPTOR(listener);
    return 0;
}

/* Makes the spool, as the job's user, and worker.sock beside the attempt's folder. */
static void shim_open_late(struct shim *shim)
{
    /* O_NONBLOCK: the trainee may have put a pipe there */
    int spool =
        open("spool", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct error error;
    int result;

    shim->open_deadline = 0;
    if (spool < 0)
        log_error("cannot make the spool in %s: %s", shim->config.folder, strerror(errno));
    else
        close(spool);
    result = attempt_identity_files_own(&error);
    if (result == 0)
        result = shim_listen(shim, &error);
    if (result < 0)
        log_error("%s", error.text);
    shim_return_to_user(shim);
}

/* Makes the exit record and answers every Wait. `message`: why the trainee never started; else
 * NULL. */
static void shim_make_record(struct shim *shim, int exit_status, const char *message)
{
    struct shim_trainee *trainee = &shim->trainee;
    struct json_object *record = json_object_new_object();
    int64_t resident = trainee->peak_resident_bytes;
    int status = trainee->wait_status;
    struct stat spool;

    shim_metrics_finish(&shim->metrics);
    if (!trainee->started) {
        trainee->ended_at = clock_now();
        if (trainee->started_at == 0)
            trainee->started_at = trainee->ended_at;
    }
    json_set_double(record, "started", trainee->started_at);
    json_set_double(record, "ended", trainee->ended_at);
    if (trainee->started && WIFEXITED(status))
        json_set_int(record, "exit_status", WEXITSTATUS(status));
    else if (!trainee->started && exit_status > 0)
        json_set_int(record, "exit_status", exit_status);
    if (trainee->started && WIFSIGNALED(status))
        json_set_int(record, "signal", WTERMSIG(status));
    json_set_bool(record, "stopped", shim->stop_requested);
    json_set_bool(record, "out_of_memory", shim_trainee_out_of_memory(trainee));
    if (message)
        json_set_string(record, "message", message);
    json_set_int(record, "peak_resident_bytes", resident);
    json_set_int(record, "peak_memory_bytes",
                 shim->memory.peak > resident ? shim->memory.peak : resident);
    json_set_double(record, "cpu_seconds", trainee->cpu_seconds);
    json_set_double(record, "suspended_seconds", shim_suspended_seconds(shim));
    if (shim->metrics.lost > 0)
        json_set_int(record, "lost_metrics", shim->metrics.lost);
    json_set_int(record, "spool_bytes", lstat("spool", &spool) == 0 ? (int64_t)spool.st_size : 0);
    shim->exit = record;
    shim->record_deadline = clock_monotonic_milliseconds() + RECORD_DELAY_MILLISECONDS;
    shim_answer_waits(shim);
}

/* Writes the record to disk for a daemon that connects later. */
static void shim_write_record(struct shim *shim)
{
    size_t length;
    const char *text = json_text(shim->exit, &length);
    char path[PATH_MAX];
    struct error error;
    int result;

    shim->record_deadline = 0;
    if (!shim_path_beside(shim, ATTEMPT_RECORD_SUFFIX, path))
        return;
    result = attempt_identity_files_own(&error);
    if (result == 0)
        result = file_replace(AT_FDCWD, path, text, length, 0600, 1, &error);
    if (result < 0)
        log_error("%s", error.text);
    shim_return_to_user(shim);
}

static void shim_handle_signals(struct shim *shim)
{
    struct signalfd_siginfo info;

    while (read(shim->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            shim_stop(shim, 0, DEFAULT_STOP_GRACE_SECONDS);
    if (!shim->exit && shim_trainee_reap(&shim->trainee))
        shim_make_record(shim, 0,
                         shim_unpack_lacked_room(&shim->config, shim->trainee.wait_status)
                             ? "there is no room to unpack the job's snapshot"
                             : NULL);
    shim_suspension_tend(shim);
}

static void earlier(int64_t *next, int64_t deadline)
{
    if (deadline && deadline < *next)
        *next = deadline;
}

/* Does what is due. Returns how many ms poll() may wait; -1: without limit. */
static int shim_run_timers(struct shim *shim, bool connected)
{
    int64_t now = clock_monotonic_milliseconds(), next = INT64_MAX;

    if (!shim->exit) {
        if (shim->kill_deadline && now >= shim->kill_deadline) {
            shim_trainee_signal(&shim->trainee, SIGKILL);
            shim->kill_deadline = now + 1000; /* repeats, for processes forked meanwhile */
        }
        if (shim->memory.deadline && now >= shim->memory.deadline)
            shim_memory_sample(&shim->memory);
        if (shim->suspension.deadline && now >= shim->suspension.deadline) {
            shim_suspension_tend(shim);
            shim->suspension.deadline += 1000; /* until its end is reaped */
        }
        if (shim->open_deadline && (now >= shim->open_deadline || !connected))
            shim_open_late(shim);
        earlier(&next, shim->kill_deadline);
        earlier(&next, shim->open_deadline);
        earlier(&next, shim->memory.deadline);
        earlier(&next, shim->suspension.deadline);
    } else {
        if (shim->record_deadline && (now >= shim->record_deadline || !connected))
            shim_write_record(shim);
        if (!connected)
            shim->acknowledged = true; /* the file has the record */
        earlier(&next, shim->record_deadline);
    }
    return next == INT64_MAX ? -1 : (int)(next > now ? next - now : 0);
}

static void shim_accept(struct shim *shim)
{
    int descriptor = accept4(shim->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (descriptor < 0)
        return;
    /* the socket's mode excludes other users already; this also holds if the mode is changed */
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != 0 && peer.uid != geteuid())) {
        close(descriptor);
        return;
    }
    shim_connection_add(shim, descriptor);
}

static void shim_loop(struct shim *shim)
{
    while (!shim->acknowledged) {
        struct pollfd polled[SHIM_CONNECTIONS_MAX + 3] = {{.fd = shim->signals, .events = POLLIN},
                                                          {.fd = shim->listener, .events = POLLIN}};
        struct pollfd *metrics = &polled[SHIM_CONNECTIONS_MAX + 2];
        bool connected = false;
        int timeout;

        for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++) {
            const struct shim_connection *connection = &shim->connections[i];

            /* a connection with a held call may still hang up: poll() always reports POLLHUP */
            polled[i + 2].fd = connection->descriptor;
            polled[i + 2].events = connection->holds ? 0 : POLLIN;
            connected |= connection->descriptor >= 0;
        }
        timeout = shim_run_timers(shim, connected);
        if (shim->acknowledged)
            break;
        if (shim->suspension.untold)
            shim_answer_waits(shim);
        polled[1].fd = shim->listener; /* it may just have been created */
        *metrics = (struct pollfd){.fd = shim->metrics.reader, .events = POLLIN};
        if (poll(polled, SHIM_CONNECTIONS_MAX + 3, timeout) < 0)
            continue;
        for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++) {
            if (polled[i + 2].fd < 0 || !polled[i + 2].revents)
                continue;
            if (polled[i + 2].revents & (POLLHUP | POLLERR) && shim->connections[i].holds)
                shim_connection_close(&shim->connections[i]);
            else
                shim_connection_read(shim, &shim->connections[i]);
        }
        if (polled[1].revents)
            shim_accept(shim);
        if (metrics->revents)
            shim_metrics_read(&shim->metrics);
        if (polled[0].revents)
            shim_handle_signals(shim);
    }
}

/* Makes the warm worker the trainee; false: a new trainee must be started. */
static bool shim_start_warm(struct shim *shim, int log)
{
    struct shim_trainee *trainee = &shim->trainee;
    double started;
    struct error error;

    if (!shim->warm || shim->config.command)
        return false;
    started = clock_now();
    if (shim_warm_hand_over(shim->warm, &shim->config, trainee, log, &error) < 0) {
        log_warning("%s", error.text);
        return false;
    }
    trainee->started_at = started;
    trainee->pid = shim->warm->pid;
    trainee->started = true;
    return true;
}

/* Does everything up to the running trainee. */
static int shim_start(struct shim *shim, const char *folder, int *exit_status, struct error *error)
{
    AUTO_CLOSE int log = -1;
    int result;

    result = shim_enter_folder(folder, error);
    if (result == 0)
        result = shim_prepare_process(shim, error);
    if (result == 0)
        result = attempt_config_read(&shim->config, error);
    if (result == 0)
        result = shim_cgroup_open(&shim->trainee, &shim->config, error);
    if (result == 0)
        result = attempt_identity_assume(&shim->config, error);
    if (result == 0) {
        /* O_EXCL: the user's other processes may put a file there at any moment, which must not be
         * opened */
        log = open("log", O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (log < 0)
            result =
                error_set_errno(error, -errno, "cannot open the log in %s", shim->config.folder);
    }
    if (result == 0 && shim->config.command)
        shim_pytorch_limit(&shim->config);
    if (result == 0 && shim->config.command)
        result = shim_metrics_open(&shim->metrics, error);
    if (result == 0 && !shim_start_warm(shim, log))
        result = shim_trainee_start(&shim->trainee, &shim->config, log, shim->metrics.writer,
                                    exit_status, error);
    shim_metrics_started(&shim->metrics);
    if (result == 0)
        shim->open_deadline = clock_monotonic_milliseconds() + OPEN_DELAY_MILLISECONDS;
    if (result == 0 && shim->config.command)
        shim->memory.deadline = clock_monotonic_milliseconds() + MEMORY_DELAY_MILLISECONDS;
    return result;
}

static void shim_adopt_daemon(struct shim *shim)
{
    int type;
    socklen_t size = sizeof type;

    if (getsockopt(SHIM_DAEMON_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return; /* started by hand: there is only worker.sock */
    fcntl(SHIM_DAEMON_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    shim_connection_add(shim, SHIM_DAEMON_DESCRIPTOR);
}

static void shim_release(struct shim *shim)
{
    for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++)
        if (shim->connections[i].descriptor >= 0)
            shim_connection_close(&shim->connections[i]);
    /* worker.sock stays on disk: connections to it are refused, and the lock on attempt.json shows
     * that the shim has ended. ext4 skips inodes deleted in the last five seconds one by one, so
     * unlinking the sockets of a thousand ended attempts would slow every start down. */
    if (shim->listener >= 0)
        close(shim->listener);
    if (shim->signals >= 0)
        close(shim->signals);
    if (shim->trainee.cgroup_processes >= 0)
        close(shim->trainee.cgroup_processes);
    if (shim->trainee.cgroup_kill >= 0)
        close(shim->trainee.cgroup_kill);
    if (shim->trainee.cgroup_events >= 0)
        close(shim->trainee.cgroup_events);
    if (shim->trainee.cgroup_freeze >= 0)
        close(shim->trainee.cgroup_freeze);
    if (shim->trainee.cgroup_memory >= 0)
        close(shim->trainee.cgroup_memory);
    shim_suspension_release(shim);
    json_object_put(shim->exit);
    attempt_config_release(&shim->config);
}

/* One attempt, from its start to its record. */
static int shim_run_with(const char *folder, struct shim_warm *warm)
{
    struct shim shim = {
        .warm = warm,
        .listener = -1,
        .signals = -1,
        .metrics = {.reader = -1, .writer = -1},
        .trainee = {.cgroup_processes = -1,
                    .cgroup_kill = -1,
                    .cgroup_events = -1,
                    .cgroup_freeze = -1,
                    .cgroup_memory = -1},
        .suspension = {.output = -1},
    };
    struct error error;
    int exit_status = 0;

    for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++)
        shim.connections[i].descriptor = -1;
    fcntl(SHIM_LOCK_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    close_range(warm ? ATTEMPT_HANDOVER_DESCRIPTOR + 1 : SHIM_LOCK_DESCRIPTOR + 1, ~0U, 0);
    umask(022);
    shim_adopt_daemon(&shim);
    if (shim_start(&shim, folder, &exit_status, &error) < 0) {
        if (!shim.config.folder) /* there is no folder for a record */
            log_error("%s", error.text);
        shim_make_record(&shim, exit_status, error.text);
    }
    shim_loop(&shim);
    shim_release(&shim);
    return 0;
}

static int shim_run(const char *folder)
{
    return shim_run_with(folder, NULL);
}

int main(int argc, char **argv)
{
    log_configure("traind-shim", LOG_LEVEL_INFO);
    if (argc > 3 && strcmp(argv[1], "--warm") == 0)
        return shim_warm(argv[2], argv + 3, shim_run_with);
    if (argc > 5 && strcmp(argv[1], SHIM_UNPACK) == 0)
        return shim_unpack(argv[2], argv[3], argv[4], argv + 5);
    if (argc == 3 && strcmp(argv[1], "--fork-server") == 0)
        return shim_fork_server(argv[2], shim_run);
    if (argc != 2) {
        fputs("Usage: traind-shim FOLDER\n"
              "Runs the attempt that FOLDER.json describes. traind starts it.\n",
              stderr);
        return 2;
    }
    return shim_run(argv[1]);
}
