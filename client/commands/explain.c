/* explain.c: `trainctl explain` shows why a job runs where it runs or waits: the facts of each
 * decision about it, and what a waiting job waits for. */
#include "client/connection/connection.h"
#include "client/view/candidates.h"
#include "client/view/job.h"
#include "client/view/line.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void decision_print(const struct display *display, struct json_object *decision,
                           const char *label)
{
    double time = json_get_double(decision, "time", NAN);
    int64_t attempt = json_get_int(decision, "attempt", 0);
    char text[64];

    putchar('\n');
    if (isnan(time))
        line_print(display, label, json_get_string(decision, "verdict", "?"), STYLE_BOLD);
    else if (attempt)
        line_printf(display, label, STYLE_BOLD, "%s, attempt %" PRId64 ": %s",
                    display_format_time(time, text, sizeof text), attempt,
                    json_get_string(decision, "verdict", "?"));
    else
        line_printf(display, label, STYLE_BOLD, "%s: %s",
                    display_format_time(time, text, sizeof text),
                    json_get_string(decision, "verdict", "?"));
    line_print(display, "because", json_get_string(decision, "reason", NULL), STYLE_PLAIN);
    line_print(display, "needs", json_get_string(decision, "needs", NULL), STYLE_PLAIN);
    candidates_print(json_get(decision, "candidates"), display);
}

static void edits_print(const struct display *display, struct json_object *edits)
{
    char text[64];

    for (size_t i = 0; edits && i < json_object_array_length(edits); i++) {
        struct json_object *edit = json_object_array_get_idx(edits, i);

        line_printf(display, i ? "" : "edits", STYLE_PLAIN, "%s: %s",
                    display_format_time(json_get_double(edit, "time", NAN), text, sizeof text),
                    json_get_string(edit, "reason", "?"));
    }
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    const struct display *display = &invocation->output;
    struct json_object *parameters, *job, *decisions, *now;
    enum exit_status status =
        connection_job_parameters(invocation, invocation->arguments[0], JOB_IS_READ, &parameters);
    const char *state;

    if (!status)
        status = connection_call(invocation, "Explain", parameters, &reply);
    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    job = json_get(reply.parameters, "job");
    state = json_get_string(job, "state", "?");
    line_printf(display, "job", STYLE_BOLD, "%" PRId64 " (%s)", json_get_int(job, "id", 0),
                json_get_string(job, "name", ""));
    line_print(display, "state", state, job_state_style(state));
    line_print(display, "reason", job_reason(job), STYLE_PLAIN);
    line_print(display, "device", json_get_string(job, "device", NULL), STYLE_PLAIN);
    edits_print(display, json_get(reply.parameters, "edits"));
    decisions = json_get(reply.parameters, "decisions");
    for (size_t i = 0; decisions && i < json_object_array_length(decisions); i++)
        decision_print(display, json_object_array_get_idx(decisions, i), "decided");
    now = json_get(reply.parameters, "now");
    if (now)
        decision_print(display, now, "now");
    if (!now && (!decisions || json_object_array_length(decisions) == 0))
        line_print(display, "decided",
                   job_state_is_final(state) ? "nothing: it ended before" : "nothing yet",
                   STYLE_PLAIN);
    return EXIT_STATUS_DONE;
}

const struct command command_explain = {
    .name = "explain",
    .place = 100,
    .arguments = "JOB",
    .summary = "Say why a job runs where it runs, or what it waits for",
    .details = "Shows every decision's candidates, with predicted time and its source, memory "
               "needed\nand free, and verdict; for a waiting job also a decision made now.",
    .minimum = 1,
    .maximum = 1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
