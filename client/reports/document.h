/* document.h: a report before it has a form: headings, sentences, tables and figures, which a
 * writer turns into HTML or Markdown. All of it is plain text; escaping is the writer's. */
#pragma once

#include "proto/json.h"

/* {"title", "blocks": [block]}; the caller owns it. A block is one of
 * {"kind": "heading", "level", "text"}; {"kind": "text", "text"};
 * {"kind": "table", "columns": [{"title", "number"}], "rows": [[text]]};
 * {"kind": "figure", "title", "x", "curves": [{"name", "steps", "means", "minima", "maxima"}]}. */
struct json_object *document_new(const char *title);

void document_heading(struct json_object *document, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void document_text(struct json_object *document, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Begins a table, which belongs to the document. A title with "#" before it is that of a column of
 * numbers. */
struct json_object *document_table(struct json_object *document, const char *const *titles,
                                   size_t count);
/* Adds one more column. */
void document_table_column(struct json_object *table, const char *title, bool number);
/* Begins a row, to which cells are added. */
struct json_object *document_row(struct json_object *table);
void document_cell(struct json_object *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a row of a name and a text; nothing without a text. */
void document_pair(struct json_object *table, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Begins a figure, to which curves are added. */
struct json_object *document_figure(struct json_object *document, const char *title,
                                    const char *x_title);
/* Adds a curve: `buckets` is a reply of Curve. */
void document_curve(struct json_object *figure, const char *name, struct json_object *buckets);

/* Leaves columns of tables out that are empty in every row. */
void document_trim(struct json_object *document);

/* How many figures there are. */
size_t document_count_figures(struct json_object *document);
