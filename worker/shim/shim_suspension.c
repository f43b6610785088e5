/* shim_suspension.c: suspends a job and lets it go on. Its processes are kept: those that use a GPU
 * give it back (traind-suspend), and then all are frozen. The shim does it because it knows all
 * processes of the job, acts as their user and outlives the daemon: a request that was begun comes
 * to its end whatever happens to the daemon, and the next one asks for the result.
 *
 * A process that begins while others give their GPU back is not among those that the helper was
 * given. So they are listed again after the freezing, and if a new one may use a GPU, all run again
 * and the helper gets the longer list.
 *
 * What goes wrong once a helper was at work is undone by another one, so that the job runs on. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "worker/attempt/attempt_identity.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ARGUMENTS_BEFORE_PIDS = 4,
    PID_SIZE = 16,
    ROUNDS_MAX = 8 /* then so many processes begin to use a GPU that there is no end of it */
};

static void finish(struct shim *shim, enum shim_suspension_state state, const char *message);

static const char cannot_start[] = "traind-suspend cannot be started";

/* ---- the helper ------------------------------------------------------------------------------ */

/* The environment of the job, whose user it becomes, without what the loader of programs reads:
 * that is meant for the job's own program. Instead it is told where the daemon's libraries lie. */
static char **helper_environment(const struct shim *shim)
{
    const char *path = json_get_string(shim->suspension.request, "library_path", "");
    size_t count = 0, kept = 0;
    char **environment, *variable = NULL;

    while (shim->config.environment[count])
        count++;
    environment = calloc(count + 2, sizeof *environment);
    if (!environment || (*path && asprintf(&variable, "LD_LIBRARY_PATH=%s", path) < 0))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(shim->config.environment[i], "LD_", 3) != 0)
            environment[kept++] = shim->config.environment[i];
    environment[kept] = variable;
    return environment;
}

/* In the child: never returns. */
static void helper_run(const struct shim *shim, char **arguments, int output)
{
    struct error error;
    sigset_t none;
    char **environment = helper_environment(shim);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    sigemptyset(&none);
    setpgid(0, 0);
    if (!environment || attempt_identity_files_own(&error) < 0 ||
        attempt_identity_drop(&shim->config, &error) < 0)
        _exit(126);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        _exit(126);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(arguments[0], arguments, environment);
    _exit(127);
}

static bool helper_start(struct shim *shim, char **arguments)
{
    struct shim_suspension *suspension = &shim->suspension;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid = fork();
    if (pid == 0)
        helper_run(shim, arguments, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    suspension->output = ends[0];
    suspension->length = 0;
    shim->trainee.helper = pid;
    shim->trainee.helper_ended = false;
    return true;
}

/* Lists the processes of the job anew. */
static int list_processes(struct shim *shim)
{
    struct shim_suspension *suspension = &shim->suspension;

    if (!suspension->pids)
        suspension->pids = calloc(SHIM_PROCESSES_MAX, sizeof *suspension->pids);
    suspension->count =
        suspension->pids ? shim_trainee_list(&shim->trainee, suspension->pids, SHIM_PROCESSES_MAX)
                         : 0;
    return suspension->count;
}

/* Starts traind-suspend for all processes of the job. `setting` is its third argument. NULL: it
 * runs; else why it does not. */
static const char *helper_ask(struct shim *shim, const char *action, const char *setting)
{
    struct shim_suspension *suspension = &shim->suspension;
    int count = list_processes(shim);
    char **arguments = calloc((size_t)count + ARGUMENTS_BEFORE_PIDS + 1, sizeof *arguments);
    char(*numbers)[PID_SIZE] = calloc((size_t)count + 1, sizeof *numbers);
    bool started = false;

    if (arguments && numbers && count > 0 && count < SHIM_PROCESSES_MAX) {
        arguments[0] = (char *)json_get_string(suspension->request, "helper", "");
        arguments[1] = (char *)action;
        arguments[2] = (char *)json_get_string(suspension->request, "library", "");
        arguments[3] = (char *)setting;
        for (int i = 0; i < count; i++) {
            snprintf(numbers[i], PID_SIZE, "%d", (int)suspension->pids[i]);
            arguments[ARGUMENTS_BEFORE_PIDS + i] = numbers[i];
        }
        suspension->rounds++;
        suspension->late = false;
        started = helper_start(shim, arguments);
    }
    free(numbers);
    free(arguments);
    return started                       ? NULL
           : count >= SHIM_PROCESSES_MAX ? "the job has too many processes"
                                         : cannot_start;
}

/* ---- suspending ------------------------------------------------------------------------------ */

/* Whether the request names a driver's library: else nothing has to be taken from a GPU. */
static bool has_gpu(const struct shim *shim)
{
    return *json_get_string(shim->suspension.request, "library", "") != '\0';
}

/* What the GPU held comes into the memory of the job: its limit is raised by `more` bytes. */
static void limit_memory(const struct shim *shim, uint64_t more)
{
    uint64_t limit = shim->config.memory_limit + more;
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRIu64, limit);

    if (shim->config.memory_limit && shim->trainee.cgroup_memory >= 0 &&
        pwrite(shim->trainee.cgroup_memory, text, (size_t)length, 0) < 0)
        log_warning("the limit of the job's memory cannot be changed: %s", strerror(errno));
}

