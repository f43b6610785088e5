/* html.c: see html.h. */
#include "client/reports/html.h"

#include "client/reports/figure_svg.h"
#include "client/reports/markup.h"

#include <string.h>

/* The policy forbids everything but the styles of the page itself. */
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char style[] =
    ":root{color-scheme:light dark}\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}\n"
    "h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.2rem;border-bottom:1px solid #ccc}"
    "h3{font-size:1.05rem;margin-top:1.6rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0}\n"
    "th,td{padding:.2rem .7rem .2rem 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid #e4e4e4;overflow-wrap:break-word;max-width:24rem}\n"
    "th{font-weight:600}.number{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}th.number{white-space:normal}\n"
    "svg.figure{display:block;width:100%;max-width:760px;min-width:40rem;height:auto;margin:1rem 0}\n"
    "@media (prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "h2{border-color:#444}th,td{border-color:#333}}\n"
    "@media print{body{max-width:none;margin:0;color:#000;background:#fff;font-size:10pt}"
    "h2,h3{break-after:avoid}svg.figure,tr{break-inside:avoid}.wide{overflow:visible}svg.figure{min-width:0}"
    "table{font-size:8pt}th,td{max-width:14rem;padding-right:.5rem}}\n"
    "@page{margin:18mm 15mm}\n";

static void element_write(const char *name, const char *text, FILE *output)
{
    fprintf(output, "<%s>", name);
    markup_write_html(text, output);
    fprintf(output, "</%s>\n", name);
}

static void cell_write(const char *name, bool number, const char *text, FILE *output)
{
    fprintf(output, "<%s%s>", name, number ? " class=\"number\"" : "");
    markup_write_html(text, output);
    fprintf(output, "</%s>", name);
}

static void table_write(struct json_object *table, FILE *output)
{
    struct json_object *columns = json_get(table, "columns"), *rows = json_get(table, "rows");
    size_t count = json_object_array_length(columns);

    fputs("<div class=\"wide\"><table>\n<thead><tr>", output);
    for (size_t i = 0; i < count; i++) {
        struct json_object *column = json_object_array_get_idx(columns, i);

        cell_write("th", json_get_bool(column, "number", false),
                   json_get_string(column, "title", ""), output);
    }
    fputs("</tr></thead>\n<tbody>\n", output);
    for (size_t r = 0; r < json_object_array_length(rows); r++) {
        struct json_object *row = json_object_array_get_idx(rows, r);

        fputs("<tr>", output);
        for (size_t i = 0; i < json_object_array_length(row) && i < count; i++)
            cell_write("td", json_get_bool(json_object_array_get_idx(columns, i), "number", false),
                       json_object_get_string(json_object_array_get_idx(row, i)), output);
        fputs("</tr>\n", output);
    }
    fputs("</tbody></table></div>\n", output);
}

/* On a narrow screen a figure is scrolled, as its letters would be too small to read. */
static void figure_write(struct json_object *figure, FILE *output)
{
    fputs("<div class=\"wide\">", output);
    figure_svg_write(figure, false, output);
    fputs("</div>\n", output);
}

static void block_write(struct json_object *block, FILE *output)
{
    const char *kind = json_get_string(block, "kind", "");
    const char *text = json_get_string(block, "text", "");

    if (strcmp(kind, "heading") == 0)
        element_write(json_get_int(block, "level", 2) == 2 ? "h2" : "h3", text, output);
    else if (strcmp(kind, "text") == 0)
        element_write("p", text, output);
    else if (strcmp(kind, "table") == 0)
        table_write(block, output);
    else
        figure_write(block, output);
}

void html_write(struct json_object *document, FILE *output)
{
    struct json_object *blocks = json_get(document, "blocks");
    const char *title = json_get_string(document, "title", "");

    fputs(head, output);
    element_write("title", title, output);
    fprintf(output, "<style>\n%s%s</style>\n</head>\n<body>\n", style, figure_style);
    element_write("h1", title, output);
    for (size_t i = 0; i < json_object_array_length(blocks); i++)
        block_write(json_object_array_get_idx(blocks, i), output);
    fputs("</body>\n</html>\n", output);
}
