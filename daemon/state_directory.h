/* state_directory.h: the folder that holds everything the daemon keeps. */
#pragma once

#include "base/error.h"

/* Makes the folder with its missing parents, and its jobs/ (0711: users must reach their own
 * folders below), and locks it. `*lock` is a descriptor that the caller keeps open. -EBUSY if
 * another daemon has locked it. */
int state_directory_open(const char *path, int *lock, struct error *error);

/* Makes the folder and its missing parents with `mode`, like mkdir -p. */
int directory_make(const char *path, unsigned mode, struct error *error);
