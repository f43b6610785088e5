/* command.h: what a command of trainctl is, and one invocation of it: its options, its arguments,
 * where its output goes and the connection it uses. The table of commands is in commands.c. */
#pragma once

#include "base/error.h"
#include "client/view/display.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct varlink_client;

/* Exit status of trainctl; documented in trainctl(1). */
enum exit_status {
    EXIT_STATUS_DONE = 0,
    EXIT_STATUS_FAILED = 1,      /* the job failed or was cancelled, or the daemon refused */
    EXIT_STATUS_USAGE = 2,       /* wrong arguments, or a file of the caller that cannot be read */
    EXIT_STATUS_UNREACHABLE = 3, /* no daemon answers */
    EXIT_STATUS_DETACHED = 130   /* Ctrl-C while following: the job goes on */
};

struct command_option {
    const char *name;     /* long name, without dashes; NULL closes a list */
    char letter;          /* short name or 0 */
    const char *argument; /* what follows it, as help shows it; NULL for a flag */
    const char *help;
};

struct invocation;

struct command {
    const char *name;
    const char *arguments; /* as help shows them */
    const char *summary;   /* one line without a full stop */
    const char *details;   /* paragraphs for `help COMMAND`, NULL for none */
    const struct command_option *options;
    int minimum, maximum;  /* number of arguments; maximum -1 for any number */
    bool ends_at_argument; /* options end at the first argument: the rest is a command line */
    bool hidden;           /* not for people */
    enum exit_status (*function)(struct invocation *invocation);
};

extern const struct command commands[]; /* closed by a NULL name */
extern const struct command_option common_options[];

const struct command *command_find(const char *name);
/* The nearest command to a misspelt name, NULL when none is near. */
const char *command_nearest(const char *name);

struct option_use {
    const struct command_option *option;
    const char *argument; /* NULL for a flag */
};

struct invocation {
    const struct command *command;
    struct option_use *options; /* in the order given */
    size_t option_count;
    char **arguments; /* borrowed from argv */
    size_t argument_count;
    struct display output; /* standard output */
    bool json;
    char *socket; /* chosen at the first connection */
    struct varlink_client *client;
};

/* Parses `trainctl [OPTION…] COMMAND [OPTION…] [ARGUMENT…]`. What is wrong is said on standard
 * error, EXIT_STATUS_USAGE returned. Without a command `invocation->command` stays NULL. Release
 * the invocation in any case. */
enum exit_status invocation_parse(int argc, char **argv, struct invocation *invocation);
void invocation_release(struct invocation *invocation);

bool invocation_flag(const struct invocation *invocation, const char *name);
/* The last argument given for the option, NULL when it was not. */
const char *invocation_option(const struct invocation *invocation, const char *name);
/* Each argument of an option that may be repeated; `*position` starts at 0, NULL after the last. */
const char *invocation_option_next(const struct invocation *invocation, const char *name,
                                   size_t *position);
/* An option that is an integer of at least `minimum`; `*value` keeps its content when it is not
 * given. */
enum exit_status invocation_option_integer(const struct invocation *invocation, const char *name,
                                           int64_t minimum, int64_t *value);

/* Runs the same command on another machine through ssh; returns only when that cannot be started.
 */
enum exit_status invocation_run_remotely(const struct invocation *invocation, const char *host);

/* "trainctl: <sentence>" on standard error, control characters escaped. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The commands, one file each. */
enum exit_status command_bench(struct invocation *invocation);
enum exit_status command_cancel(struct invocation *invocation);
enum exit_status command_checkpoints(struct invocation *invocation);
enum exit_status command_clean(struct invocation *invocation);
enum exit_status command_compare(struct invocation *invocation);
enum exit_status command_complete(struct invocation *invocation);
enum exit_status command_devices(struct invocation *invocation);
enum exit_status command_queue(struct invocation *invocation);
enum exit_status command_df(struct invocation *invocation);
enum exit_status command_drain(struct invocation *invocation);
enum exit_status command_explain(struct invocation *invocation);
enum exit_status command_export(struct invocation *invocation);
enum exit_status command_group(struct invocation *invocation);
enum exit_status command_help(struct invocation *invocation);
enum exit_status command_hold(struct invocation *invocation);
enum exit_status command_list(struct invocation *invocation);
enum exit_status command_logs(struct invocation *invocation);
enum exit_status command_metrics(struct invocation *invocation);
enum exit_status command_move(struct invocation *invocation);
enum exit_status command_pause(struct invocation *invocation);
enum exit_status command_ping(struct invocation *invocation);
enum exit_status command_plan(struct invocation *invocation);
enum exit_status command_profile(struct invocation *invocation);
enum exit_status command_release(struct invocation *invocation);
enum exit_status command_report(struct invocation *invocation);
enum exit_status command_requeue(struct invocation *invocation);
enum exit_status command_resubmit(struct invocation *invocation);
enum exit_status command_resume(struct invocation *invocation);
enum exit_status command_rm(struct invocation *invocation);
enum exit_status command_run(struct invocation *invocation);
enum exit_status command_show(struct invocation *invocation);
enum exit_status command_submit(struct invocation *invocation);
enum exit_status command_top(struct invocation *invocation);
enum exit_status command_undrain(struct invocation *invocation);
enum exit_status command_wait(struct invocation *invocation);

/* Help for one command, or the overview for NULL. */
void help_print(const struct command *command, FILE *output);
