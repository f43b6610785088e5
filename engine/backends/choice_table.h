/* choice_table.h: a file in which all processes of a user share measured choices, such as the
 * fastest method of a product. Each line has a problem (a text without blanks), a blank, and the
 * choice. The first line of a problem counts, so that processes which measured at the same time
 * choose alike. A "!" before the problem replaces earlier lines. */
#pragma once

#include "base/error.h"

enum { CHOICES_KEY_MAX = 192, CHOICES_TEXT_MAX = 512 }; /* with the ends of the texts */

struct choice_table;

/* Reads `file`, to which new choices are appended; NULL: nothing is kept. A file that cannot be
 * read or written is not an error. */
int choice_table_open(const char *file, struct choice_table **table, struct error *error);
void choice_table_close(struct choice_table *table);
/* Gives a file to a table that was opened without one, because a warm worker does not know yet
 * whose job it will run. The table keeps its choices. */
void choice_table_keep(struct choice_table *table, const char *file);

/* The choice for the problem; NULL: none is known. It lives until the next call that adds one. */
const char *choice_table_find(const struct choice_table *table, const char *key);
/* Adds a choice, writes it to the file and returns it. If another process has written one for the
 * problem, that one is returned instead. A choice that choice_table_find() returned is replaced:
 * the caller could not use it. NULL: no memory. */
const char *choice_table_add(struct choice_table *table, const char *key, const char *text);
