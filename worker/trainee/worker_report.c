/* worker_report.c: see worker_report.h. */
#include "worker/trainee/worker_report.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int worker_report_open(struct worker_report *report, const char *spool, bool json,
                       struct error *error)
{
    *report = (struct worker_report){.spool = -1};
    if (spool) {
        report->spool = open(spool, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (report->spool < 0)
            return error_set_errno(error, -errno, "cannot open the spool %s", spool);
        report->owned = true;
    } else if (json) {
        report->spool = STDOUT_FILENO;
    } else {
        report->person = true;
        report->terminal = isatty(STDOUT_FILENO);
    }
    return 0;
}

void worker_report_close(struct worker_report *report)
{
    if (report->owned)
        close(report->spool);
    report->spool = -1;
}

/* Writes one line with one write(2), so that a reader of the spool never sees two records mixed. */
static int write_line(struct worker_report *report, struct json_object *record, struct error *error)
{
    size_t length;
    const char *text = json_text(record, &length);
    AUTO_FREE char *line = malloc(length + 1);
    int r;

    if (!line)
        return error_set_errno(error, -ENOMEM, "cannot write a record");
    memcpy(line, text, length);
    line[length] = '\n';
    r = file_write_all(report->spool, line, length + 1);
    return r < 0 ? error_set_errno(error, r, "cannot write to the spool") : 0;
}

int worker_report_record(struct worker_report *report, const char *type, struct json_object *fields,
                         struct error *error)
{
    JSON_AUTO struct json_object *owned = fields, *record = NULL;
    struct timespec now;

    if (report->spool < 0)
        return 0;
    record = json_object_new_object();
    clock_gettime(CLOCK_REALTIME, &now);
    json_set_int(record, "n", ++report->number);
    json_set_double(record, "time", (double)now.tv_sec + (double)(now.tv_nsec / 1000) * 1e-6);
    json_set_string(record, "type", type);
    json_object_object_foreach (owned, key, value) {
        json_set(record, key, json_object_get(value));
    }
    return write_line(report, record, error);
}

void worker_report_failure(struct worker_report *report, const char *kind, int64_t step,
                           const char *came_from, const struct error *error)
{
    struct json_object *fields = json_object_new_object();
    char text[ERROR_TEXT_MAX * 2];

    json_set_string(fields, "kind", kind);
    json_set_string(fields, "message", error->text);
    if (step >= 0)
        json_set_int(fields, "step", step);
    else
        json_set(fields, "step", NULL);
    if (came_from)
        json_set_string(fields, "came_from", came_from);
    worker_report_record(report, "error", fields, NULL);
    fprintf(stderr, "%straind-worker: %s\n", report->terminal ? "\r\033[K" : "",
            text_escape_controls(error->text, text, sizeof text));
}