/* In which the driver has to do it. */
static double request_seconds(struct json_object *request)
{
    return json_get_double(request, "limit_seconds", 600);
}

/* When the request has to be done, from now on. */
static int64_t request_deadline(struct json_object *request)
{
    return clock_monotonic_milliseconds() + (int64_t)(1000 * request_seconds(request));
}

/* Gives the processes their GPUs back after a suspension that did not succeed. */
static void undo(struct shim *shim, const char *why)
{
    struct shim_suspension *suspension = &shim->suspension;

    snprintf(suspension->undone, sizeof suspension->undone, "%s", why);
    suspension->deadline = request_deadline(suspension->request);
    shim_trainee_freeze(&shim->trainee, false);
    if (helper_ask(shim, "resume", "-"))
        finish(shim, SHIM_BROKEN, suspension->undone);
}

static const char *suspend_ask(struct shim *shim)
{
    char timeout[24];

    snprintf(timeout, sizeof timeout, "%lld",
             (long long)(1000 * json_get_double(shim->suspension.request, "lock_seconds", 10)));
    return helper_ask(shim, "suspend", timeout);
}

/* Whether the process has the driver's library, and so may use a GPU; also if nobody can tell. */
static bool may_use_gpu(const struct shim *shim, pid_t pid)
{
    const char *library = json_get_string(shim->suspension.request, "library", "");
    const char *name = strrchr(library, '/') ? strrchr(library, '/') + 1 : library;
    AUTO_FREE char *line = NULL, *part = NULL;
    char path[32];
    size_t size = 0;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    AUTO_FCLOSE FILE *maps = fopen(path, "re");
    if (!maps)
        return errno != ENOENT && errno != ESRCH;
    if (asprintf(&part, "/%.*s.so", (int)strcspn(name, "."), name) < 0) /* of any version */
        return true;
    while (!found && getline(&line, &size, maps) >= 0)
        found = strstr(line, part) != NULL;
    return found || ferror(maps);
}

/* Whether a process that the last helper was not given may use a GPU. */
static bool new_one_may_use_gpu(struct shim *shim)
{
    struct shim_suspension *suspension = &shim->suspension;
    pid_t *before = suspension->pids;
    int count = suspension->count;
    bool found = false;

    suspension->pids = NULL;
    if (list_processes(shim) == 0) /* there is no memory to tell */
        found = true;
    for (int i = 0; i < suspension->count && !found; i++) {
        int k = 0;

        while (k < count && before[k] != suspension->pids[i])
            k++;
        found = k == count && may_use_gpu(shim, suspension->pids[i]);
    }
    free(before);
    return found;
}

