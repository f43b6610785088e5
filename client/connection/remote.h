/* remote.h: `trainctl -H [USER@]HOST …` runs the same command on another machine. */
#pragma once

#include "client/command_line/invocation.h"

/* Runs the command there through ssh and returns its exit status. */
enum exit_status remote_run(const struct invocation *invocation, const char *host);
