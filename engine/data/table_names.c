/* table_names.c: the names by which the columns of a table are known, where the header leaves some
 * without one or gives one twice; see table_columns.h. */
#include "base/cleanup.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of the column's name among the different names, from 0; or a negative error. */
static int name_number(const struct csv_table *table, const char *name, struct label_names *names,
                       struct error *error)
{
    return label_names_number(names, name, strlen(name), table->path, table->line, error);
}

/* Makes a name that no column has yet from one that several have, or none. `*count` of them were
 * made so far. */
static int name_make(const struct csv_table *table, const char *name, int32_t *count,
                     struct label_names *taken, char **made, struct error *error)
{
    int32_t known, number;

    do {
        free(*made);
        *made = NULL;
        if ((*name ? asprintf(made, "%s.%d", name, ++*count)
                   : asprintf(made, "%s%d", TABLE_NAMELESS, (*count)++)) < 0) {
            *made = NULL;
            return reader_out_of_memory(table->path, error);
        }
        known = taken->count;
        number = name_number(table, *made, taken, error);
        if (number < 0)
            return number;
    } while (number < known);
    return 0;
}

/* Finds the names that repeat; `firsts` is [columns]. What the file says is taken from then on. */
static int names_take(struct csv_table *table, int32_t *firsts, struct label_names *taken,
                      struct error *error)
{
    for (int32_t i = 0; i < table->columns; i++) {
        int32_t known = taken->count, number = name_number(table, table->names[i], taken, error);

        if (number < 0)
            return number;
        if (number == known)
            firsts[number] = i;
        else
            table->name_repeats[i] = table->name_repeats[firsts[number]] = true;
    }
    return 0;
}

int table_names_make(struct csv_table *table, struct error *error)
{
    CLEANUP(label_names_release) struct label_names taken = {0};
    size_t columns = (size_t)table->columns;
    AUTO_FREE int32_t *counts = calloc(columns, sizeof *counts);
    AUTO_FREE int32_t *firsts = calloc(columns, sizeof *firsts);
    int r;

    if (!table->names)
        return 0;
    table->unique_names = calloc(columns, sizeof *table->unique_names);
    table->name_repeats = calloc(columns, sizeof *table->name_repeats);
    if (!counts || !firsts || !table->unique_names || !table->name_repeats)
        return reader_out_of_memory(table->path, error);
    r = names_take(table, firsts, &taken, error);
    for (int32_t i = 0; r == 0 && i < table->columns; i++) {
        const char *name = table->names[i];
        int number = name_number(table, name, &taken, error);

        if (number < 0)
            return number;
        if (firsts[number] != i || !*name) {
            r = name_make(table, name, &counts[number], &taken, &table->unique_names[i], error);
        } else {
            table->unique_names[i] = strdup(name);
            r = table->unique_names[i] ? 0 : reader_out_of_memory(table->path, error);
        }
    }
    return r;
}

int table_names_check(const struct csv_table *table, const bool *known, const bool *used,
                      struct error *error)
{
    CLEANUP(label_names_release) struct label_names names = {0};
    AUTO_FREE int32_t *others = calloc((size_t)table->columns, sizeof *others); /* + 1; 0: none */
    char shown[CSV_SHOWN_SIZE];

    if (!others)
        return reader_out_of_memory(table->path, error);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < table->columns; i++) {
            const char *name = table->names[i];
            int number = name_number(table, name, &names, error);

            if (number < 0)
                return number;
            if (pass == 0 && !known[i])
                others[number] = i + 1;
            if (pass == 1 && used[i] && others[number])
                return error_set(error, -EINVAL,
                                 "%s:%lld: the columns %d and %d are both %s%s%s, and the training "
                                 "data have fewer such columns, of which one is used; give them "
                                 "different names",
                                 table->path, (long long)table->line, i + 1, others[number],
                                 *name ? "named \"" : "without a name",
                                 csv_cell_show(name, strlen(name), shown), *name ? "\"" : "");
        }
    return 0;
}
