/* invocation.h: one run of trainctl: its command, options, arguments, output and connection. */
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
    const struct command *const *commands; /* the table, which ends with NULL */
    const struct command *command;
    struct option_use *options; /* in the order given */
    size_t option_count;
    char **arguments; /* borrowed from argv */
    size_t argument_count;
    bool arguments_are_marked; /* "--" stood before them */
    struct display output;     /* standard output */
    bool json;
    char *socket; /* owned; chosen at the first connection */
    struct varlink_client *client;
};

/* Parses `trainctl [OPTION…] COMMAND [OPTION…] [ARGUMENT…]`. On failure prints a sentence and
 * returns EXIT_STATUS_USAGE. Without a command `invocation->command` stays NULL. The caller
 * releases the invocation in both cases. */
enum exit_status invocation_parse(int argc, char **argv, const struct command *const *commands,
                                  struct invocation *invocation);
void invocation_release(struct invocation *invocation);

bool invocation_flag(const struct invocation *invocation, const char *name);
/* The last value given for the option; NULL: it was not given. */
const char *invocation_option(const struct invocation *invocation, const char *name);
/* The next value of a repeatable option; `*position` starts at 0. NULL: there are no more. */
const char *invocation_option_next(const struct invocation *invocation, const char *name,
                                   size_t *position);
/* The words of all uses of an option whose values are separated by commas, as a JSON array that the
 * caller owns; NULL: it was not given. */
struct json_object *invocation_option_words(const struct invocation *invocation, const char *name);
/* Reads an option whose value is an integer of at least `minimum`. `*value` does not change if the
 * option is not given. */
enum exit_status invocation_option_integer(const struct invocation *invocation, const char *name,
                                           int64_t minimum, int64_t *value);
