/* checkpoint_folder.h: gives a command the state that another one has saved
 * (TRAIND_CHECKPOINT_DIRECTORY). */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Replaces what job `to` has saved by a copy of what job `from` has; both are jobs of `uid`, and
 * neither runs. Links are copied as links, pipes and the like are left out, and times stay. A kill
 * leaves the old state or the new one. -ENOENT with a sentence: `from` has saved nothing; other
 * codes: it cannot be copied. The old state stays then. Blocks on the disk. */
int checkpoint_folder_copy(const char *state_directory, int64_t from, int64_t to, uid_t uid,
                           struct error *error);