/* All processes that the helper was given have left their GPUs. */
static void suspend_freeze(struct shim *shim)
{
    struct shim_suspension *suspension = &shim->suspension;
    const char *obstacle;

    if (shim_trainee_freeze(&shim->trainee, true) < 0) {
        if (has_gpu(shim))
            undo(shim, "its processes cannot be frozen");
        else
            finish(shim, SHIM_RUNNING, "its processes cannot be frozen");
        return;
    }
    if (!has_gpu(shim) || !new_one_may_use_gpu(shim)) {
        finish(shim, SHIM_SUSPENDED, NULL);
        return;
    }
    shim_trainee_freeze(&shim->trainee, false);
    obstacle = suspension->rounds < ROUNDS_MAX
                   ? suspend_ask(shim)
                   : "processes that may use a GPU begin in it again and again";
    if (obstacle)
        undo(shim, obstacle);
}

bool shim_suspend(struct shim *shim, struct json_object *request)
{
    struct shim_suspension *suspension = &shim->suspension;
    const char *obstacle;

    if (shim->exit || shim->trainee.pid <= 0 || shim->stop_requested ||
        suspension->state != SHIM_RUNNING)
        return false;
    suspension->state = SHIM_SUSPENDING;
    suspension->request = json_object_get(request);
    suspension->since = clock_monotonic_milliseconds();
    suspension->deadline = request_deadline(request);
    suspension->rounds = 0;
    suspension->memory = json_get_int(request, "memory", 0);
    limit_memory(shim, (uint64_t)suspension->memory);
    if (!has_gpu(shim))
        suspend_freeze(shim);
    else if ((obstacle = suspend_ask(shim)))
        finish(shim, SHIM_RUNNING, obstacle);
    return true;
}

/* ---- resuming -------------------------------------------------------------------------------- */

bool shim_resume(struct shim *shim, struct json_object *request)
{
    struct shim_suspension *suspension = &shim->suspension;
    const char *pairs = json_get_string(request, "pairs", ""), *obstacle;

    if (shim->exit || shim->stop_requested || suspension->state != SHIM_SUSPENDED)
        return false;
    suspension->suspended += clock_monotonic_milliseconds() - suspension->since;
    suspension->state = SHIM_RESUMING;
    suspension->request = json_object_get(request);
    suspension->since = clock_monotonic_milliseconds();
    suspension->deadline = request_deadline(request);
    shim_trainee_freeze(&shim->trainee, false);
    if (!has_gpu(shim))
        finish(shim, SHIM_RUNNING, NULL);
    else if ((obstacle = helper_ask(shim, "resume", *pairs ? pairs : "-"))) {
        shim_trainee_freeze(&shim->trainee, true);
        finish(shim, SHIM_SUSPENDED, obstacle);
    }
    return true;
}

/* ---- the end of a request -------------------------------------------------------------------- */

/* Tells the result. `message`: why it was not done; NULL: it was. */
static void finish(struct shim *shim, enum shim_suspension_state state, const char *message)
{
    struct shim_suspension *suspension = &shim->suspension;
    struct json_object *result = json_object_new_object();

    json_set_double(result, "seconds",
                    (double)(clock_monotonic_milliseconds() - suspension->since) / 1000);
    if (message)
        json_set_string(result, "message", message);
    if (state == SHIM_RUNNING)
        limit_memory(shim, 0);
    suspension->state = state;
    suspension->since = clock_monotonic_milliseconds();
    suspension->deadline = 0;
    suspension->undone[0] = '\0';
    json_object_put(suspension->request);
    suspension->request = NULL;
    json_object_put(suspension->result);
    suspension->result = result;
    suspension->untold = true; /* until the loop answers: this may be within a oneway call */
}

/* A helper that suspends has ended. */
static void take_suspended(struct shim *shim, const char *outcome, const char *message)
{
    if (strcmp(outcome, "done") == 0)
        suspend_freeze(shim);
    else if (strcmp(outcome, "kept") == 0)
        finish(shim, SHIM_RUNNING, message);
    else if (strcmp(outcome, "lost") == 0)
        finish(shim, SHIM_BROKEN, message);
    else
        undo(shim, message); /* it was killed: nobody knows how far it got */
}

