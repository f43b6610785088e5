/* table_columns.h: what the columns of a table hold, found by reading it, and the features that
 * each becomes. table.c surveys the training table first and encodes it, and every other table, by
 * what was found. Internal to the folder. */
#pragma once

#include "engine/data/csv_table.h"
#include "engine/data/label_names.h"
#include "engine/data/table_bins.h"
#include "engine/data/table_dates.h"

enum table_kind {
    TABLE_NUMBER,   /* one feature, and one for each bin (table_bins.h) */
    TABLE_CATEGORY, /* a feature for each of its texts: 1 for the one that the cell has, else 0 */
    TABLE_DATE,     /* table_date_features() */
    TABLE_LEFT_OUT  /* no features: empty, words that hardly ever return, row numbers, ignored */
};

/* More different texts than this are no categories: as many as scikit-learn's
 * HistGradientBoosting takes (its max_bins). */
enum { TABLE_CATEGORIES_MAX = 255 };

/* What the numbers of a column count, as their signs say. Those of a column have the same. */
enum table_unit {
    TABLE_NO_UNIT,
    TABLE_PERCENT, /* 12% is 12 */
    TABLE_DOLLAR,
    TABLE_EURO,
    TABLE_POUND,
    TABLE_YEN,
    TABLE_RUPEE,
    TABLE_UNITS
};

/* A cell that a message is about. */
struct table_word {
    char text[CSV_SHOWN_SIZE];
    int64_t line;
    const char *path;
};

struct table_column {
    char *name; /* of the header, or its number from 0; owned */
    enum table_kind kind;
    bool is_category; /* the configuration says so, whatever the cells are */
    bool is_ignored;
    bool is_split_key; /* its cells fill dataset.split_keys */
    bool is_weight;    /* its cells fill dataset.sample_weights */
    int32_t target;    /* its place among those to predict; -1: it is none */

    /* What the survey counts; `first_word` is the first cell that is no number. */
    int64_t present, missing, numbers, comma_numbers, month_dates, day_dates;
    int64_t like_numbers, like_times; /* cells that may be meant as such and are not read so */
    int64_t row_numbers; /* cells that continue 0, 1, 2, … or 1, 2, 3, … from the first row on */
    bool has_time, has_order;
    long double number_sum, month_sum, day_sum; /* of the numbers, and of dates in days */
    double first_number, lowest, highest;
    char first_word[CSV_SHOWN_SIZE];
    int64_t first_word_line, first_word_row;
    const char *first_word_path;
    struct table_word *undated[2]; /* [order]: the first cell that is no date in it, where most may
                                    * be; owned, NULL: none */
    /* The first number that float32 does not have, and the first one of another unit, likewise */
    struct table_word *too_large, *other_unit;
    struct table_sample sample; /* of the numbers, if they get bins */
    struct label_names texts;   /* up to TABLE_CATEGORIES_MAX + 1 */

    /* What is kept for the encoding. */
    enum table_date_order order;
    enum table_unit unit; /* of numbers */
    double mean;          /* of numbers, or of dates in days: what a missing cell becomes */
    char **categories;    /* sorted; owned */
    int32_t category_count;
    double *edges; /* [edge_count] of the bins of numbers; owned; NULL: they have none */
    int32_t edge_count;
    bool marks_missing; /* a last feature is 1 where the cell is missing */
    int32_t first_feature, features;
};

struct table_columns {
    int32_t count, features;
    bool has_names; /* a header names them */
    struct table_column *columns;
    /* Labels that are numbers: class i is label_values[i], ascending; owned. NULL: they are names,
     * or there is a limit below which they count from 0 */
    double *label_values;
    int32_t label_count;
};

/* `names` may be NULL. NULL: no memory. Release with table_columns_free(). */
struct table_columns *table_columns_create(int32_t count, char *const *names);
void table_columns_free(struct table_columns *columns);

/* A cell of a row, as text without quotes. */
struct table_cell {
    const char *text;
    size_t length;
    const char *path;  /* of the file */
    int64_t line, row; /* row: of the table, from 0 */
};

/* Called for a cell of a row. What is not 0 ends the visit of the row, which returns it. */
typedef int table_cell_function(void *context, int32_t place, const struct table_cell *cell,
                                struct error *error);
/* Calls `visit` for each cell of row `number`, with places[column] of its column; columns whose
 * place is -1 are passed over. `places` NULL: the place is the column's number. -EINVAL for another
 * number of cells than the table's, an open quote or a NUL. */
int table_row_visit(const struct csv_table *table, const char *row, const char *end, int64_t number,
                    const int32_t *places, table_cell_function *visit, void *context,
                    struct error *error);

