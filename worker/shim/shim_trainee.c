/* shim_trainee.c: starts the trainee, reaps it and all its descendants.
 *
 * The shim is a subreaper: a descendant whose parent has ended becomes the shim's child, whatever
 * its session or process group. So no process of the job remains when wait4() returns ECHILD. Until
 * then, killing the children found in /proc eventually reaches every process. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/attempt/attempt_identity.h"
#include "worker/shim/shim.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { FAILURES_DESCRIPTOR = 9, INTERPRETER_BYTES_MAX = 128, STOP_TURN_NANOSECONDS = 100000 };

static const double STOP_SECONDS = 1; /* for all together; on an idle machine one takes 0.0001 */

/* ---- cgroup ---------------------------------------------------------------------------------- */

static int cgroup_file_open(int folder, const char *name, int flags)
{
    return openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW);
}

/* A missing file means that the controller is not available; the daemon's notes report that. */
static int cgroup_limit(int folder, const char *name, uint64_t value)
{
    AUTO_CLOSE int file = cgroup_file_open(folder, name, O_WRONLY);
    char text[24];
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)value);

    if (file < 0)
        return errno == ENOENT ? 0 : -1;
    return write(file, text, (size_t)length) < 0 ? -1 : 0;
}

int shim_cgroup_open(struct shim_trainee *trainee, const struct attempt_config *config,
                     struct error *error)
{
    AUTO_CLOSE int folder = -1;

