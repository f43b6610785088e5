/* table.h: prints a table whose columns are aligned by display width and fit the screen. */
#pragma once

#include "client/view/display.h"

#include <stdio.h>

struct table_column {
    const char *title;
    bool right;     /* numbers are aligned right */
    size_t minimum; /* on a narrow screen it may shrink to this many columns; 0: never */
};

struct table;

/* `columns` must outlive the table. NULL: not enough memory. */
struct table *table_new(const struct table_column *columns, size_t count);
void table_free(struct table *table);

/* Appends the next cell, row by row. Control characters are escaped; NULL is an empty cell. */
void table_add(struct table *table, const char *text, enum style style);
void table_add_integer(struct table *table, int64_t value);

/* Prints a title line and the rows, none wider than the screen; leaves out columns that are empty
 * in every row. A table without rows prints nothing. */
void table_print(const struct table *table, const struct display *display, FILE *output);
