/* report.c: `trainctl report`, called within a job, appends one line in the short form to the job's
 * spool. It makes one write to a file opened for appending, so several processes may report at
 * once. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "client/command_line/invocation.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 64 * 1024 };

static bool number_parse(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

/* Adds, for example, "train_loss=0.5". */
static int line_add(struct json_object *line, const char *assignment, struct error *error)
{
    const char *equals = strchr(assignment, '=');
    AUTO_FREE char *name = NULL;
    double value;

    if (!equals || equals == assignment)
        return error_set(error, -EINVAL, "\"%s\": NAME=VALUE is expected, such as train_loss=0.5",
                         assignment);
    name = strndup(assignment, (size_t)(equals - assignment));
    if (!name)
        return error_set(error, -ENOMEM, "not enough memory");
    if (!number_parse(equals + 1, &value))
        return error_set(error, -EINVAL, "%s=%s: a number is expected", name, equals + 1);
    if (strcmp(name, "step") == 0 && (!(value >= 0) || value > 9e15 || value != floor(value)))
        return error_set(error, -EINVAL, "%s: a whole number of at least 0 is expected",
                         assignment);
    if (strcmp(name, "step") == 0)
        json_set_int(line, name, (int64_t)value);
    else
        json_set_double(line, name, value);
    return 0;
}

static int line_make(const struct invocation *invocation, struct json_object *line,
                     struct error *error)
{
    const char *progress = invocation_option(invocation, "progress");
    bool metrics = false;
    double value;

    for (size_t i = 0; i < invocation->argument_count; i++) {
        const char *argument = invocation->arguments[i];
        int result = line_add(line, argument, error);

        if (result < 0)
            return result;
        metrics |= strncmp(argument, "step=", 5) != 0 && strncmp(argument, "epoch=", 6) != 0;
    }
    if (metrics && !json_get(line, "step"))
        return error_set(
            error, -EINVAL,
            "metrics need the step that they were measured at: step=10 train_loss=0.5");
    if (!metrics && !progress)
        return error_set(error, -EINVAL,
                         "nothing to report: give metrics, as in step=10 train_loss=0.5, or "
                         "--progress=0.4");
    if (progress) {
        if (!number_parse(progress, &value) || !(value >= 0 && value <= 1))
            return error_set(error, -EINVAL, "--progress=%s: a number from 0 to 1 is expected",
                             progress);
        json_set_double(line, "progress", value);
    }
    json_set_double(line, "time", clock_now());
    return 0;
}

static int line_append(const char *path, struct json_object *line, struct error *error)
{
    AUTO_FREE char *text = NULL;
    AUTO_CLOSE int spool = -1;
    int length = asprintf(&text, "%s\n", json_text(line, NULL));
    ssize_t written;

    if (length < 0) {
        text = NULL;
        return error_set(error, -ENOMEM, "not enough memory");
    }
    if (length > LINE_MAX_BYTES)
        return error_set(error, -E2BIG, "one report may have %d bytes", LINE_MAX_BYTES);
    spool = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_CLOEXEC, 0600);
    if (spool < 0)
        return error_set_errno(error, -errno, "cannot open the job's spool %s", path);
    do
        written = write(spool, text, (size_t)length);
    while (written < 0 && errno == EINTR);
    if (written != length)
        return error_set_errno(error, written < 0 ? -errno : -ENOSPC,
                               "cannot write to the job's spool %s", path);
    return 0;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *line = json_object_new_object();
    const char *path = getenv("TRAIND_SPOOL");
    struct error error;

    if (!path || !*path) {
        complain("report works within a job: TRAIND_SPOOL is not set here");
        return EXIT_STATUS_USAGE;
    }
    if (line_make(invocation, line, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (line_append(path, line, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    return EXIT_STATUS_DONE;
}

static const struct command_option report_options[] = {
    {"progress", 'p', "PART", "How much of the job is done, from 0 to 1", COMPLETE_NOTHING},
    {0},
};

const struct command command_report = {
    .name = "report",
    .place = 60,
    .arguments = "[step=N NAME=VALUE…]",
    .summary = "Within a job: report metrics and progress",
    .details = "For commands that run as jobs, such as `trainctl report step=10 train_loss=0.5`; "
               "`epoch=E` may stand\nbeside them. It finds its job by TRAIND_SPOOL, needs no "
               "daemon, and several processes may report\nat once. A value such as nan is "
               "stored as not a number.",
    .maximum = -1,
    .options = report_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
