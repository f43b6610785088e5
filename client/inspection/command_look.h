/* command_look.h: takes a quick look at a command, to tell whether it will use a GPU. It reads
 * Python sources, shell scripts and programs, as the calling user, and runs nothing. All it reads
 * is bounded: files, bytes and time. */
#pragma once

#include "proto/json.h"

enum command_look_use {
    COMMAND_LOOK_UNKNOWN, /* not all of it could be seen */
    COMMAND_LOOK_NO_GPU,
    COMMAND_LOOK_GPU
};

enum { COMMAND_LOOK_REASON_MAX = 160 };

struct command_look {
    enum command_look_use use;
    char reason[COMMAND_LOOK_REASON_MAX]; /* printable UTF-8, for the beginning of a sentence:
                                           * "train.py imports torch"; "" if unknown */
};

/* Looks at the command of a specification, which need not be normalised. Reads its keys command,
 * directory, environment and shell_environment; for an absent variable, that of this process. */
void command_look(struct json_object *spec, struct command_look *look);
