/* generate_run.c: runs the command of a "generate" source; see generate.h. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "engine/data/cache.h"
#include "engine/data/generate.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, LAST_LINES = 5, LAST_BYTES = 600 };
/* how often to look whether the run is to stop */
static const struct timespec look_period = {.tv_nsec = 200000000};
static const double progress_period = 5; /* seconds */

/* One command, and the part that it makes. */
struct job {
    pid_t pid; /* of the process that guards it; 0: there is none */
    int64_t part;
    char output[PATH_SIZE], log[PATH_SIZE], kept[PATH_SIZE];
};

struct jobs {
    const struct generate_run *run;
    struct job *jobs; /* [processes] */
    int64_t parts, next, done;
    int active;
    double told;
};

static int64_t part_first(const struct jobs *jobs, int64_t part)
{
    return part * jobs->run->config->generate.chunk;
}

static int64_t part_count(const struct jobs *jobs, int64_t part)
{
    int64_t left = jobs->run->config->generate.samples - part_first(jobs, part);

    return left < jobs->run->config->generate.chunk ? left : jobs->run->config->generate.chunk;
}

char *generate_name(const struct dataset_config *config, char *output, size_t size)
{
    char text[256];
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < config->path_count && used < sizeof text; i++) {
        if (i && (i == 3 || strchr(config->paths[i], '{')))
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.80s", i ? " " : "",
                                 config->paths[i]);
    }
    return text_escape_controls(text, output, size);
}

/* ---- the arguments ---- */

/* Copies the argument and replaces the names in braces by numbers and path. The caller frees it. */
static char *argument_fill(const struct jobs *jobs, const struct job *job, const char *argument)
{
    static const char *const names[] = {"{first}", "{count}", "{seed}", "{output}"};
    char values[3][24], *filled = NULL;
    const char *value[] = {values[0], values[1], values[2], job->output};
    size_t size;
    FILE *stream = open_memstream(&filled, &size);

    if (!stream)
        return NULL;
    snprintf(values[0], sizeof values[0], "%" PRId64, part_first(jobs, job->part));
    snprintf(values[1], sizeof values[1], "%" PRId64, part_count(jobs, job->part));
    snprintf(values[2], sizeof values[2], "%" PRIu64, jobs->run->config->generate.seed);
    while (*argument) {
        size_t i = 0;

        while (i < 4 && strncmp(argument, names[i], strlen(names[i])) != 0)
            i++;
        if (i < 4) {
            fputs(value[i], stream);
            argument += strlen(names[i]);
        } else {
            fputc(*argument++, stream);
        }
    }
    return fclose(stream) == 0 ? filled : NULL;
}

static void arguments_free(char **arguments)
{
    for (int i = 0; arguments && arguments[i]; i++)
        free(arguments[i]);
    free(arguments);
}

static char **arguments_make(const struct jobs *jobs, const struct job *job)
{
    const struct dataset_config *config = jobs->run->config;
    char **arguments = calloc((size_t)config->path_count + 1, sizeof *arguments);

    for (int i = 0; arguments && i < config->path_count; i++) {
        arguments[i] = argument_fill(jobs, job, config->paths[i]);
        if (!arguments[i]) {
            arguments_free(arguments);
            return NULL;
        }
    }
    return arguments;
}

/* ---- a process ---- */

