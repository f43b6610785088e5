/* command_table.h: all commands of trainctl. */
#pragma once

#include "client/command_line/command.h"

/* The table in the order of the overview; it ends with NULL. */
const struct command *const *command_table(void);
