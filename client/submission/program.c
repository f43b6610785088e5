/* program.c: see program.h. */
#include "client/submission/program.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment with one variable more; the caller frees the array alone. */
static char **environment_with(const char *variable)
{
    size_t count = 0, kept = 0, name = strcspn(variable, "=") + 1;
    char **made;

    while (environ[count])
        count++;
    made = calloc(count + 2, sizeof *made);
    if (!made)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], variable, name) != 0)
            made[kept++] = environ[i];
    made[kept] = (char *)variable;
    return made;
}

int program_start(const char *const *arguments, const char *variable, int input, bool quiet,
                  int *output, pid_t *pid, struct error *error)
{
    AUTO_FREE char **environment = variable ? environment_with(variable) : NULL;
    posix_spawn_file_actions_t actions;
    int pipe_ends[2], code;

    if (variable && !environment)
        return error_no_memory(error, "the environment of %s", arguments[0]);
    if (pipe2(pipe_ends, O_CLOEXEC) < 0)
        return error_set_errno(error, -errno, "cannot start %s", arguments[0]);
    posix_spawn_file_actions_init(&actions);
    if (input >= 0)
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (quiet)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    code = posix_spawnp(pid, arguments[0], &actions, NULL, (char *const *)arguments,
                        environment ? environment : environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    if (code) {
        close(pipe_ends[0]);
        return error_set_errno(error, -code, "cannot start %s, which --snapshot needs",
                               arguments[0]);
    }
    *output = pipe_ends[0];
    return 0;
}

int program_wait(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int program_read(const char *const *arguments, const char *variable, char **output, size_t *size,
                 struct error *error)
{
    AUTO_CLOSE int pipe_end = -1;
    AUTO_FREE char *text = NULL;
    size_t used = 0, room = 0;
    pid_t pid = -1;
    int result = program_start(arguments, variable, -1, true, &pipe_end, &pid, error);

    while (result == 0) {
        ssize_t got;

        if (room - used < 2) {
            char *grown = realloc(text, room = room ? 2 * room : 4096);

            if (!grown) {
                result = error_no_memory(error, "the output of %s", arguments[0]);
                break;
            }
            text = grown;
        }
        got = read(pipe_end, text + used, room - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (!text)
        return result < 0 ? result : -EIO;
    text[used] = '\0';
    close(TAKE_DESCRIPTOR(pipe_end)); /* it ends, if it writes on */
    if (result == 0) {
        *output = TAKE_POINTER(text);
        *size = used;
        return program_wait(pid);
    }
    program_wait(pid);
    return result;
}

void program_complain(const char *const *arguments, const char *variable)
{
    AUTO_CLOSE int output = -1;
    char unused[4096];
    pid_t pid;
    ssize_t got;

    if (program_start(arguments, variable, -1, false, &output, &pid, NULL) < 0)
        return;
    do
        got = read(output, unused, sizeof unused);
    while (got > 0 || (got < 0 && errno == EINTR));
    program_wait(pid);
}
