/* command.h: the type of a trainctl command: name, arguments, options, help, completion and the
 * function that runs it. Each file of client/commands/ defines one; client/command_table.c lists
 * them. */
#pragma once

#include <stdbool.h>

struct invocation;

/* Exit status of trainctl; documented in trainctl(1). */
enum exit_status {
    EXIT_STATUS_DONE = 0,
    EXIT_STATUS_FAILED = 1,      /* the job failed or was cancelled, or the daemon refused */
    EXIT_STATUS_USAGE = 2,       /* wrong arguments, or a file of the caller is unreadable */
    EXIT_STATUS_UNREACHABLE = 3, /* no daemon answers */
    EXIT_STATUS_DETACHED = 130   /* Ctrl-C while following; the job goes on */
};

/* What the shell's completion offers for an argument (client/commands/complete.c). */
enum completion {
    COMPLETE_NOTHING = 0,
    COMPLETE_FILES,
    COMPLETE_PRESETS,      /* their names, with "+" between them */
    COMPLETE_SPECS,        /* files, and presets where no file begins so */
    COMPLETE_JOBS,         /* numbers of the newest jobs, and names of the caller's */
    COMPLETE_DEVICES,      /* their names */
    COMPLETE_STATES,       /* of jobs; completes the last of a list */
    COMPLETE_ENDED_STATES, /* of jobs that have ended */
    COMPLETE_KEYS,         /* of a specification */
    COMPLETE_ASSIGNMENTS,  /* the same, each followed by "=" */
    COMPLETE_TOPICS        /* of `trainctl help` */
};

struct command_option {
    const char *name;     /* long name, without dashes; NULL closes a list */
    char letter;          /* short name or 0 */
    const char *argument; /* its value in the help; NULL for a flag, "[=VALUE]" if it is optional */
    const char *help;
    enum completion completion; /* of its value */
};

struct command {
    const char *name;
    int place;                            /* position in the overview, ascending */
    const char *arguments;                /* names in the help; NULL: none */
    const char *summary;                  /* one line without a full stop */
    const char *details;                  /* paragraphs for `help COMMAND`, NULL for none */
    const struct command_option *options; /* NULL for none */
    int minimum, maximum;                 /* number of arguments; maximum -1 for any number */
    bool ends_at_argument;      /* the first argument begins a command line with its own options */
    bool hidden;                /* left out of the help: only programs use it */
    bool reads_input;           /* standard input, also where no argument is "-" */
    bool fills_screen;          /* of the terminal, by sequences that must be undone */
    enum completion completion; /* of its arguments */
    const char *words; /* that completion offers instead, separated by blanks; NULL: none */
    enum exit_status (*execute)(struct invocation *invocation);
};

/* Whether the option has a value that may be left out: "--name" or "--name=VALUE". */
bool command_option_is_optional(const struct command_option *option);

/* The options of every command. */
extern const struct command_option command_common_options[];

/* `commands`: the table, which ends with NULL. */
const struct command *command_find(const struct command *const *commands, const char *name);
/* The command nearest to a misspelt name; NULL: none is near. */
const char *command_nearest(const struct command *const *commands, const char *name);
