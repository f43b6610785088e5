/* lease_terminal.h: the person's end of a lease: joins the terminal with the shell of the job. */
#pragma once

#include "client/connection/lease_frames.h"

/* Relays until the other end hangs up. Returns the shell's exit status; -1: it ended without one,
 * because the job was ended. */
int lease_terminal_run(int socket);