    if (!config->cgroup)
        return 0;
    if (mkdir(config->cgroup, 0755) < 0 && errno != EEXIST)
        return error_set_errno(error, -errno, "cannot make the cgroup %s", config->cgroup);
    folder = open(config->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return error_set_errno(error, -errno, "cannot open the cgroup %s", config->cgroup);
    /* The kernel checks the permissions of the process that opened the file, so the child may move
     * itself after it has dropped its privileges. */
    trainee->cgroup_processes = cgroup_file_open(folder, "cgroup.procs", O_WRONLY);
    if (trainee->cgroup_processes < 0)
        return error_set_errno(error, -errno, "cannot enter the cgroup %s", config->cgroup);
    trainee->cgroup_kill = cgroup_file_open(folder, "cgroup.kill", O_WRONLY);
    trainee->cgroup_events = cgroup_file_open(folder, "memory.events", O_RDONLY);
    trainee->cgroup_freeze = cgroup_file_open(folder, "cgroup.freeze", O_WRONLY);
    trainee->cgroup_memory = cgroup_file_open(folder, "memory.max", O_WRONLY);
    if (config->memory_limit && cgroup_limit(folder, "memory.max", config->memory_limit) < 0)
        return error_set_errno(error, -errno, "cannot limit the memory of the cgroup %s",
                               config->cgroup);
    if (config->memory_limit && cgroup_limit(folder, "memory.oom.group", 1) < 0)
        return error_set_errno(error, -errno, "cannot set memory.oom.group of the cgroup %s",
                               config->cgroup);
    if (config->tasks_max && cgroup_limit(folder, "pids.max", (uint64_t)config->tasks_max) < 0)
        return error_set_errno(error, -errno, "cannot limit the processes of the cgroup %s",
                               config->cgroup);
    return 0;
}

bool shim_trainee_out_of_memory(const struct shim_trainee *trainee)
{
    char text[512];
    ssize_t length;
    const char *count;

    if (trainee->cgroup_events < 0)
        return false;
    length = pread(trainee->cgroup_events, text, sizeof text - 1, 0);
    if (length <= 0)
        return false;
    text[length] = '\0';
    count = strstr(text, "oom_kill ");
    return count && atoll(count + strlen("oom_kill ")) > 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

enum child_step { CHILD_CGROUP, CHILD_IDENTITY, CHILD_DIRECTORY, CHILD_PARENT, CHILD_EXEC };

struct child_failure {
    enum child_step step;
    int code;                                /* errno */
    char interpreter[INTERPRETER_BYTES_MAX]; /* that the program's first line names; "": none */
    bool carriage_return;                    /* ... with a character behind it that no name has */
};

/* Opens /proc as the daemon's user: a process with PR_SET_DUMPABLE 0 could not do so as the job's
 * user. */
static int child_become_user(const struct attempt_config *config)
{
    struct error error;

    if (attempt_identity_files_own(&error) < 0)
        return error.code;
    attempt_identity_adjust_oom_score(config);
    attempt_identity_limit_descriptors(config);
    return attempt_identity_drop(config, &error);
}

/* Reads which interpreter the first line of a program names. False: there is no such file. */
static bool first_line_read(struct child_failure *failure, const char *path)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char line[sizeof failure->interpreter + 2] = "", *name = line + 2;
    size_t length = 0;

    if (file < 0 || read(file, line, sizeof line - 1) < 0)
        return false;
    if (strncmp(line, "#!", 2) != 0)
        return true;
    name += strspn(name, " \t");
    while (isgraph((unsigned char)name[length]))
        length++;
    snprintf(failure->interpreter, sizeof failure->interpreter, "%.*s", (int)length, name);
    failure->carriage_return = name[length] == '\r';
    return true;
}

/* Says more about a program that could not be executed, with the rights of its user. */
static void child_look(struct child_failure *failure, const char *program)
{
    const char *at = getenv("PATH");
    struct stat status;

    if (failure->code == EACCES && stat(program, &status) == 0 && S_ISDIR(status.st_mode))
        failure->code = EISDIR;
    if (failure->code != ENOENT)
        return;
    if (strchr(program, '/')) {
        first_line_read(failure, program);
        return;
    }
    while (at && *at) {
        char path[PATH_MAX];
        size_t length = strcspn(at, ":");

        snprintf(path, sizeof path, "%.*s/%s", (int)length, at, program);
        if (access(path, X_OK) == 0 && first_line_read(failure, path))
            return;
        at += length + (at[length] == ':');
    }
}

/* In the child: never returns. */
static void child_run(const struct shim_trainee *trainee, const struct attempt_config *config,
                      int log, int metrics, int failures, pid_t parent)
{
    /* signals that a daemon, or the shell that started it, may have ignored */
    static const int reset[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE,
                                SIGTERM, SIGCHLD, SIGUSR1, SIGXFSZ};
    struct child_failure failure = {.step = CHILD_CGROUP};
    sigset_t none;

    sigemptyset(&none);
    setpgid(0, 0);
    if (failures == ATTEMPT_METRICS_DESCRIPTOR)
        failures = dup3(failures, FAILURES_DESCRIPTOR, O_CLOEXEC);
    if (trainee->cgroup_processes >= 0 && write(trainee->cgroup_processes, "0", 1) < 0)
        goto failed;
    failure.step = CHILD_IDENTITY;
    failure.code = -child_become_user(config);
    if (failure.code)
        goto told;
    /* If the shim is killed, the trainee must not go on without supervision. */
    failure.step = CHILD_PARENT;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        goto failed;
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    failure.step = CHILD_DIRECTORY;
    if (chdir(config->directory) < 0 && !(config->any_directory && chdir("/") == 0))
        goto failed;
    failure.step = CHILD_EXEC;
    if (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
        (metrics >= 0 && dup2(metrics, ATTEMPT_METRICS_DESCRIPTOR) < 0))
        goto failed;
    if (config->cpus) /* no failure if cores have gone offline meanwhile */
        sched_setaffinity(0, sizeof *config->cpus, config->cpus);
    for (size_t i = 0; i < sizeof reset / sizeof *reset; i++)
        signal(reset[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = config->environment;
    execvp(config->arguments[0], config->arguments);
failed:
    failure.code = errno;
    if (failure.step == CHILD_EXEC)
        child_look(&failure, config->arguments[0]);
told:
    if (write(failures, &failure, sizeof failure) < 0) {
        /* the parent has ended: nothing can be reported */
    }
    _exit(EXIT_FAILURE);
}

/* Sets the sentence for a program that is not there. No shell looks at a command's words, so what
 * only a shell understands is told apart. */
static int child_explain_missing(const char *program, const struct child_failure *failure,
                                 struct error *error)
{
    size_t name =
        strspn(program, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    if (*failure->interpreter)
        return error_set(error, -ENOENT,
                         "command not found: the first line of %s names the interpreter %s%s",
                         program, failure->interpreter,
                         failure->carriage_return
                             ? " with a carriage return behind it, as lines end on Windows; "
                               "dos2unix mends that"
                             : ", which does not exist; a virtual environment that was moved, for "
                               "example, has to be made again");
    if (name > 0 && program[name] == '=')
        return error_set(error, -ENOENT,
                         "command not found: %s; no shell reads the command, so give the variable "
                         "by --env, or write env before it",
                         program);
    if (strpbrk(program, " \t\n|&;<>*$"))
        return error_set(error, -ENOENT,
                         "command not found: %s; if these are several words, give them one by one, "
                         "as no shell reads the command, or start one: sh -c \"…\"",
                         program);
    return error_set(
        error, -ENOENT,
        strchr(program, '/')
            ? "command not found: %s does not exist, or the interpreter that its first "
              "line names does not"
            : "command not found: %s; give its path, or a PATH that has it in the "
              "job's environment",
        program);
}

static int child_explain(const struct attempt_config *config, struct child_failure failure,
                         int *exit_status, struct error *error)
{
    const char *program = config->arguments[0];

    *exit_status = 126;
    switch (failure.step) {
    case CHILD_CGROUP:
        return error_set_errno(error, -failure.code, "cannot enter the cgroup %s", config->cgroup);
    case CHILD_IDENTITY:
        return error_set_errno(error, -failure.code, "cannot become user %s", config->user);
    case CHILD_PARENT:
        return error_set_errno(error, -failure.code, "cannot tie the trainee to its shim");
    case CHILD_DIRECTORY:
        return error_set_errno(error, -failure.code,
                               "cannot change to the job's directory %s as user %s",
                               config->directory, config->user);
    case CHILD_EXEC:
        break;
    }
    if (failure.code == EISDIR)
        return error_set(error, -EISDIR, "%s is a folder; name the program in it", program);
    if (failure.code == ENOENT) {
        *exit_status = 127;
        return child_explain_missing(program, &failure, error);
    }
    if (failure.code == EACCES)
        return error_set(error, -EACCES,
                         "permission denied: user %s may not execute %s; chmod +x it, or start it "
                         "through its interpreter",
                         config->user, program);
    return error_set_errno(error, -failure.code, "cannot execute %s", program);
}

int shim_trainee_start(struct shim_trainee *trainee, const struct attempt_config *config, int log,
                       int metrics, int *exit_status, struct error *error)
{
    struct child_failure failure;
    pid_t self = getpid(), pid;
    ssize_t got;
    int failures[2];

    trainee->started_at = clock_now();
    if (pipe2(failures, O_CLOEXEC) < 0)
        return error_set_errno(error, -errno, "cannot make a pipe");
    pid = fork();
    if (pid == 0)
        child_run(trainee, config, log, metrics, failures[1], self);
    close(failures[1]);
    if (pid < 0) {
        int code = -errno;

        close(failures[0]);
        return error_set_errno(error, code, "cannot start a process");
    }
    do
        got = read(failures[0], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    close(failures[0]);
    if (got == (ssize_t)sizeof failure) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return child_explain(config, failure, exit_status, error);
    }
    trainee->pid = pid;
    trainee->started = true;
    return 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Reads a process's state (a letter of proc(5)) and parent from PATH/stat; false if it is gone. */
static bool process_look(int folder, const char *path, char *state, pid_t *parent)
{
    char name[300], text[512];
    AUTO_CLOSE int descriptor = -1;
    ssize_t length;
    char *after;

    snprintf(name, sizeof name, "%s/stat", path);
    descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    length = read(descriptor, text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    /* the program's name is in parentheses and may contain any character, also parentheses */
    after = strrchr(text, ')');
    return after && sscanf(after + 1, " %c %d", state, parent) == 2;
}

int shim_children_visit(bool (*visit)(pid_t pid, void *data), void *data)
{
    DIR *folder = opendir("/proc");
    pid_t self = getpid(), parent;
    struct dirent *entry;
    int count = 0;
    char state;

    while (folder && (entry = readdir(folder)))
        if (isdigit((unsigned char)entry->d_name[0]) &&
            process_look(dirfd(folder), entry->d_name, &state, &parent) && parent == self)
            count += visit((pid_t)atol(entry->d_name), data);
    if (folder)
        closedir(folder);
    return count;
}

static bool child_signal(pid_t pid, void *data)
{
    return kill(pid, *(const int *)data) == 0;
}

void shim_trainee_signal(const struct shim_trainee *trainee, int signal_number)
{
    if (signal_number == SIGKILL && trainee->cgroup_kill >= 0 &&
        write(trainee->cgroup_kill, "1", 1) == 1)
        return;
    /* Signals the trainee and every orphan that the shim has inherited; their children become
     * orphans when these are reaped. The process group is signalled at once, before a member can
     * react to another one's end. */
    if (trainee->pid > 0)
        kill(-trainee->pid, signal_number);
    if (trainee->gone || signal_number == SIGKILL)
        shim_children_visit(child_signal, &signal_number);
}

/* ---- all processes --------------------------------------------------------------------------- */

/* Appends the children of the process: each of its threads has a list. */
static int list_children(pid_t pid, pid_t except, pid_t *pids, int count, int limit)
{
    char path[300];
    DIR *tasks;
    struct dirent *task;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    while (tasks && (task = readdir(tasks))) {
        int child;

        if (!isdigit((unsigned char)task->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task->d_name);
        AUTO_FCLOSE FILE *children = fopen(path, "re");
        while (children && fscanf(children, "%d", &child) == 1)
            if (child != except && count < limit)
                pids[count++] = child;
    }
    if (tasks)
        closedir(tasks);
    return count;
}

int shim_trainee_list(const struct shim_trainee *trainee, pid_t *pids, int limit)
{
    int count = list_children(getpid(), trainee->helper, pids, 0, limit);

    for (int i = 0; i < count; i++)
        count = list_children(pids[i], 0, pids, count, limit);
    return count;
}

/* A signal only asks a process to stop. Waits until it has, or has ended; a process that waits for
 * a disk may not obey before `deadline` (clock_monotonic()). */
static void await_stop(pid_t pid, double deadline)
{
    static const struct timespec turn = {.tv_nsec = STOP_TURN_NANOSECONDS};
    char path[32], state;
    pid_t parent;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    while (process_look(AT_FDCWD, path, &state, &parent) && !strchr("TtZX", state) &&
           clock_monotonic() < deadline)
        nanosleep(&turn, NULL);
}

/* A parent has stopped before its children are asked to. A shell that still ran would learn that
 * its program stopped, take that for the person's wish, and leave it in the background. */
static int stop_listed(const struct shim_trainee *trainee, pid_t *pids, double deadline)
{
    int count = list_children(getpid(), trainee->helper, pids, 0, SHIM_PROCESSES_MAX);

    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGSTOP);
        await_stop(pids[i], deadline);
        count = list_children(pids[i], 0, pids, count, SHIM_PROCESSES_MAX);
    }
    return count;
}

/* A process that forks is stopped before or after: then its child is in the next list. So all are
 * stopped once two lists are the same. */
static int stop_all(const struct shim_trainee *trainee)
{
    double deadline = clock_monotonic() + STOP_SECONDS;
    pid_t lists[2][SHIM_PROCESSES_MAX];
    int counts[2] = {stop_listed(trainee, lists[0], deadline), -1};

    for (int i = 1; counts[0] != counts[1] ||
                    memcmp(lists[0], lists[1], (size_t)counts[0] * sizeof(pid_t)) != 0;
         i = !i)
        counts[i] = stop_listed(trainee, lists[i], deadline);
    return counts[0] < SHIM_PROCESSES_MAX ? 0 : -1; /* there may be more of them */
}

/* The children go on first. A shell that finds its program stopped would take that for the person's
 * wish, and leave it in the background. */
static void continue_all(const struct shim_trainee *trainee)
{
    pid_t pids[SHIM_PROCESSES_MAX];

    for (int i = shim_trainee_list(trainee, pids, SHIM_PROCESSES_MAX); i-- > 0;)
        kill(pids[i], SIGCONT);
}

int shim_trainee_freeze(const struct shim_trainee *trainee, bool freeze)
{
    if (trainee->cgroup_freeze >= 0)
        return pwrite(trainee->cgroup_freeze, freeze ? "1" : "0", 1, 0) == 1 ? 0 : -1;
    if (freeze && stop_all(trainee) == 0)
        return 0;
    continue_all(trainee);
    return freeze ? -1 : 0;
}

/* ---- reaping --------------------------------------------------------------------------------- */

bool shim_trainee_reap(struct shim_trainee *trainee)
{
    for (;;) {
        siginfo_t info = {0};
        struct rusage usage;
        int status;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
            if (errno == EINTR)
                continue;
            return trainee->gone; /* ECHILD: no process remains */
        }
        if (info.si_pid == 0)
            break;
        /* Before it is reaped: until then no other process can get its process group's number. */
        if (info.si_pid == trainee->pid)
            kill(-trainee->pid, SIGKILL);
        if (wait4(info.si_pid, &status, 0, &usage) < 0)
            continue;
        if (info.si_pid == trainee->helper) {
            trainee->helper = 0;
            trainee->helper_ended = true;
            trainee->helper_status = status;
            continue;
        }
        trainee->cpu_seconds += (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
        if (usage.ru_maxrss * 1024 > trainee->peak_resident_bytes)
            trainee->peak_resident_bytes = usage.ru_maxrss * 1024;
        if (info.si_pid == trainee->pid) {
            trainee->gone = true;
            trainee->wait_status = status;
            trainee->ended_at = clock_now();
            trainee->pid = 0;
        }
    }
    if (trainee->gone)
        shim_trainee_signal(trainee, SIGKILL);
    return false;
}
