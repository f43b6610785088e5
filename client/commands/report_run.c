/* report_run.c: `trainctl report-run` writes a report of jobs as HTML, Markdown or PDF. */
#include "base/clock.h"
#include "base/file.h"
#include "client/exports/replacement_file.h"
#include "client/reports/document.h"
#include "client/reports/figure_svg.h"
#include "client/reports/html.h"
#include "client/reports/markdown.h"
#include "client/reports/pdf.h"
#include "client/reports/report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

enum report_form { FORM_HTML, FORM_MARKDOWN, FORM_PDF };

static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* A form by the ending of the file's name, or by --format; standard output gets HTML. */
static enum exit_status form_find(const struct invocation *invocation, const char *path,
                                  enum report_form *form)
{
    static const struct {
        const char *ending;
        enum report_form form;
    } endings[] = {
        {"html", FORM_HTML},         {"htm", FORM_HTML}, {"md", FORM_MARKDOWN},
        {"markdown", FORM_MARKDOWN}, {"pdf", FORM_PDF},
    };
    const char *given = invocation_option(invocation, "format"), *dot = strrchr(path, '.');
    const char *ending = given ? given : is_standard_output(path) ? "html" : dot ? dot + 1 : "";

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(endings[i].ending, ending) == 0) {
            *form = endings[i].form;
            return EXIT_STATUS_DONE;
        }
    if (given)
        complain("--format=%s: html, md or pdf is expected", given);
    else
        complain("%s: the ending tells the form: .html, .md or .pdf; --format says otherwise",
                 path);
    return EXIT_STATUS_USAGE;
}

/* Says before the jobs are fetched whether the report can be written there. */
static enum exit_status output_check(const struct invocation *invocation, const char *path,
                                     enum report_form *form)
{
    enum exit_status status = form_find(invocation, path, form);
    struct error error = {0};

