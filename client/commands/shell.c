/* shell.c: `trainctl shell` opens a shell on a booked device. The shell is a job as any other: it
 * waits for its device, and the daemon ends it after its time. The job is `trainctl lease`, which
 * connects to this program. */
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/lease_terminal.h"
#include "client/submission/command_spec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

static const double FOR_SECONDS = 3600; /* unless --for says otherwise */
static const double LATE_SECONDS = 30;  /* the daemon ends what has not ended by itself */
enum {
    ASK_MILLISECONDS = 500,
    ANSWER_MILLISECONDS = 2000, /* in which no signal is looked at */
    WORDS_MAX = 1024
};

struct lease {
    struct invocation *invocation;
    int64_t job;
    int listener, signals;
    char name[LEASE_NAME_MAX];
    double seconds, idle_seconds;
    char reason[512]; /* that was printed last */
};

/* ---- the job --------------------------------------------------------------------------------- */

static struct json_object *section_of(struct json_object *spec, const char *name)
{
    struct json_object *section = json_get(spec, name);

    if (!section)
        json_set(spec, name, section = json_object_new_object());
    return section;
}

/* Without a device the shell is on the CPU: a GPU would lie idle unasked. */
static int devices_add(const struct invocation *invocation, struct json_object *spec)
{
    int64_t count = 1;

    if (invocation_option_integer(invocation, "gpu", 1, &count))
        return -EINVAL;
    if (count > 1)
        json_set_int(section_of(spec, "resources"), "devices", count);
    if (!invocation_option(invocation, "gpu") && !invocation_option(invocation, "gpus") &&
        !invocation_option(invocation, "device"))
        json_set_string(section_of(spec, "device"), "force",
                        invocation_option(invocation, "gpu-memory") ? "gpu" : "cpu");
    return 0;
}

/* Makes the specification: the person's command, or shell, behind `trainctl lease`. */
static int spec_make(struct lease *lease, struct json_object *spec, struct error *error)
{
    struct invocation *invocation = lease->invocation;
    struct invocation own = *invocation; /* with the words of the job */
    const char *shell = getenv("SHELL");
    char program[PATH_MAX], seconds[32], idle[32], *words[WORDS_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    size_t count = 0;
    int result;

    if (length < 0)
        return error_set_errno(error, -errno, "cannot tell which program this is");
    program[length] = '\0';
    snprintf(seconds, sizeof seconds, "%.3f", lease->seconds);
    snprintf(idle, sizeof idle, "%.3f", lease->idle_seconds);
    words[count++] = program;
    words[count++] = (char *)"--socket";
    words[count++] = invocation->socket;
    words[count++] = (char *)"lease";
    words[count++] = lease->name;
    words[count++] = seconds;
    words[count++] = idle;
    if (invocation->argument_count > WORDS_MAX - count - 1)
        return error_set(error, -E2BIG, "the command has too many words");
    for (size_t i = 0; i < invocation->argument_count; i++)
        words[count++] = invocation->arguments[i];
    if (invocation->argument_count == 0)
        words[count++] = (char *)(shell && *shell ? shell : "/bin/sh");
    own.arguments = words;
    own.argument_count = count;
    result = command_spec_make(&own, spec, error);
    if (result < 0 || devices_add(invocation, spec) < 0)
        return -EINVAL;
    if (!invocation_option(invocation, "name"))
        json_set_string(spec, "name", "shell");
    json_set_double(spec, "time_limit", lease->seconds + LATE_SECONDS);
    json_set_double(section_of(spec, "resources"), "time", lease->seconds);
    json_set_int(section_of(spec, "retry"), "limit", 0);
    return 0;
}

static enum exit_status terms_read(struct lease *lease)
{
    CLEANUP(varlink_reply_release) struct varlink_reply limits = {0};
    const char *text = invocation_option(lease->invocation, "for");
    enum exit_status status;

    lease->seconds = FOR_SECONDS;
    if (text && (text_parse_duration(text, &lease->seconds) < 0 || !(lease->seconds > 0) ||
                 lease->seconds > 1e9 - LATE_SECONDS)) {
        complain("--for=%s: a time such as 30min or 2h is expected", text);
        return EXIT_STATUS_USAGE;
    }
    status = connection_call(lease->invocation, "Limits", NULL, &limits);
    if (!status)
        lease->idle_seconds = json_get_double(limits.parameters, "shell_idle", 0);
    return status;
}

static enum exit_status job_submit(struct lease *lease)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *spec = json_object_new_object(), *parameters = json_object_new_object();
    struct error error = {0};
    enum exit_status status;

    json_set(parameters, "spec", spec);
    if (spec_make(lease, spec, &error) < 0) {
        if (error.code)
            complain("%s", error.text);
        json_object_put(parameters);
        return EXIT_STATUS_USAGE;
    }
    status = connection_call(lease->invocation, "Submit", parameters, &reply);
    if (!status)
        lease->job = json_get_int(reply.parameters, "id", 0);
    return status;
}

static void job_cancel(const struct lease *lease)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", lease->job);
    if (connection_try_within(lease->invocation, ANSWER_MILLISECONDS, "Cancel", parameters, &reply))
        complain("job %" PRId64 " is cancelled", lease->job);
    else
        complain("job %" PRId64 " was not cancelled: it has ended, or the daemon does not answer; "
                 "then it ends by itself when it gets its device, or by `trainctl cancel %" PRId64
                 "`",
                 lease->job, lease->job);
}

