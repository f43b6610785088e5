/* markdown.c: see markdown.h. Tables are those of GitHub's Markdown. */
#include "client/reports/markdown.h"

#include "client/reports/markup.h"

#include <string.h>

static void line_write(const char *prefix, const char *text, FILE *output)
{
    fputs(prefix, output);
    markup_write_markdown(text, output);
    fputs("\n\n", output);
}

static void table_write(struct json_object *table, FILE *output)
{
    struct json_object *columns = json_get(table, "columns"), *rows = json_get(table, "rows");
    size_t count = json_object_array_length(columns);

    for (size_t i = 0; i < count; i++) {
        fputs("| ", output);
        markup_write_markdown(json_get_string(json_object_array_get_idx(columns, i), "title", ""),
                              output);
        fputc(' ', output);
    }
    fputs("|\n", output);
    for (size_t i = 0; i < count; i++)
        fputs(json_get_bool(json_object_array_get_idx(columns, i), "number", false) ? "|---:"
                                                                                    : "|---",
              output);
    fputs("|\n", output);
    for (size_t r = 0; r < json_object_array_length(rows); r++) {
        struct json_object *row = json_object_array_get_idx(rows, r);

        for (size_t i = 0; i < json_object_array_length(row) && i < count; i++) {
            fputs("| ", output);
            markup_write_markdown(json_object_get_string(json_object_array_get_idx(row, i)),
                                  output);
            fputc(' ', output);
        }
        fputs("|\n", output);
    }
    fputc('\n', output);
}

static void figure_link(struct json_object *figure, const char *stem, size_t number, FILE *output)
{
    fputs("![", output);
    markup_write_markdown(json_get_string(figure, "title", ""), output);
    fputs("](", output);
    markup_write_link(stem, output);
    fprintf(output, ".%zu.svg)\n\n", number);
}

void markdown_write(struct json_object *document, const char *stem, FILE *output)
{
    struct json_object *blocks = json_get(document, "blocks");
    size_t figures = 0;

    line_write("# ", json_get_string(document, "title", ""), output);
    for (size_t i = 0; i < json_object_array_length(blocks); i++) {
        struct json_object *block = json_object_array_get_idx(blocks, i);
        const char *kind = json_get_string(block, "kind", "");
        const char *text = json_get_string(block, "text", "");

        if (strcmp(kind, "heading") == 0)
            line_write(json_get_int(block, "level", 2) == 2 ? "## " : "### ", text, output);
        else if (strcmp(kind, "text") == 0)
            line_write("", text, output);
        else if (strcmp(kind, "table") == 0)
            table_write(block, output);
        else
            figure_link(block, stem, ++figures, output);
    }
}
