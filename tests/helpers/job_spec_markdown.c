/* job_spec_markdown.c: prints docs/job-spec.md, or with the argument `text` what `trainctl help
 * spec` prints on a terminal. */
#include "proto/job_spec.h"

#include <string.h>

int main(int argument_count, char **arguments)
{
    bool text = argument_count > 1 && strcmp(arguments[1], "text") == 0;

    job_spec_print_help(text ? JOB_SPEC_HELP_TEXT : JOB_SPEC_HELP_MARKDOWN, stdout);
    return 0;
}