    if (status)
        return status;
    if (!is_standard_output(path)) {
        if (file_check_replaceable(path, &error) == 0)
            return EXIT_STATUS_DONE;
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (*form != FORM_HTML) {
        complain("-o - writes HTML: Markdown has its figures in files, and a PDF is made in one");
        return EXIT_STATUS_USAGE;
    }
    if (invocation->json) {
        complain("--json and -o - would both write to standard output");
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

/* What a writer writes. */
struct content {
    void (*write)(const void *source, FILE *output);
    const void *source;
};

/* Writes a file, which takes the place of an older one when it is whole. */
static enum exit_status file_write(const char *path, const struct content *content)
{
    CLEANUP(replacement_file_close) struct replacement_file file = {.descriptor = -1};
    enum exit_status status = replacement_file_open(&file, path);
    int descriptor;
    FILE *output;
    bool failed;

    if (status)
        return status;
    descriptor = dup(file.descriptor);
    output = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!output) {
        complain("cannot write %s: %s", path, strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
        return EXIT_STATUS_FAILED;
    }
    content->write(content->source, output);
    failed = ferror(output);
    if (fclose(output) != 0 || failed) {
        complain("cannot write %s: %s", path, strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    return replacement_file_finish(&file);
}

/* ---- the forms ----------------------------------------------------------------------------- */

static void write_html(const void *source, FILE *output)
{
    html_write((struct json_object *)source, output);
}

static void write_figure(const void *source, FILE *output)
{
    figure_svg_write((struct json_object *)source, true, output);
}

struct markdown_source {
    struct json_object *document;
    const char *stem;
};

static void write_markdown(const void *source, FILE *output)
{
    const struct markdown_source *markdown = source;

    markdown_write(markdown->document, markdown->stem, output);
}

/* Writes FILE.N.svg for each figure, and then FILE.md, which links them. */
static enum exit_status markdown_files_write(struct json_object *document, const char *path)
{
    struct json_object *blocks = json_get(document, "blocks");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t stem_length = dot && dot > name ? (size_t)(dot - name) : strlen(name), number = 0;
    AUTO_FREE char *stem = strndup(name, stem_length);
    struct markdown_source source = {document, stem};
    const struct content content = {write_markdown, &source};
    enum exit_status status = EXIT_STATUS_DONE;

    if (!stem) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    for (size_t i = 0; i < json_object_array_length(blocks) && !status; i++) {
        struct json_object *block = json_object_array_get_idx(blocks, i);
        const struct content figure = {write_figure, block};
        char file[PATH_MAX];

        if (strcmp(json_get_string(block, "kind", ""), "figure") != 0)
            continue;
        if (snprintf(file, sizeof file, "%.*s%s.%zu.svg", (int)(name - path), path, stem,
                     ++number) >= (int)sizeof file) {
            complain("%s: the name is too long", path);
            return EXIT_STATUS_USAGE;
        }
        status = file_write(file, &figure);
    }
    return status ? status : file_write(path, &content);
}

/* Writes the page beside the PDF, from which the PDF is made; the PDF takes its place when it is
 * whole. */
static enum exit_status pdf_write(struct json_object *document, const char *path)
{
    const struct content content = {write_html, document};
    AUTO_FREE char *folder = NULL, *full = realpath(*path == '/' ? "/" : ".", NULL);
    AUTO_FREE char *html = NULL, *pdf = NULL;
    enum exit_status status;

    if (!full || asprintf(&folder, "%s%s%s.XXXXXX", *path == '/' ? "" : full,
                          *path == '/' ? "" : "/", path) < 0) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    if (!mkdtemp(folder)) {
        complain("cannot write beside %s: %s", path, strerror(errno));
        return EXIT_STATUS_USAGE;
    }
    if (asprintf(&html, "%s/report.html", folder) < 0)
        html = NULL;
    if (asprintf(&pdf, "%s/report.pdf", folder) < 0)
        pdf = NULL;
    status = html && pdf ? file_write(html, &content) : EXIT_STATUS_FAILED;
    if (!status)
        status = pdf_make(folder);
    if (!status && rename(pdf, path) < 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        status = EXIT_STATUS_FAILED;
    }
    pdf_folder_remove(folder);
    return status;
}

/* ---- the command --------------------------------------------------------------------------- */

static enum exit_status report_write(struct json_object *document, enum report_form form,
                                     const char *path)
{
    const struct content content = {write_html, document};

    switch (form) {
    case FORM_MARKDOWN:
        return markdown_files_write(document, path);
    case FORM_PDF:
        return pdf_write(document, path);
    default:
        if (!is_standard_output(path))
            return file_write(path, &content);
        html_write(document, stdout);
        return EXIT_STATUS_DONE;
    }
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *names = invocation_option_words(invocation, "name");
    JSON_AUTO struct json_object *document = NULL;
    const char *path = invocation_option(invocation, "output");
    struct report_jobs jobs = {0};
    enum report_form form = FORM_HTML;
    enum exit_status status = EXIT_STATUS_DONE;

    if (!path && !invocation->json) {
        complain("report-run needs -o FILE.html, FILE.md or FILE.pdf");
        return EXIT_STATUS_USAGE;
    }
    if (path)
        status = output_check(invocation, path, &form);
    if (!status)
        status = report_jobs_fetch(invocation, names, &jobs);
    if (!status) {
        document = report_document_new(&jobs, clock_now());
        if (path)
            status = report_write(document, form, path);
        if (!status && invocation->json)
            json_print(document, stdout);
        else if (!status && path && !is_standard_output(path))
            printf("%s has %zu job%s and %zu figure%s\n", path, jobs.count,
                   jobs.count == 1 ? "" : "s", document_count_figures(document),
                   document_count_figures(document) == 1 ? "" : "s");
    }
    report_jobs_release(&jobs);
    return status;
}

static const struct command_option report_run_options[] = {
    {"output", 'o', "FILE",
     "Where to write it; the ending tells the form: .html, .md, .pdf; -: HTML on standard output",
     COMPLETE_FILES},
    {"format", 0, "FORM", "html, md or pdf, whatever the file's name", COMPLETE_NOTHING},
    {"name", 'n', "METRIC[,METRIC…]", "Draw these metrics (default: all); repeatable",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_report_run = {
    .name = "report-run",
    .place = 127,
    .arguments = "JOB…",
    .summary = "Write a report of jobs: curves, results, configuration, times, decisions",
    .details =
        "`sweep:12` stands for all jobs of a sweep. Of several jobs it compares specifications and "
        "results, with\nmeans over repetitions. The page of HTML is one file that loads nothing. "
        "Beside FILE.md lie its figures,\nFILE.1.svg and so on. A PDF needs weasyprint, chromium "
        "or wkhtmltopdf. Variables of the environment\nare left out. --json prints what the report "
        "says.",
    .minimum = 1,
    .maximum = -1,
    .options = report_run_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
