/* trainctl_main.c: the client's main(). It parses the command line and runs the command from the
 * table. */
#include "base/file.h"
#include "client/command_line/help.h"
#include "client/command_line/invocation.h"
#include "client/command_table.h"
#include "client/connection/remote.h"

#include <errno.h>
#include <string.h>

static enum exit_status dispatch(struct invocation *invocation)
{
    const char *host = invocation_option(invocation, "host");

    if (invocation_flag(invocation, "help")) {
        help_print(invocation->commands, invocation->command, stdout);
        return EXIT_STATUS_DONE;
    }
    if (invocation_flag(invocation, "version")) {
        puts("trainctl " TRAIND_VERSION);
        return EXIT_STATUS_DONE;
    }
    if (!invocation->command) {
        help_print(invocation->commands, NULL, stderr);
        return EXIT_STATUS_USAGE;
    }
    if (host)
        return remote_run(invocation, host);
    return invocation->command->execute(invocation);
}

int main(int argc, char **argv)
{
    struct invocation invocation = {0};
    enum exit_status status;

    file_fill_standard();
    display_set_locale();
    status = invocation_parse(argc, argv, command_table(), &invocation);
    if (!status)
        status = dispatch(&invocation);
    invocation_release(&invocation);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain("cannot write the output: %s", strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    return (int)status;
}
