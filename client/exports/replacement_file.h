/* replacement_file.h: a file that is written beside its destination and takes its place when it is
 * whole. A signal that ends trainctl removes what was written. */
#pragma once

#include "client/command_line/command.h"

struct replacement_file {
    const char *path; /* the destination; borrowed */
    char *temporary;  /* beside it; owned */
    int descriptor;   /* of the temporary file; -1: closed */
};

/* Both print every error. One file at a time may be open. */
enum exit_status replacement_file_open(struct replacement_file *file, const char *path);
/* Syncs the file, gives it the mode of the user's other files, and lets it replace the
 * destination. */
enum exit_status replacement_file_finish(struct replacement_file *file);
/* Removes the temporary file if it has not become the result, and closes. */
void replacement_file_close(struct replacement_file *file);
