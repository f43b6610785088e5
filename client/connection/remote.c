/* remote.c: `trainctl -H [USER@]HOST …` runs the same command on another machine through ssh. It
 * uses that machine's files and directories, and this one's standard input and output. */
#include "client/connection/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SSH_FAILED = 255 }; /* ssh's exit status if it cannot connect */

/* Appends `text` to `*line` as one word of a POSIX shell. */
static bool line_add_word(FILE *line, const char *text)
{
    fputs(" '", line);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", line);
        else
            fputc(*text, line);
    }
    fputc('\'', line);
    return !ferror(line);
}

/* The command line for the remote shell. The caller frees it. */
static char *line_make(const struct invocation *invocation)
{
    char *text = NULL;
    size_t size;
    FILE *line = open_memstream(&text, &size);

    if (!line)
        return NULL;
    fputs("trainctl", line);
    if (invocation->command)
        line_add_word(line, invocation->command->name);
    for (size_t i = 0; i < invocation->option_count; i++) {
        const struct option_use *use = &invocation->options[i];
        char *word;

        if (strcmp(use->option->name, "host") == 0)
            continue;
        if (asprintf(&word, "--%s%s%s", use->option->name, use->argument ? "=" : "",
                     use->argument ? use->argument : "") < 0)
            continue;
        line_add_word(line, word);
        free(word);
    }
    fputs(" --", line);
    for (size_t i = 0; i < invocation->argument_count; i++)
        line_add_word(line, invocation->arguments[i]);
    if (fclose(line) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

enum exit_status remote_run(const struct invocation *invocation, const char *host)
{
    AUTO_FREE char *line = line_make(invocation);
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    int wait_status;
    pid_t child;

    if (!line) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    if (!*host || *host == '-') {
        complain("--host=%s: the name of a machine, or user@machine, is expected", host);
        return EXIT_STATUS_USAGE;
    }
    signal(SIGINT, SIG_IGN); /* Ctrl-C is for the remote command: ssh forwards it, or ends */
    child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execlp("ssh", "ssh", terminal ? "-t" : "-T", "--", host, line, (char *)NULL);
        complain("cannot run ssh: %s; install the package openssh-client", strerror(errno));
        _exit(SSH_FAILED);
    }
    if (child < 0) {
        complain("cannot start ssh: %s", strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(wait_status))
        return (enum exit_status)(128 + WTERMSIG(wait_status));
    /* ssh has printed the reason */
    return WEXITSTATUS(wait_status) == SSH_FAILED ? EXIT_STATUS_UNREACHABLE
                                                  : (enum exit_status)WEXITSTATUS(wait_status);
}
