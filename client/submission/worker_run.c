/* worker_run.c: see worker_run.h. Three unnamed files carry the specification to the worker, and
 * its output and its errors back. */
#include "client/submission/worker_run.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OUTPUT_BYTES_MAX = 64 * 1024 * 1024, /* tables may have many columns */
    SPEC_DESCRIPTOR = 3,
    ARGUMENTS_MAX = 16
};

/* The worker's input and output. */
struct run {
    int spec, output, errors; /* unnamed files */
};

/* A library may crash where it gets no memory, so a limit of the shell is told. Data are mapped, so
 * a file that another program cuts meanwhile is a bus error. */
static int report_signal(int number, const char *line, struct error *error)
{
    struct rlimit limit;
    char text[128] = "", bytes[48];

    if (number == SIGBUS)
        snprintf(text, sizeof text,
                 "; a file of the data may have become shorter while it was read");
    else if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "; memory is limited to %s here (ulimit -v), maybe too little",
                 text_format_bytes(limit.rlim_cur, bytes, sizeof bytes));
    return error_set(error, -EIO, "traind-worker was ended by signal %d (%s)%s%s%s", number,
                     strsignal(number), text, *line ? "; it said: " : "", line);
}

/* The last line that the worker wrote on standard error, without the program's name. */
static int failure_read(const struct run *run, int status, struct error *error)
{
    static const char prefix[] = "traind-worker: ";
    char text[ERROR_TEXT_MAX];
    ssize_t length = pread(run->errors, text, sizeof text - 1, 0);
    char *line, *end;

    text[length > 0 ? length : 0] = '\0';
    for (end = text + strlen(text); end > text && end[-1] == '\n';)
        *--end = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        line += sizeof prefix - 1;
    if (WIFSIGNALED(status))
        return report_signal(WTERMSIG(status), line, error);
    if (*line)
        return error_set(error, -EINVAL, "%s", line);
    return error_set(error, -EIO, "traind-worker ended with status %d", WEXITSTATUS(status));
}

/* In the child: standard output, standard error and the specification take their places. */
static _Noreturn void worker_become(const char *program, char **words, const struct run *run,
                                    pid_t parent)
{
    /* nobody would read what it finds */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    if (dup2(run->output, STDOUT_FILENO) < 0 || dup2(run->errors, STDERR_FILENO) < 0 ||
        dup2(run->spec, SPEC_DESCRIPTOR) < 0 || fcntl(SPEC_DESCRIPTOR, F_SETFD, 0) < 0)
        _exit(EXIT_FAILURE);
    execv(program, words);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", program, strerror(errno));
    _exit(EXIT_FAILURE);
}

static int worker_spawn(const char *program, const char *const *arguments, const struct run *run,
                        pid_t *pid)
{
    char *words[ARGUMENTS_MAX] = {(char *)"traind-worker"};
    pid_t parent = getpid();

    for (int i = 0; arguments[i] && i + 2 < ARGUMENTS_MAX; i++)
        words[i + 1] = (char *)arguments[i];
    if (access(program, X_OK) < 0)
        return -errno;
    *pid = fork();
    if (*pid == 0)
        worker_become(program, words, run, parent);
    return *pid < 0 ? -errno : 0;
}

/* Whether the worker has printed what it found, and no reason why it could not. */
static bool has_report(const struct run *run)
{
    return lseek(run->output, 0, SEEK_END) > 0 && lseek(run->errors, 0, SEEK_END) == 0;
}

static int output_read(const struct run *run, struct json_object **output, struct error *error)
{
    off_t size = lseek(run->output, 0, SEEK_END);
    char path[32], bytes[48];

    if (size > OUTPUT_BYTES_MAX)
        return error_set(error, -EFBIG,
                         "what traind-worker found has %s, and trainctl takes %d MiB; "
                         "traind-worker itself prints all of it",
                         text_format_bytes((uint64_t)size, bytes, sizeof bytes),
                         OUTPUT_BYTES_MAX >> 20);

    snprintf(path, sizeof path, "/dev/fd/%d", run->output);
    return json_parse_file(path, OUTPUT_BYTES_MAX, output, error);
}

static int program_run(const char *program, const char *const *arguments, const struct run *run,
                       struct json_object **output, struct error *error)
{
    pid_t pid = -1;
    int status, result = worker_spawn(program, arguments, run, &pid);

    if (result == -ENOENT)
        return error_set(error, result,
                         "there is no traind-worker at %s: it comes with traind; run this on the "
                         "machine that has it (trainctl -H HOST …)",
                         program);
    if (result < 0)
        return error_set_errno(error, result, "cannot start %s", program);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(error, -errno, "cannot wait for traind-worker");
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !has_report(run)))
        return failure_read(run, status, error);
    return output_read(run, output, error);
}

int worker_run(const char *const *arguments, struct json_object *spec, struct json_object **output,
               struct error *error)
{
    AUTO_FREE char *program = file_beside_program("traind-worker");
    AUTO_CLOSE int spec_file = memfd_create("specification", MFD_CLOEXEC);
    AUTO_CLOSE int output_file = memfd_create("output", MFD_CLOEXEC);
    AUTO_CLOSE int errors = memfd_create("errors", MFD_CLOEXEC);
    size_t length = 0;
    const char *text = spec ? json_text(spec, &length) : "";
    struct run run = {.spec = spec_file, .output = output_file, .errors = errors};
    int result;

    if (!program || spec_file < 0 || output_file < 0 || errors < 0)
        return error_set_errno(error, -errno, "cannot run traind-worker");
    result = json_check_text(text, length, error);
    if (result < 0)
        return result;
    result = file_write_all(spec_file, text, length);
    if (result < 0)
        return error_set_errno(error, result, "cannot hand the specification on");
    return program_run(program, arguments, &run, output, error);
}
