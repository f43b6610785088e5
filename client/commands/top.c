/* top.c: `trainctl top` shows devices and jobs live, and acts on them by keys; with --json it
 * prints a line for each picture. */
#include "client/top/top.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    if (!invocation->json && !invocation->output.terminal) {
        complain("top draws on a terminal; `trainctl list` and `trainctl devices` print once, "
                 "--json prints a line for every change");
        return EXIT_STATUS_USAGE;
    }
    if (!invocation->json && !screen_is_able()) {
        complain("top places the cursor, which this terminal cannot (TERM is %s); `trainctl list` "
                 "and `trainctl devices` print once",
                 screen_terminal_name());
        return EXIT_STATUS_USAGE;
    }
    return top_run(invocation);
}

const struct command command_top = {
    .fills_screen = true,
    .name = "top",
    .place = 300,
    .summary = "Watch devices and jobs live, and act on them; q or Ctrl-C ends",
    .details =
        "Curves show how busy each device was and how much of its memory was taken: what the daemon "
        "has sampled, and\nwhat came since. Keys act on the selected job: c cancels it, p pauses, "
        "r resumes, m moves it, + and - change\nits priority. / filters, s sorts, ? lists all "
        "keys. A click selects, the wheel scrolls.",
    .execute = command_execute,
};
