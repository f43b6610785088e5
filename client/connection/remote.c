/* remote.c: `trainctl -H [USER@]HOST …` runs the same command on another machine through ssh. It
 * uses that machine's files and directories, and this one's standard input and output. */
#include "client/connection/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
    SSH_FAILED = 255, /* ssh's exit status if it cannot connect, or the connection breaks */
    NOT_FOUND = 127   /* a shell's where there is no such program */
};

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

/* Hands on what the person says of the output, which ssh does not. `env` sets variables whatever
 * the shell there is. */
static void line_add_environment(FILE *line)
{
    static const char *const names[] = {"NO_COLOR", "COLUMNS"};
    bool begun = false;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        AUTO_FREE char *word = NULL;

        if (!value || !*value || asprintf(&word, "%s=%s", names[i], value) < 0)
            continue;
        if (!begun)
            fputs("env", line);
        begun = true;
        line_add_word(line, word);
    }
    if (begun)
        fputc(' ', line);
}

static void line_add_options(FILE *line, const struct invocation *invocation)
{
    for (size_t i = 0; i < invocation->option_count; i++) {
        const struct option_use *use = &invocation->options[i];
        AUTO_FREE char *word = NULL;

        if (strcmp(use->option->name, "host") == 0)
            continue;
        if (asprintf(&word, "--%s%s%s", use->option->name, use->argument ? "=" : "",
                     use->argument ? use->argument : "") >= 0)
            line_add_word(line, word);
    }
}

/* The command line for the remote shell. The caller frees it. */
static char *line_make(const struct invocation *invocation)
{
    char *text = NULL;
    size_t size;
    FILE *line = open_memstream(&text, &size);

    if (!line)
        return NULL;
    line_add_environment(line);
    fputs("trainctl", line);
    if (invocation->command)
        line_add_word(line, invocation->command->name);
    line_add_options(line, invocation);
    /* only where it stood here: to `plan` it says that a command line follows */
    if (invocation->arguments_are_marked)
        fputs(" --", line);
    for (size_t i = 0; i < invocation->argument_count; i++)
        line_add_word(line, invocation->arguments[i]);
    if (fclose(line) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool names_input(const char *text)
{
    return text && (strcmp(text, "-") == 0 || strcmp(text, "/dev/stdin") == 0);
}

/* Whether the command reads standard input. ssh would take it from others that read it after this
 * program, such as the rest of a shell's loop. */
static bool reads_input(const struct invocation *invocation)
{
    if (invocation->command && invocation->command->reads_input)
        return true;
    for (size_t i = 0; i < invocation->argument_count; i++)
        if (names_input(invocation->arguments[i]))
            return true;
    for (size_t i = 0; i < invocation->option_count; i++)
        if (names_input(invocation->options[i].argument))
            return true;
    return false;
}

/* Runs ssh in place of this process. */
static void __attribute__((noreturn))
ssh_run(const struct invocation *invocation, const char *host, const char *line, bool terminal)
{
    const char *kind = terminal ? "-t" : reads_input(invocation) ? "-T" : "-nT";

    signal(SIGINT, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execlp("ssh", "ssh", kind, "--", host, line, (char *)NULL);
    complain("cannot run ssh: %s; install the package openssh-client", strerror(errno));
    _exit(SSH_FAILED);
}

/* Undoes what the command did to the terminal, where the connection broke before it could. */
static void terminal_restore(const struct invocation *invocation, const struct termios *before)
{
    if (invocation->command && invocation->command->fills_screen) {
        fputs(DISPLAY_SCREEN_END, stdout);
        fflush(stdout);
    }
    tcsetattr(STDIN_FILENO, TCSADRAIN, before);
}

enum exit_status remote_run(const struct invocation *invocation, const char *host)
{
    AUTO_FREE char *line = line_make(invocation);
    struct termios before;
    bool terminal =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    int wait_status, status;
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
    if (child == 0)
        ssh_run(invocation, host, line, terminal);
    if (child < 0) {
        complain("cannot start ssh: %s", strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        ;
    status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (terminal && (status == SSH_FAILED || !WIFEXITED(wait_status)))
        terminal_restore(invocation, &before);
    if (WIFEXITED(wait_status) && status == NOT_FOUND)
        complain("there is no trainctl on %s in the PATH of commands that ssh runs", host);
    /* ssh has printed the reason */
    return WIFEXITED(wait_status) && status == SSH_FAILED ? EXIT_STATUS_UNREACHABLE
                                                          : (enum exit_status)status;
}
