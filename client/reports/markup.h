/* markup.h: text of strangers, such as names of jobs and metrics, as it may stand in HTML, SVG and
 * Markdown. */
#pragma once

#include <stdio.h>

/* Writes the text for an element's content, or for the value of an attribute in quotes. What would
 * not be printable becomes \xNN. */
void markup_write_html(const char *text, FILE *output);

/* Writes the text for the cell of a table, or within a paragraph, of GitHub's Markdown: it makes no
 * markup, link, mention, formula or line break. */
void markup_write_markdown(const char *text, FILE *output);

/* Writes the path for the address of a link: with % for what is not unreserved (RFC 3986). */
void markup_write_link(const char *path, FILE *output);
