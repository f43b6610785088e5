/* command_table.h: all commands of trainctl. */
#pragma once

#include "client/command_line/command.h"

/* Closed by NULL, in the order of the overview. */
const struct command *const *command_table(void);