/* ---- waiting for it -------------------------------------------------------------------------- */

/* Asks how the job is; prints why it waits. False: it has ended, and the sentence was printed. */
static bool job_is_alive(struct lease *lease)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *job;
    const char *state, *reason;
    char escaped[1024];

    json_set_int(parameters, "id", lease->job);
    if (!connection_try_within(lease->invocation, ANSWER_MILLISECONDS, "Show", parameters, &reply))
        return true; /* the daemon is being restarted, or busy */
    job = json_get(reply.parameters, "job");
    state = json_get_string(job, "state", "");
    reason = json_get_string(job, "reason", "");
    if (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 ||
        strcmp(state, "cancelled") == 0) {
        complain("job %" PRId64 " is %s: %s", lease->job, state,
                 text_escape_controls(reason, escaped, sizeof escaped));
        return false;
    }
    if (strcmp(state, "queued") == 0 && strncmp(reason, lease->reason, sizeof lease->reason - 1)) {
        snprintf(lease->reason, sizeof lease->reason, "%s", reason);
        fprintf(stderr, "job %" PRId64 ": %s\n", lease->job,
                text_escape_controls(reason, escaped, sizeof escaped));
    }
    return true;
}

static int connection_accept(const struct lease *lease)
{
    int socket = accept4(lease->listener, NULL, NULL, SOCK_CLOEXEC);

    if (socket >= 0 && !lease_peer_is_own(socket)) {
        close(socket);
        return -1;
    }
    return socket;
}

/* Waits until the job has connected. -1: it will not, or the person does not want to wait. */
static int connection_wait(struct lease *lease)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = lease->listener, .events = POLLIN},
                                  {.fd = lease->signals, .events = POLLIN}};
        int socket;

        if (poll(polled, 2, ASK_MILLISECONDS) < 0)
            continue;
        if (polled[1].revents) {
            struct signalfd_siginfo taken; /* so that it does not end this program later */

            if (read(lease->signals, &taken, sizeof taken) < 0)
                continue;
            job_cancel(lease);
            return -1;
        }
        socket = polled[0].revents ? connection_accept(lease) : -1;
        if (socket >= 0)
            return socket;
        if (!job_is_alive(lease))
            return -1;
    }
}

static enum exit_status lease_use(struct lease *lease)
{
    sigset_t ends, before;
    int socket, status;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &before);
    lease->signals = signalfd(-1, &ends, SFD_CLOEXEC);
    socket = connection_wait(lease);
    close(lease->signals);
    if (socket >= 0)
        fprintf(stderr, "job %" PRId64 " has its device\n", lease->job);
    status = socket < 0 ? -1 : lease_terminal_run(socket);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (socket >= 0 && status < 0)
        fprintf(stderr, "the lease has ended: `trainctl show %" PRId64 "` says how\n", lease->job);
    return status < 0 ? EXIT_STATUS_FAILED : (enum exit_status)status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct lease lease = {.invocation = invocation, .listener = -1};
    struct error error = {0};
    enum exit_status status = terms_read(&lease);

    if (status)
        return status;
    lease.listener = lease_listen(lease.name, &error);
    if (lease.listener < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    status = job_submit(&lease);
    if (!status)
        status = lease_use(&lease);
    close(lease.listener);
    return status;
}

static const struct command_option shell_options[] = {
    {"for", 0, "DURATION", "How long, such as 30min or 2h (default: 1 h)", COMPLETE_NOTHING},
    {"gpu", 0, "N", "On N GPUs, of one type (default: on the CPU)", COMPLETE_NOTHING},
    {"gpus", 0, "N", "The same, as `run` has it", COMPLETE_NOTHING},
    {"device", 'd', "NAME[,NAME…]", "On one of these devices; repeatable", COMPLETE_DEVICES},
    {"cores", 'c', "N", "CPU cores that it uses (default: its share of the machine's)",
     COMPLETE_NOTHING},
    {"memory", 'm', "SIZE", "Memory that it may use, such as 4G", COMPLETE_NOTHING},
    {"gpu-memory", 0, "SIZE", "Memory of the GPU that it may use, such as 8G", COMPLETE_NOTHING},
    {"name", 'n', "NAME", "Name of the job (default: shell)", COMPLETE_NOTHING},
    {"directory", 'C', "PATH", "Directory to begin in (default: the current one)", COMPLETE_FILES},
    {"priority", 'p', "N", "Higher ones start first (default: 0)", COMPLETE_NOTHING},
    {0},
};

const struct command command_shell = {
    .reads_input = true,
    .name = "shell",
    .place = 25,
    .arguments = "[-- COMMAND…]",
    .summary = "Open a shell on a booked device",
    .details = "The shell, or COMMAND, begins here once its device is free. It is a job: it ends "
               "after its time, which\nit tells five minutes before, when this terminal goes, and "
               "when nothing happens in it for long (ShellIdle):\nno key, no output, no use of "
               "CPU or GPU. The exit status is the shell's.",
    .minimum = 0,
    .maximum = -1,
    .ends_at_argument = true,
    .options = shell_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
