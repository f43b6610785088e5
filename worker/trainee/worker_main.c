/* worker_main.c: traind-worker, the program that trains. It links the engine; of the daemon it
 * knows only the attempt's folder. Every sub-command can also be run by hand. */
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "worker/trainee/worker_device.h"
#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage_error(const char *message)
{
    fprintf(stderr, "traind-worker: %s\n", message);
    return EXIT_USAGE;
}

static int unknown_command(const char *name)
{
    const char *names[16], *nearest;
    char message[256];

    for (int i = 0; i < worker_command_count; i++)
        names[i] = worker_commands[i].name;
    nearest = text_nearest(name, names, (size_t)worker_command_count);
    snprintf(message, sizeof message, "no such command: %.64s%s%s%s", name,
             nearest ? ", did you mean " : "; see traind-worker --help", nearest ? nearest : "",
             nearest ? "?" : "");
    return usage_error(message);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* What a command prints is its result, so a full disk is a failure. Of a training the checkpoints
 * are the result, and it goes on without a terminal. */
static int output_finish(const char *command, int status)
{
    static const char *const silent[] = {"train", "warm", "mps"};

    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (strcmp(command, silent[i]) == 0)
            return status;
    errno = 0;
    if (status != EXIT_SUCCESS || (fflush(stdout) == 0 && !ferror(stdout)))
        return status;
    fprintf(stderr, "traind-worker: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct worker_options options;
    struct error error;
    int status;

    file_fill_standard();
    log_configure("traind-worker", LOG_LEVEL_INFO);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        worker_options_help();
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || asks_for_help(argc, argv)) {
        worker_options_help();
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("traind-worker " TRAIND_VERSION "\n");
        return EXIT_SUCCESS;
    }
    for (int i = 0; i < worker_command_count; i++) {
        if (strcmp(worker_commands[i].name, argv[1]) != 0)
            continue;
        if (worker_options_parse(&worker_commands[i], argc, argv, &options, &error) < 0)
            return usage_error(error.text);
        if (worker_signals_begin(&error) < 0) {
            fprintf(stderr, "traind-worker: %s\n", error.text);
            return EXIT_FAILURE;
        }
        status = output_finish(argv[1], worker_commands[i].run(&options));
        if (worker_device_hangs()) {
            fflush(NULL);
            _exit(status);
        }
        return status;
    }
    return unknown_command(argv[1]);
}
