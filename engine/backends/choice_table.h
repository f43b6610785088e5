/* choice_table.h: which way to do a thing was found to be the fastest, as lines of a file that all
 * processes of a user share: a problem (a text without blanks), a blank, and the choice for it. The
 * first line of a problem counts, so that all of them choose alike, also those that measured at the
 * same time; a "!" before the problem replaces what earlier lines say. */
#pragma once

#include "base/error.h"

enum { CHOICES_KEY_MAX = 192, CHOICES_TEXT_MAX = 512 }; /* with the ends of the texts */

struct choice_table;

/* `file` is read and appended to; NULL: nothing is kept. The file that cannot be read or written is
 * no error. */
int choice_table_open(const char *file, struct choice_table **table, struct error *error);
void choice_table_close(struct choice_table *table);
/* Gives a table its file that was opened without one: a warm worker does not know yet whose job it
 * will run. What it knows already stays. */
void choice_table_keep(struct choice_table *table, const char *file);

/* The choice for the problem; NULL: none is known. It lives until the next call that adds one. */
const char *choice_table_find(const struct choice_table *table, const char *key);
/* Makes it known and keeps it; what another process kept before counts instead, and is returned.
 * A text that choice_table_find() gave already is replaced: the caller could not use it. NULL: no
 * memory. */
const char *choice_table_add(struct choice_table *table, const char *key, const char *text);
