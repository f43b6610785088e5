/* choice_table.c: see choice_table.h. */
#include "engine/backends/choice_table.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPLACES = '!' }; /* marks a line that replaces earlier lines of its problem */

struct known {
    char key[CHOICES_KEY_MAX], text[CHOICES_TEXT_MAX];
};

struct choice_table {
    char *file;
    struct known *known; /* owned */
    int count, capacity;
};

static struct known *find_known(const struct choice_table *table, const char *key)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->known[i].key, key) == 0)
            return &table->known[i];
    return NULL;
}

const char *choice_table_find(const struct choice_table *table, const char *key)
{
    const struct known *known = find_known(table, key);

    return known ? known->text : NULL;
}

static void add_known(struct choice_table *table, const char *key, const char *text)
{
    struct known *known = table->known;

    if (table->count == table->capacity) {
        int capacity = table->capacity ? 2 * table->capacity : 64;

        known = realloc(known, (size_t)capacity * sizeof *known);
        if (!known)
            return; /* the problem will be measured again */
        table->known = known;
        table->capacity = capacity;
    }
    known += table->count++;
    snprintf(known->key, sizeof known->key, "%s", key);
    snprintf(known->text, sizeof known->text, "%s", text);
}

/* Cuts a line into its problem and its choice; false: the line is not complete. */
static bool cut_line(char *line, char **text)
{
    char *blank = strchr(line, ' '), *end = strchr(line, '\n');

    if (!blank || !end || end[-1] == ' ' || blank - line >= CHOICES_KEY_MAX ||
        end - blank > CHOICES_TEXT_MAX)
        return false;
    *blank = *end = '\0';
    *text = blank + 1;
    return true;
}

/* The first line of a problem counts, so that processes which measured at the same time agree. Of
 * the lines that replace it, the last one counts. */
static void read_file(struct choice_table *table, FILE *file)
{
    char *line = NULL, *text;
    size_t size = 0;

    while (getline(&line, &size, file) > 0) {
        bool replaces = line[0] == REPLACES;
        const char *key = line + replaces;
        struct known *known;

        if (!cut_line(line, &text))
            continue;
        known = find_known(table, key);
        if (!known)
            add_known(table, key, text);
        else if (replaces)
            snprintf(known->text, sizeof known->text, "%s", text);
    }
    free(line);
}

/* Keeps what the table knows, because programs have been made by it. */
static void read_known(struct choice_table *table)
{
    struct choice_table kept = {0};
    FILE *file = table->file ? fopen(table->file, "re") : NULL;

    if (!file)
        return;
    read_file(&kept, file);
    fclose(file);
    for (int i = 0; i < kept.count; i++)
        if (!find_known(table, kept.known[i].key))
            add_known(table, kept.known[i].key, kept.known[i].text);
    free(kept.known);
}

/* A full disk may have cut the last line of the file. This text ends it, so that it is not read as
 * a complete one. */
static const char *end_of_cut_line(int file)
{
    struct stat status;
    char last = '\n';

    if (fstat(file, &status) < 0 || status.st_size == 0 ||
        pread(file, &last, 1, status.st_size - 1) != 1 || last == '\n')
        return "";
    return " \n";
}

/* Writes one line by one write(), so that it does not cut the lines of other processes. False:
 * nothing was kept. */
static bool append_known(const struct choice_table *table, const char *key, const char *text,
                         bool replaces)
{
    char line[CHOICES_KEY_MAX + CHOICES_TEXT_MAX + 8];
    int file = table->file ? open(table->file, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    bool written;
    int n;

    if (file < 0)
        return false;
    n = snprintf(line, sizeof line, "%s%s%s %s\n", end_of_cut_line(file),
                 replaces ? (char[]){REPLACES, '\0'} : "", key, text);
    written = write(file, line, (size_t)n) == n;
    close(file);
    return written;
}

const char *choice_table_add(struct choice_table *table, const char *key, const char *text)
{
    struct known *known = find_known(table, key);

    if (known)
        snprintf(known->text, sizeof known->text, "%s", text);
    if (append_known(table, key, text, known != NULL))
        read_known(table);
    if (!find_known(table, key))
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
        return error_no_memory(error, "the choice of algorithms");
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
