/* checkpoint_download.h: fetches a checkpoint of a job, and the job's specification, for commands
 * that run traind-worker on them. These functions print every error. */
#pragma once

#include "base/sha256.h"
#include "client/command_line/invocation.h"

#include <stdbool.h>
#include <stdint.h>

struct checkpoint_download {
    struct invocation *invocation;
    int64_t id;     /* of the job */
    int descriptor; /* the file that the checkpoint is written to, and its name for messages */
    const char *path;
    int64_t step, received; /* of the checkpoint; bytes of it */
    bool best;              /* it is the best checkpoint */
    struct sha256 hash;
};

/* Downloads the checkpoint of the invocation's --step, else the best or the last one, and compares
 * it with the digest that the daemon stored. */
enum exit_status checkpoint_download_run(struct checkpoint_download *download);

/* Writes the job's specification to an unnamed file that children inherit. -1: not available. */
int specification_download(struct invocation *invocation, int64_t id);
