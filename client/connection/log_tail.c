/* log_tail.c: see log_tail.h. */
#include "client/connection/log_tail.h"

#include "client/connection/connection.h"
#include "client/view/job.h"

#include <string.h>

enum { BYTES_PER_LINE = 1024, TAIL_BYTES_MAX = 1024 * 1024 };

/* The beginning of the last `lines` lines of the text. */
static const char *last_lines(const char *text, int64_t lines)
{
    const char *at = text + strlen(text);

    if (at > text && at[-1] == '\n')
        at--;
    while (at > text) {
        if (at[-1] == '\n' && --lines == 0)
            break;
        at--;
    }
    return at;
}

bool log_tail_print(struct invocation *invocation, int64_t job, int64_t attempt, int64_t lines,
                    const char *title, FILE *output)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    const char *text;

    json_set_int(parameters, "id", job);
    if (attempt)
        json_set_int(parameters, "attempt", attempt);
    json_set_int(parameters, "tail",
                 lines < TAIL_BYTES_MAX / BYTES_PER_LINE ? lines * BYTES_PER_LINE : TAIL_BYTES_MAX);
    if (!connection_try(invocation, "Logs", parameters, &reply))
        return false;
    text = last_lines(json_get_string(reply.parameters, "text", ""), lines);
    if (!*text)
        return false;
    if (title)
        fprintf(output, "%s\n", title);
    job_print_log(text, strlen(text), &invocation->output, output);
    if (text[strlen(text) - 1] != '\n')
        fputc('\n', output);
    return true;
}