/* Leaves out blanks at both ends, as quoted cells have them from accounts. */
void table_text_trim(const char **text, size_t *length);
/* Whether the cell says that there is no value: it is empty, "?", or one of the words of pandas'
 * read_csv(), unless the configuration lists others. */
bool table_cell_is_missing(const struct dataset_config *config, const char *text, size_t length);
/* Whether it is a number with zeros in front: "02134", but not "0", "0.5" or "00:30". */
bool table_text_has_zeros(const char *text, size_t length);
/* Reads a number as people write it: with the configured decimal sign, parted thousands, the sign
 * of a currency or of hundredths, brackets for a minus; whether it is one. */
bool table_cell_number(const struct dataset_config *config, const char *text, size_t length,
                       double *value);
bool table_cell_number_with_unit(const struct dataset_config *config, const char *text,
                                 size_t length, double *value, enum table_unit *unit);
/* Whether a cell that is no number may be meant as one that is not read: "0x10", "1_000", "5 kg";
 * or as a time without a date: "14:05", "2:05 PM". */
bool table_cell_may_be_number(const char *text, size_t length);
bool table_cell_may_be_time(const char *text, size_t length);
/* Whether it would be a number if the comma were the decimal sign. */
bool table_cell_has_comma(const char *text, size_t length);

/* Reports numbers that are too large or too small for float32, or so close together, compared with
 * their size, that float32 would make most of them the same; `least` and `highest` are the extremes
 * of the column. -EINVAL, or 0. */
int table_column_check_range(const struct table_column *column, double least, double highest,
                             struct error *error);

/* Counts a cell that is not missing. */
int table_column_survey(struct table_column *column, const struct dataset_config *config,
                        const struct table_cell *cell, struct error *error);
/* What columns without a name are called, with a number from 0. */
#define TABLE_NAMELESS "Unnamed: "
/* Fills table->unique_names and name_repeats: the second column "a" is called "a.1", as by pandas,
 * and the first one without a name "Unnamed: 0". So columns that were joined or left empty need
 * no remedy. */
int table_names_make(struct csv_table *table, struct error *error);
/* Refuses a name of which the training table has fewer columns, if one of them is used: it says not
 * which. Both arrays are [columns]: whether the training table has the column and it is used. */
int table_names_check(const struct csv_table *table, const bool *known, const bool *used,
                      struct error *error);
/* Whether the row names the columns: it has no number, and none of its cells returns below or one
 * stands above numbers; or it counts them. `*doubtful`: a user may see it otherwise. */
bool table_row_is_header(const struct csv_table *table, const char *row, const char *end,
                         struct csv_cursor rest, bool *doubtful);

/* Decides what one column is; `*reason` says why it is left out, if it was not wanted. -EINVAL:
 * most cells are numbers or dates, but not all. */
int table_column_decide(struct table_column *column, const struct dataset_config *config,
                        int64_t rows, const char **reason, struct error *error);
/* What to do where most texts of a column that is left out, or has categories, may be meant
 * otherwise: the end of a sentence. NULL: they may not. */
const char *table_column_hint(const struct table_column *column);
/* Decides what each column is and numbers the features; warns of columns that are left out.
 * -EINVAL: most cells of a column are numbers or dates, but not all; no column is left. */
int table_columns_decide(struct table_columns *columns, const struct dataset_config *config,
                         int64_t rows, struct error *error);

/* Numbers the features of the columns, whose kinds and categories are known. */
void table_columns_number(struct table_columns *columns);

/* Writes the column's features. `text` is NULL for a missing cell. False: the cell is none of the
 * column's kind. `*unknown` grows if it is a category that the training table lacks. */
bool table_column_encode(const struct table_column *column, const struct dataset_config *config,
                         const char *text, size_t length, float *features, int64_t *unknown);

/* Turns the numbers in dataset->labels, as label_names_number() gave them, into classes: the places
 * of the different labels in order, of numbers by value, else by their bytes. With
 * a `reference` they are its classes. Labels from 0 to below the configured number of classes are
 * classes as they are. -EINVAL names the line of a label that is no class. */
int table_labels_resolve(struct label_names *names, const struct dataset_config *config,
                         const struct dataset *reference, struct dataset *dataset,
                         struct error *error);

/* Refuses a text that data.split gives to two parts. -EINVAL, or 0. */
int table_parts_check(const struct dataset_config *config, struct error *error);
/* The part (enum dataset_part) that a cell of table.split_column names: by the configuration's
 * texts, else by common words in either case. -1: it is none of these words. */
int table_part_find(const struct dataset_config *config, const struct table_cell *cell);

/* The name of a column's feature: "age", "sex=male", "day:week_sin", "age is missing"; malloc'd.
 * NULL: no memory. */
char *table_feature_name(const struct table_column *column, int32_t feature);
