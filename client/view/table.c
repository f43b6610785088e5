/* table.c: see table.h. */
#include "client/view/table.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

enum { COLUMN_GAP = 2 };

struct cell {
    char *text; /* owned; with room for an ellipsis */
    enum style style;
};

struct table {
    const struct table_column *columns;
    char **titles; /* of the columns, escaped; owned */
    size_t column_count;
    struct cell *cells; /* row by row */
    size_t count, capacity;
    bool out_of_memory;
};

/* The escaped text with space for an ellipsis; NULL: no memory. The caller owns it. */
static char *cell_text(const char *text)
{
    size_t size = 4 * strlen(text) + 8; /* each byte may become \xNN, and an ellipsis may follow */
    char *copy = malloc(size);

    return copy ? text_escape_controls(text, copy, size) : NULL;
}

struct table *table_new(const struct table_column *columns, size_t count)
{
    struct table *table = calloc(1, sizeof *table);

    if (!table)
        return NULL;
    table->columns = columns;
    table->column_count = count;
    table->titles = calloc(count, sizeof *table->titles);
    table->out_of_memory = !table->titles;
    for (size_t i = 0; i < count && !table->out_of_memory; i++) {
        table->titles[i] = cell_text(columns[i].title); /* names of metrics are titles, too */
        table->out_of_memory = !table->titles[i];
    }
    return table;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    for (size_t i = 0; table->titles && i < table->column_count; i++)
        free(table->titles[i]);
    free(table->titles);
    free(table->cells);
    free(table);
}

void table_add(struct table *table, const char *text, enum style style)
{
    char *copy;

    if (!table)
        return;
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        struct cell *grown = reallocarray(table->cells, capacity, sizeof *grown);

        if (!grown) {
            table->out_of_memory = true;
            return;
        }
        table->cells = grown;
        table->capacity = capacity;
    }
    copy = cell_text(text ? text : "");
    if (!copy) {
        table->out_of_memory = true;
        return;
    }
    table->cells[table->count++] = (struct cell){copy, style};
}

void table_add_integer(struct table *table, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    table_add(table, text, STYLE_PLAIN);
}

/* Computes the widths of all columns (0: left out), fitted to the screen as far as their minima
 * allow. */
static void table_measure(const struct table *table, const struct display *display, size_t *widths)
{
    size_t total = 0;

    memset(widths, 0, table->column_count * sizeof *widths);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = display_width(table->cells[i].text),
               *column = &widths[i % table->column_count];

        if (width > *column)
            *column = width;
    }
    for (size_t i = 0; i < table->column_count; i++) {
        size_t title = display_width(table->titles[i]);

        if (widths[i] > 0 && title > widths[i])
            widths[i] = title;
        if (widths[i] > 0)
            total += widths[i] + (total ? COLUMN_GAP : 0);
    }
    while (display->columns > 0 && total > display->columns) {
        size_t widest = table->column_count;

        for (size_t i = 0; i < table->column_count; i++)
            if (table->columns[i].minimum > 0 && widths[i] > table->columns[i].minimum &&
                (widest == table->column_count || widths[i] > widths[widest]))
                widest = i;
        if (widest == table->column_count)
            break;
        widths[widest]--;
        total--;
    }
}

/* Prints one line: cells padded to their widths, cut at the screen's edge. It changes the cells'
 * text. */
static void table_print_line(const struct table *table, const struct display *display,
                             const size_t *widths, const struct cell *cells, FILE *output)
{
    size_t used = 0, pending = 0; /* pending: spaces that only a following cell needs */

    for (size_t i = 0; i < table->column_count; i++) {
        size_t room = widths[i], width, padding;
        char *text = cells[i].text;

        if (room == 0)
            continue;
        pending += used + pending > 0 ? COLUMN_GAP : 0;
        if (display->columns > 0) {
            if (used + pending >= display->columns)
                break;
            if (used + pending + room > display->columns)
                room = display->columns - used - pending;
        }
        display_cut(text, room, display->unicode);
        width = display_width(text);
        padding = room > width ? room - width : 0;
        if (table->columns[i].right) {
            pending += padding;
            padding = 0;
        }
        if (width > 0) {
            fprintf(output, "%*s%s%s%s", (int)pending, "", display_style(display, cells[i].style),
                    text, display_style_end(display, cells[i].style));
            used += pending + width;
            pending = 0;
        }
        pending += padding;
    }
    fputc('\n', output);
}

void table_print(const struct table *table, const struct display *display, FILE *output)
{
    AUTO_FREE size_t *widths = table ? calloc(table->column_count, sizeof *widths) : NULL;
    AUTO_FREE struct cell *titles = table ? calloc(table->column_count, sizeof *titles) : NULL;

    if (!table || !widths || !titles || table->out_of_memory) {
        fputs("trainctl: not enough memory for the table\n", stderr);
        return;
    }
    if (table->count < table->column_count)
        return;
    table_measure(table, display, widths);
    for (size_t i = 0; i < table->column_count; i++) {
        titles[i] = (struct cell){cell_text(table->columns[i].title), STYLE_BOLD};
        if (!titles[i].text)
            widths[i] = 0;
    }
    table_print_line(table, display, widths, titles, output);
    for (size_t i = 0; i + table->column_count <= table->count; i += table->column_count)
        table_print_line(table, display, widths, table->cells + i, output);
    for (size_t i = 0; i < table->column_count; i++)
        free(titles[i].text);
}
