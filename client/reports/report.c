/* report.c: puts the parts of a report together; see report.h. */
#include "client/reports/report.h"

#include "client/reports/document.h"

#include <stdio.h>
#include <string.h>

bool report_key_is_private(const char *key)
{
    return strncmp(key, "environment.", 12) == 0 || strncmp(key, "shell_environment.", 18) == 0;
}

struct json_object *report_document_new(const struct report_jobs *jobs, double now)
{
    struct json_object *document;
    char title[600], name[512], time[64];

    if (jobs->count == 1)
        snprintf(title, sizeof title, "Job %s",
                 report_job_title(&jobs->jobs[0], name, sizeof name));
    else
        snprintf(title, sizeof title, "%zu jobs", jobs->count);
    document = document_new(title);
    document_text(document, "Written by trainctl " TRAIND_VERSION " at %s.",
                  display_format_time(now, time, sizeof time));
    if (jobs->count > 1)
        report_add_comparison(document, jobs, now);
    if (jobs->count > REPORT_CURVES_JOBS)
        document_text(document, "Of more than %d jobs no curves are drawn.", REPORT_CURVES_JOBS);
    for (size_t i = 0; i < jobs->count && jobs->count <= REPORT_DETAILED_JOBS; i++)
        report_add_job(document, &jobs->jobs[i], jobs->count > 1, now);
    document_trim(document);
    return document;
}
