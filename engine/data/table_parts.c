/* table_parts.c: which part a cell of data.split.column names; see table_columns.h. */
#include "engine/data/table_columns.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_among(const struct table_cell *cell, const char *const *texts, int count)
{
    for (int i = 0; texts && i < count; i++)
        if (strlen(texts[i]) == cell->length && memcmp(texts[i], cell->text, cell->length) == 0)
            return true;
    return false;
}

/* The part that a word stands for, in either case; -1: none. */
static int part_of_word(const struct table_cell *cell)
{
    static const struct {
        const char *word;
        enum dataset_part part;
    } words[] = {{"train", DATASET_PART_TRAIN},
                 {"training", DATASET_PART_TRAIN},
                 {"validation", DATASET_PART_VALIDATION},
                 {"valid", DATASET_PART_VALIDATION},
                 {"val", DATASET_PART_VALIDATION},
                 {"dev", DATASET_PART_VALIDATION},
                 {"test", DATASET_PART_TEST},
                 {"testing", DATASET_PART_TEST}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == cell->length &&
            strncasecmp(words[i].word, cell->text, cell->length) == 0)
            return (int)words[i].part;
    return -1;
}

int table_parts_check(const struct dataset_config *config, struct error *error)
{
    for (int i = 0; config->table.test_values && i < config->table.test_value_count; i++) {
        const char *text = config->table.test_values[i];
        struct table_cell cell = {.text = text, .length = strlen(text)};

        if (is_among(&cell, config->table.validation_values, config->table.validation_value_count))
            return error_set(error, -EINVAL,
                             "data.split has \"%s\" among validation_values and test_values; a row "
                             "is in one part",
                             text);
    }
    return 0;
}

int table_part_find(const struct dataset_config *config, const struct table_cell *cell)
{
    const char *const *validation = config->table.validation_values;
    const char *const *test = config->table.test_values;

    if (!validation && !test)
        return part_of_word(cell);
    if (is_among(cell, validation, config->table.validation_value_count))
        return DATASET_PART_VALIDATION;
    if (is_among(cell, test, config->table.test_value_count))
        return DATASET_PART_TEST;
    return DATASET_PART_TRAIN;
}