/* Runs in the command's process and never returns. */
static void command_run(const struct job *job, const char *directory, char **arguments, pid_t guard)
{
    int input = open("/dev/null", O_RDONLY), log;
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard)
        _exit(127);
    log = open(job->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (input < 0 || log < 0 || dup2(input, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(127);
    close(input);
    close(log);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (directory && chdir(directory) < 0)
        dprintf(2, "cannot change to the folder %s: %s\n", directory, strerror(errno));
    else {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a generator has a path */
        execvp(arguments[0], arguments);
        dprintf(2, "cannot execute %s: %s\n", arguments[0], strerror(errno));
    }
    _exit(127);
}

static void group_kill(int number)
{
    (void)number;
    kill(0, SIGKILL);
}

/* Ends as the command did. */
static void end_like(int status)
{
    const struct rlimit none = {0, 0};
    sigset_t one;

    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &none); /* the command has written its own */
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    raise(WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    _exit(127);
}

/* Runs in the child and never returns. It leads the command's process group, and ends all of it if
 * the parent dies: the kernel would end the command alone, and not what a shell has started. */
static void guard_run(const struct job *job, const char *directory, char **arguments, pid_t parent)
{
    const pid_t guard = getpid();
    sigset_t one;
    pid_t pid;
    int status;

    setpgid(0, 0);
    signal(SIGTERM, group_kill);
    sigemptyset(&one);
    sigaddset(&one, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    pid = fork();
    if (pid == 0)
        command_run(job, directory, arguments, guard);
    /* what the parent has open ends with the parent */
    close_range(0, ~0u, 0);
    if (pid < 0)
        _exit(127);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            _exit(127);
    end_like(status);
}

static void job_name_files(struct job *job, const char *folder, int64_t part)
{
    job->part = part;
    /* numpy.save() appends this ending if a name lacks it */
    snprintf(job->output, sizeof job->output, "%s/part-%06" PRId64 ".npy", folder, part);
    snprintf(job->log, sizeof job->log, "%s/part-%06" PRId64 ".log", folder, part);
    snprintf(job->kept, sizeof job->kept, "%s/part-%06" PRId64 CACHE_PART_SUFFIX, folder, part);
}

static void job_remove_files(const struct job *job)
{
    unlink(job->output);
    unlink(job->log);
}

static int job_start(struct jobs *jobs, struct job *job, struct error *error)
{
    const struct generate_run *run = jobs->run;
    pid_t parent = getpid();
    char **arguments;

    job_remove_files(job); /* files of a run that was killed */
    arguments = arguments_make(jobs, job);
    if (!arguments)
        return reader_out_of_memory(run->config->paths[0], error);
    job->pid = fork();
    if (job->pid == 0)
        guard_run(job, run->config->directory, arguments, parent);
    arguments_free(arguments);
    if (job->pid < 0) {
        job->pid = 0;
        return error_set_errno(error, -errno, "cannot start a process to generate samples");
    }
    setpgid(job->pid, job->pid); /* the child does this, too, because either may be first */
    jobs->active++;
    return 0;
}

/* Logs the last lines of its output, joined and without control characters. */
static void log_tail(const struct job *job, char output[LAST_BYTES])
{
    AUTO_FCLOSE FILE *file = fopen(job->log, "re");
    char text[LAST_BYTES / 2] = "", *start = text;
    size_t length = 0;
    int lines = 0;

    output[0] = '\0';
    if (!file)
        return;
    if (fseek(file, -(long)(sizeof text - 1), SEEK_END) < 0)
        rewind(file);
    length = fread(text, 1, sizeof text - 1, file);
    while (length && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    for (size_t i = length; i-- > 0;) {
        if (text[i] != '\n')
            continue;
        if (++lines == LAST_LINES) {
            start = text + i + 1;
            break;
        }
        text[i] = '|';
    }
    text_escape_controls(start, output, LAST_BYTES);
}

static int report_end(const struct jobs *jobs, const struct job *job, int status,
                      struct error *error)
{
    int64_t first = part_first(jobs, job->part);
    char name[256], lines[LAST_BYTES], end[64];

    if (WIFSIGNALED(status))
        snprintf(end, sizeof end, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(end, sizeof end, "ended with exit status %d", WEXITSTATUS(status));
    log_tail(job, lines);
    return error_set(error, -ECHILD, "the command %s %s for the samples %lld to %lld%s%s",
                     generate_name(jobs->run->config, name, sizeof name), end, (long long)first,
                     (long long)(first + part_count(jobs, job->part) - 1),
                     *lines ? "; its last lines: " : "", lines);
}

/* Moves the part to where the next run looks for it, once it is on the disk. If there is no room,
 * it is deleted. */
static void job_keep(const struct job *job)
{
    AUTO_CLOSE int descriptor = open(job->output, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (descriptor >= 0 && fsync(descriptor) == 0)
        rename(job->output, job->kept);
}

/* Takes the part of an earlier run, if there is one. */
static bool job_take_kept(struct jobs *jobs, const struct job *job)
{
    if (!jobs->run->keeps_parts || access(job->kept, R_OK) < 0)
        return false;
    if (jobs->run->take(jobs->run->context, job->kept, part_first(jobs, job->part),
                        part_count(jobs, job->part), NULL) == 0)
        return true;
    unlink(job->kept);
    return false;
}

/* Takes the part that an ended process made. */
static int job_finish(struct jobs *jobs, struct job *job, int status, struct error *error)
{
    int r;

    kill(-job->pid, SIGKILL); /* processes that it may have left behind */
    job->pid = 0;
    jobs->active--;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        r = report_end(jobs, job, status, error);
    else
        r = jobs->run->take(jobs->run->context, job->output, part_first(jobs, job->part),
                            part_count(jobs, job->part), error);
    if (r == 0 && jobs->run->keeps_parts)
        job_keep(job);
    job_remove_files(job);
    jobs->done++;
    return r;
}

/* ---- all of them ---- */

static void tell(struct jobs *jobs)
{
    const struct dataset_config *config = jobs->run->config;
    char name[256], what[300];
    double seconds = clock_monotonic();

    if (jobs->told == 0)
        jobs->told = seconds;
    if (!config->events || !config->events->progress || seconds - jobs->told < progress_period)
        return;
    jobs->told = seconds;
    snprintf(what, sizeof what, "generating samples with %s",
             generate_name(config, name, sizeof name));
    config->events->progress(config->events->context, what,
                             jobs->done < jobs->parts ? part_first(jobs, jobs->done)
                                                      : config->generate.samples,
                             config->generate.samples);
}

/* Reaps ended processes. Returns how many there were, or an error. */
static int reap(struct jobs *jobs, struct error *error)
{
    int reaped = 0;

    for (int i = 0; i < jobs->run->processes; i++) {
        struct job *job = &jobs->jobs[i];
        int status;

        if (!job->pid || waitpid(job->pid, &status, WNOHANG) != job->pid)
            continue;
        int r = job_finish(jobs, job, status, error);
        if (r < 0)
            return r;
        reaped++;
    }
    return reaped;
}

static int start_all(struct jobs *jobs, struct error *error)
{
    for (int i = 0; i < jobs->run->processes; i++) {
        struct job *job = &jobs->jobs[i];

        while (!job->pid && jobs->next < jobs->parts) {
            job_name_files(job, jobs->run->folder, jobs->next++);
            if (job_take_kept(jobs, job)) {
                jobs->done++;
                continue;
            }
            int r = job_start(jobs, job, error);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static void kill_all(struct jobs *jobs)
{
    for (int i = 0; i < jobs->run->processes; i++) {
        struct job *job = &jobs->jobs[i];

        if (!job->pid)
            continue;
        kill(-job->pid, SIGKILL);
        while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        job_remove_files(job);
    }
}

static int run_parts(struct jobs *jobs, const sigset_t *ends, struct error *error)
{
    const struct dataset_events *events = jobs->run->config->events;

    for (;;) {
        int r = start_all(jobs, error);

        if (r < 0 || jobs->active == 0)
            return r;
        if (events && events->stop && atomic_load(events->stop))
            return error_set(error, -EINTR, "interrupted while samples are generated");
        r = reap(jobs, error);
        if (r < 0)
            return r;
        if (r == 0)
            sigtimedwait(ends, NULL, &look_period);
        tell(jobs);
    }
}

int generate_run_all(const struct generate_run *run, struct error *error)
{
    struct jobs jobs = {
        .run = run, .parts = (run->config->generate.samples - 1) / run->config->generate.chunk + 1};
    sigset_t ends, before;
    int r;

    jobs.jobs = calloc((size_t)run->processes, sizeof *jobs.jobs);
    if (!jobs.jobs)
        return reader_out_of_memory(run->config->paths[0], error);
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    r = run_parts(&jobs, &ends, error);
    if (r < 0)
        kill_all(&jobs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(jobs.jobs);
    return r;
}
