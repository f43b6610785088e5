/* invocation.h: one run of trainctl: its command, options and arguments, where its output goes and
 * the connection that it uses. */
#pragma once

#include "base/error.h"
#include "client/command_line/command.h"
#include "client/command_line/complain.h"
#include "client/view/display.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct varlink_client;

struct option_use {
    const struct command_option *option;
    const char *argument; /* NULL for a flag */
};

struct invocation {
    const struct command *const *commands; /* the table, closed by NULL */
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
enum exit_status invocation_parse(int argc, char **argv, const struct command *const *commands,
                                  struct invocation *invocation);
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
