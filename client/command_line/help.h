/* help.h: prints the help of trainctl from the table of its commands. */
#pragma once

#include "client/command_line/command.h"

#include <stdio.h>

/* Prints the help of one command; with `command` NULL, the overview of `commands`, which ends with
 * NULL. */
void help_print(const struct command *const *commands, const struct command *command, FILE *output);
