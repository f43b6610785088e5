/* table_file.c: see table_file.h. */
#include "tests/support/table_file.h"

#include "engine/data/description.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct table_file table_file;

static void on_warning(void *context, const char *text)
{
    struct table_file *file = context;
    size_t used = strlen(file->warnings);

    snprintf(file->warnings + used, sizeof file->warnings - used, "%s\n", text);
}

void table_file_reset(enum dataset_format format)
{
    static const struct dataset_events events = {.warning = on_warning, .context = &table_file};

    table_file.warnings[0] = '\0';
    table_file.config = (struct dataset_config){
        .format = format, .paths = &table_file.path, .path_count = 1, .events = &events};
}

struct dataset *table_file_open(const char *text, const struct dataset *reference)
{
    table_file.path = data_file_write_text("table.csv", text);
    return data_open(&table_file.config, reference);
}

void table_file_check_damaged(const char *description, const char *from, const char *to)
{
    const char *found = strstr(description, from);
    struct dataset *read = NULL;
    struct error error;
    char damaged[2048];

    assert_non_null(found);
    snprintf(damaged, sizeof damaged, "%.*s%s%s", (int)(found - description), description, to,
             found + strlen(from));
    assert_true(dataset_description_parse(damaged, &read, &error) < 0);
}
