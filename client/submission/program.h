/* program.h: runs another program and takes its output. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Starts a program, found by PATH, with `input` as its standard input (-1: /dev/null) and, unless
 * NULL, NAME=VALUE added to its environment. Its messages go to standard error, or nowhere if it is
 * `quiet`. Sets `*output` to a descriptor of its standard output, which the caller closes before
 * program_wait(). -ENOENT: it is not installed. */
int program_start(const char *const *arguments, const char *variable, int input, bool quiet,
                  int *output, pid_t *pid, struct error *error);
/* Waits for its end. Returns its exit status, or 128 and the number of the signal that ended it. */
int program_wait(pid_t pid);

/* Runs a program and reads its whole output, with a NUL behind its end; the caller frees it.
 * Returns the exit status, or a negative errno. */
int program_read(const char *const *arguments, const char *variable, char **output, size_t *size,
                 struct error *error);

/* Runs a program that has failed once more, without its output, so that it says on standard error
 * why it fails. */
void program_complain(const char *const *arguments, const char *variable);
