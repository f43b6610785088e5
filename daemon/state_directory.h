/* state_directory.h: the folder that holds everything the daemon keeps. */
#pragma once

#include "base/error.h"

/* Makes the folder and its jobs/ (0711: users' jobs reach their own folders below) with what is
 * missing above it, and locks it. `*lock` is a descriptor to keep open. -EBUSY when another daemon
 * has it. */
int state_directory_open(const char *path, int *lock, struct error *error);

/* mkdir -p; what is made gets `mode`. */
int directory_make(const char *path, unsigned mode, struct error *error);
