/* history.c: see history.h. */
#include "client/connection/history.h"

#include "base/clock.h"
#include "base/text.h"

#include <math.h>

static const double span_default = 3600;
enum { COLUMNS_DEFAULT = 80, DOTS_OF_COLUMN = 2 };

enum exit_status history_option_read(const struct invocation *invocation, double *seconds)
{
    const char *text = invocation_option(invocation, "history");

    *seconds = invocation_flag(invocation, "history") ? span_default : 0;
    if (!text)
        return EXIT_STATUS_DONE;
    if (text_parse_duration(text, seconds) == 0 && *seconds > 0 && isfinite(*seconds))
        return EXIT_STATUS_DONE;
    complain("--history=%s: a span is expected, such as 30min, 6h or 7d", text);
    return EXIT_STATUS_USAGE;
}

enum exit_status history_ask(struct invocation *invocation, const char *device, double seconds,
                             struct varlink_reply *reply)
{
    struct json_object *parameters = json_object_new_object();
    size_t columns =
        invocation->output.columns ? invocation->output.columns : (size_t)COLUMNS_DEFAULT;
    double now = clock_now();

    if (device)
        json_set_string(parameters, "device", device);
    json_set_double(parameters, "from", now - seconds);
    json_set_double(parameters, "to", now);
    json_set_int(parameters, "points", (int64_t)(DOTS_OF_COLUMN * columns));
    return connection_call(invocation, "History", parameters, reply);
}
