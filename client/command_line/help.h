/* help.h: the help of trainctl, written from the table of its commands. */
#pragma once

#include "client/command_line/command.h"

#include <stdio.h>

/* Help for one command, or for NULL the overview of `commands`, which NULL closes. */
void help_print(const struct command *const *commands, const struct command *command, FILE *output);
