/* command.h: what a command of trainctl is: its name, arguments, options, help, completion and the
 * function that runs it. Each file of client/commands/ defines one; client/command_table.c collects
 * them. */
#pragma once

#include <stdbool.h>

struct invocation;

/* Exit status of trainctl; documented in trainctl(1). */
enum exit_status {
    EXIT_STATUS_DONE = 0,
    EXIT_STATUS_FAILED = 1,      /* the job failed or was cancelled, or the daemon refused */
    EXIT_STATUS_USAGE = 2,       /* wrong arguments, or a file of the caller that cannot be read */
    EXIT_STATUS_UNREACHABLE = 3, /* no daemon answers */
    EXIT_STATUS_DETACHED = 130   /* Ctrl-C while following: the job goes on */
};

/* What the shell's completion offers for an argument (client/commands/complete.c). */
enum completion {
    COMPLETE_NOTHING = 0,
    COMPLETE_FILES,
    COMPLETE_JOBS,         /* numbers of the newest, and names of the caller's own */
    COMPLETE_DEVICES,      /* their names */
    COMPLETE_STATES,       /* of jobs; the last of a list */
    COMPLETE_ENDED_STATES, /* of jobs that have ended */
    COMPLETE_KEYS,         /* of a specification */
    COMPLETE_ASSIGNMENTS,  /* the same, each followed by "=" */
    COMPLETE_TOPICS        /* of `trainctl help` */
};

struct command_option {
    const char *name;     /* long name, without dashes; NULL closes a list */
    char letter;          /* short name or 0 */
    const char *argument; /* what follows it, as help shows it; NULL for a flag */
    const char *help;
    enum completion completion; /* of its argument */
};

struct command {
    const char *name;
    int place;             /* in the overview, which shows commands in ascending order */
    const char *arguments; /* as help shows them; NULL for none */
    const char *summary;   /* one line without a full stop */
    const char *details;   /* paragraphs for `help COMMAND`, NULL for none */
    const struct command_option *options; /* NULL for none */
    int minimum, maximum;                 /* number of arguments; maximum -1 for any number */
    bool ends_at_argument;      /* options end at the first argument: the rest is a command line */
    bool hidden;                /* not for people */
    enum completion completion; /* of its arguments */
    const char *words; /* blank-separated, which completion offers instead; NULL for none */
    enum exit_status (*execute)(struct invocation *invocation);
};

/* The options of every command. */
extern const struct command_option command_common_options[];

/* `commands`: the table, closed by NULL. */
const struct command *command_find(const struct command *const *commands, const char *name);
/* The nearest command to a misspelt name, NULL when none is near. */
const char *command_nearest(const struct command *const *commands, const char *name);
