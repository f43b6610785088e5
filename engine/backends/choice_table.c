/* choice_table.c: see choice_table.h. */
#include "engine/backends/choice_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct known {
    char key[CHOICES_KEY_MAX], text[CHOICES_TEXT_MAX];
};

struct choice_table {
    char *file;
    struct known *known; /* owned */
    int count, capacity;
};

const char *choice_table_find(const struct choice_table *table, const char *key)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->known[i].key, key) == 0)
            return table->known[i].text;
    return NULL;
}

static void add_known(struct choice_table *table, const char *key, const char *text)
{
    struct known *known = table->known;

    if (table->count == table->capacity) {
        int capacity = table->capacity ? 2 * table->capacity : 64;

        known = realloc(known, (size_t)capacity * sizeof *known);
        if (!known)
            return; /* it will be measured again */
        table->known = known;
        table->capacity = capacity;
    }
    known += table->count++;
    snprintf(known->key, sizeof known->key, "%s", key);
    snprintf(known->text, sizeof known->text, "%s", text);
}

/* Cuts a line into its problem and its choice; false: it is not whole. */
static bool cut_line(char *line, char **text)
{
    char *blank = strchr(line, ' '), *end = strchr(line, '\n');

    if (!blank || !end || blank - line >= CHOICES_KEY_MAX || end - blank > CHOICES_TEXT_MAX)
        return false;
    *blank = *end = '\0';
    *text = blank + 1;
    return true;
}

/* The first line of a problem counts, so that processes which measured at the same time agree. */
static void read_known(struct choice_table *table)
{
    FILE *file = table->file ? fopen(table->file, "re") : NULL;
    char *line = NULL, *text;
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0)
        if (cut_line(line, &text) && !choice_table_find(table, line))
            add_known(table, line, text);
    free(line);
    if (file)
        fclose(file);
}

/* One write of one line: lines of other processes are not cut. False: nothing is kept. */
static bool append_known(const struct choice_table *table, const char *key, const char *text)
{
    char line[CHOICES_KEY_MAX + CHOICES_TEXT_MAX + 2];
    int n = snprintf(line, sizeof line, "%s %s\n", key, text);
    int file =
        table->file ? open(table->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    bool written = file >= 0 && write(file, line, (size_t)n) == n; /* a part of one is not read */

    if (file >= 0)
        close(file);
    return written;
}

const char *choice_table_add(struct choice_table *table, const char *key, const char *text)
{
    if (append_known(table, key, text))
        read_known(table);
    if (!choice_table_find(table, key))
        add_known(table, key, text);
    return choice_table_find(table, key);
}

int choice_table_open(const char *file, struct choice_table **result, struct error *error)
{
    struct choice_table *table = calloc(1, sizeof *table);

    if (table)
        table->file = file ? strdup(file) : NULL;
    if (!table || (file && !table->file)) {
        free(table);
        return error_set(error, -ENOMEM, "no memory for the choice of algorithms");
    }
    read_known(table);
    *result = table;
    return 0;
}

void choice_table_keep(struct choice_table *table, const char *file)
{
    if (table->file)
        return;
    table->file = strdup(file);
    read_known(table);
}

void choice_table_close(struct choice_table *table)
{
    if (!table)
        return;
    free(table->file);
    free(table->known);
    free(table);
}