/* A helper that gives the GPUs back has ended. */
static void take_resumed(struct shim *shim, const char *outcome, const char *message)
{
    if (strcmp(outcome, "done") == 0) {
        finish(shim, SHIM_RUNNING, NULL);
    } else if (strcmp(outcome, "kept") == 0) {
        shim_trainee_freeze(&shim->trainee, true);
        finish(shim, SHIM_SUSPENDED, message);
    } else {
        finish(shim, SHIM_BROKEN, message);
    }
}

/* A helper that undoes a suspension has ended. */
static void take_undone(struct shim *shim, const char *outcome, const char *message)
{
    char both[sizeof shim->suspension.undone + 1024];

    if (strcmp(outcome, "done") == 0) {
        finish(shim, SHIM_RUNNING, shim->suspension.undone);
        return;
    }
    snprintf(both, sizeof both, "%s; after that %.1000s", shim->suspension.undone, message);
    finish(shim, SHIM_BROKEN, both);
}

/* The helper has ended: `outcome` is what it said, or "" if it said nothing. */
static void take_outcome(struct shim *shim, const char *outcome, const char *message)
{
    if (shim->suspension.undone[0])
        take_undone(shim, outcome, message);
    else if (shim->suspension.state == SHIM_SUSPENDING)
        take_suspended(shim, outcome, message);
    else
        take_resumed(shim, outcome, message);
}

static void read_output(struct shim_suspension *suspension)
{
    size_t space = sizeof suspension->text - 1 - suspension->length;
    ssize_t got;

    while (space > 0 &&
           (got = read(suspension->output, suspension->text + suspension->length, space)) > 0) {
        suspension->length += (size_t)got;
        space -= (size_t)got;
    }
    suspension->text[suspension->length] = '\0';
}

void shim_suspension_tend(struct shim *shim)
{
    struct shim_suspension *suspension = &shim->suspension;
    JSON_AUTO struct json_object *report = NULL;
    const char *outcome = "", *message = "traind-suspend ended without a word";
    char late[96] = "", limit[32];

    if (suspension->output < 0)
        return;
    read_output(suspension);
    if (shim->trainee.helper > 0 && suspension->deadline &&
        clock_monotonic_milliseconds() >= suspension->deadline)
        suspension->late = kill(shim->trainee.helper, SIGKILL) == 0;
    if (!shim->trainee.helper_ended)
        return;
    read_output(suspension);
    close(suspension->output);
    suspension->output = -1;
    shim->trainee.helper_ended = false;
    if (shim->exit || shim->stop_requested)
        return;
    if (json_parse(suspension->text, suspension->length, &report, NULL) == 0) {
        outcome = json_get_string(report, "outcome", "");
        message = json_get_string(report, "message", message);
    } else if (suspension->late) {
        snprintf(late, sizeof late, "NVIDIA's driver did not do it within %s",
                 text_format_duration(request_seconds(suspension->request), limit, sizeof limit));
        message = late;
    } else if (WIFEXITED(shim->trainee.helper_status) &&
               WEXITSTATUS(shim->trainee.helper_status) >= 126) {
        outcome = "kept"; /* it never began */
        message = cannot_start;
    }
    take_outcome(shim, outcome, message);
}

void shim_suspension_abandon(struct shim *shim)
{
    if (shim->trainee.helper > 0)
        kill(shim->trainee.helper, SIGKILL);
}

const char *shim_suspension_name(const struct shim *shim)
{
    static const char *const names[] = {[SHIM_RUNNING] = "running",
                                        [SHIM_SUSPENDING] = "suspending",
                                        [SHIM_SUSPENDED] = "suspended",
                                        [SHIM_RESUMING] = "resuming",
                                        [SHIM_BROKEN] = "broken"};

    return names[shim->suspension.state];
}

double shim_suspended_seconds(const struct shim *shim)
{
    const struct shim_suspension *suspension = &shim->suspension;
    int64_t now = suspension->state == SHIM_SUSPENDED
                      ? clock_monotonic_milliseconds() - suspension->since
                      : 0;

    return (double)(suspension->suspended + now) / 1000;
}

void shim_suspension_release(struct shim *shim)
{
    if (shim->suspension.output >= 0)
        close(shim->suspension.output);
    free(shim->suspension.pids);
    json_object_put(shim->suspension.request);
    json_object_put(shim->suspension.result);
}
