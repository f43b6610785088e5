/* table_columns.c: see table_columns.h. */
#include "engine/data/table_columns.h"

#include "base/cleanup.h"
#include "engine/data/reader.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEFT_OUT_SHOWN_MAX = 8 /* columns that a warning names */ };

struct table_columns *table_columns_create(int32_t count, char *const *names)
{
    struct table_columns *made = calloc(1, sizeof *made);
    char number[16];

    if (made)
        made->columns = calloc((size_t)count, sizeof *made->columns);
    if (!made || !made->columns) {
        free(made);
        return NULL;
    }
    made->count = count;
    made->has_names = names != NULL;
    for (int32_t i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%d", i);
        made->columns[i].target = -1;
        made->columns[i].name = strdup(names ? names[i] : number);
        if (!made->columns[i].name) {
            table_columns_free(made);
            return NULL;
        }
    }
    return made;
}

void table_columns_free(struct table_columns *columns)
{
    for (int32_t i = 0; columns && i < columns->count; i++) {
        struct table_column *column = &columns->columns[i];

        for (int32_t c = 0; c < column->category_count; c++)
            free(column->categories[c]);
        free(column->categories);
        free(column->edges);
        table_sample_release(&column->sample);
        free(column->name);
        free(column->undated[TABLE_DATE_MONTH_FIRST]);
        free(column->undated[TABLE_DATE_DAY_FIRST]);
        free(column->too_large);
        free(column->other_unit);
        label_names_release(&column->texts);
    }
    if (columns) {
        free(columns->columns);
        free(columns->label_values);
    }
    free(columns);
}

/* ---- ranges ---- */

/* With fewer steps than this between the extremes, rounding loses more than training in bfloat16,
 * which has 8 bits of precision, would. */
enum { STEPS_LEAST = 256 };

/* Beyond these, float32 has no room for what is computed of the numbers: it ends at 3e38 and
 * 1e-38. What does not fit at all is told with its line. */
static const double LARGEST = 1e30, SMALLEST_SPREAD = 1e-30;

/* Reports numbers that overflow or vanish in float32. */
static int check_size(const struct table_column *column, double least, double highest,
                      struct error *error)
{
    double largest = fmax(fabs(least), fabs(highest)), spread = highest - least;
    char name[CSV_SHOWN_SIZE];

    if ((largest <= LARGEST && (spread == 0 || spread >= SMALLEST_SPREAD)))
        return 0;
    return error_set(error, -EINVAL,
                     "the numbers of the column \"%s\" go from %.6g to %.6g, which leaves float32 "
                     "no room to compute with them: take another unit, such as by %s all of them "
                     "by %.0e",
                     csv_cell_show(column->name, strlen(column->name), name), least, highest,
                     largest > LARGEST ? "dividing" : "multiplying",
                     largest > LARGEST ? largest : 1 / spread);
}

int table_column_check_range(const struct table_column *column, double least, double highest,
                             struct error *error)
{
    double largest = fmax(fabs(least), fabs(highest)), step = largest * FLT_EPSILON;
    char name[CSV_SHOWN_SIZE];

    if (largest > (double)FLT_MAX)
        return 0;
    if (check_size(column, least, highest, error) < 0)
        return error->code;
    if (highest - least == 0 || highest - least >= STEPS_LEAST * step)
        return 0;
    return error_set(error, -EINVAL,
                     "the numbers of the column \"%s\" go from %.17g to %.17g only, which is too "
                     "close together for float32 at this size: subtract a number from all of them, "
                     "such as %.17g",
                     csv_cell_show(column->name, strlen(column->name), name), least, highest,
                     least);
}

/* ---- the survey ---- */

static void survey_word(struct table_column *column, const struct table_cell *cell)
{
    if (!column->first_word_path) {
        csv_cell_show(cell->text, cell->length, column->first_word);
        column->first_word_line = cell->line;
        column->first_word_row = cell->row;
        column->first_word_path = cell->path;
    }
    if (table_cell_may_be_time(cell->text, cell->length))
        column->like_times++;
    else
        column->like_numbers += table_cell_may_be_number(cell->text, cell->length);
    column->comma_numbers += table_cell_has_comma(cell->text, cell->length);
}

/* Keeps the first cell that is to be told of. */
static int keep_word(struct table_word **kept, const struct table_cell *cell, struct error *error)
{
    struct table_word *word;

    if (*kept)
        return 0;
    word = *kept = malloc(sizeof *word);
    if (!word)
        return error_no_memory(error, "the cells of %s", cell->path);
    csv_cell_show(cell->text, cell->length, word->text);
    word->line = cell->line;
    word->path = cell->path;
    return 0;
}

/* Whether the cell is worth to be read as a date: most of the cells so far are dates, or they are
 * too few to tell. Behind many others a text that begins or ends with a digit still is. */
static bool may_be_date(const struct table_column *column, const struct table_cell *cell,
                        bool is_number)
{
    enum { FEW = 16 };
    int64_t dates =
        column->month_dates > column->day_dates ? column->month_dates : column->day_dates;

    return 2 * dates + FEW >= column->present ||
           (!is_number && (isdigit((unsigned char)cell->text[0]) ||
                           isdigit((unsigned char)cell->text[cell->length - 1])));
}

static int survey_date(struct table_column *column, const struct dataset_config *config,
                       const struct table_cell *cell, struct error *error)
{
    struct table_date month, day;
    bool by_month = table_date_parse(cell->text, cell->length, TABLE_DATE_MONTH_FIRST, &month);
    bool by_day = table_date_parse(cell->text, cell->length, TABLE_DATE_DAY_FIRST, &day);

    column->month_dates += by_month;
    column->day_dates += by_day;
    if (!by_month && keep_word(&column->undated[TABLE_DATE_MONTH_FIRST], cell, error) < 0)
        return error->code;
    if (!by_day && keep_word(&column->undated[TABLE_DATE_DAY_FIRST], cell, error) < 0)
        return error->code;
    if (!by_month && !by_day)
        return 0;
    column->month_sum += by_month ? month.days : 0;
    column->day_sum += by_day ? day.days : 0;
    if (!by_month || (by_day && config->table.day_first))
        month = day;
    column->has_time |= month.has_time;
    column->has_order |= month.has_order;
    return 0;
}

int table_column_survey(struct table_column *column, const struct dataset_config *config,
                        const struct table_cell *cell, struct error *error)
{
    enum table_unit unit;
    double value;
    bool is_number = table_cell_number_with_unit(config, cell->text, cell->length, &value, &unit);

    if (is_number) {
        if (column->numbers == 0)
            column->unit = unit;
        if (unit != column->unit && keep_word(&column->other_unit, cell, error) < 0)
            return error->code;
        if (column->numbers++ == 0)
            column->first_number = column->lowest = column->highest = value;
        column->lowest = fmin(column->lowest, value);
        column->highest = fmax(column->highest, value);
        column->number_sum += value;
        column->row_numbers += value == (double)cell->row + column->first_number &&
                               (column->first_number == 0 || column->first_number == 1);
        if (!isfinite((float)value) && keep_word(&column->too_large, cell, error) < 0)
            return error->code;
        if (config->table.bins && table_sample_add(&column->sample, value, error) < 0)
            return error->code;
    } else {
        survey_word(column, cell);
    }
    if (may_be_date(column, cell, is_number) && survey_date(column, config, cell, error) < 0)
        return error->code;
    column->present++;
    if (column->texts.count > TABLE_CATEGORIES_MAX)
        return 0;
    int number =
        label_names_number(&column->texts, cell->text, cell->length, cell->path, cell->line, error);
    return number < 0 ? number : 0;
}

/* ---- decisions ---- */

/* Whether the comma of the number may part thousands: three digits stand behind it. */
static bool has_thousands(const char *text)
{
    const char *comma = strchr(text, ',');

    return comma && comma > text && strspn(comma + 1, "0123456789") == 3 && !comma[4];
}

static int report_mixture(const struct table_column *column, const struct dataset_config *config,
                          struct error *error)
{
    bool comma = config->table.decimal != DATASET_DECIMAL_COMMA &&
                 column->numbers + column->comma_numbers == column->present;
    bool header = config->csv.header == DATASET_HEADER_AUTO && column->first_word_row == 0 &&
                  column->numbers == column->present - 1;
    char name[CSV_SHOWN_SIZE];

    csv_cell_show(column->name, strlen(column->name), name);
    if (comma)
        return error_set(error, -EINVAL, "%s:%lld: \"%s\" in the column %s is a number with a %s",
                         column->first_word_path, (long long)column->first_word_line,
                         column->first_word, name,
                         has_thousands(column->first_word)
                             ? "comma: set decimal to comma if it is the decimal sign, or to point "
                               "if it parts thousands"
                             : "decimal comma; set decimal to comma");
    return error_set(
        error, -EINVAL,
        "%s:%lld: \"%s\" is no number, but %lld of the %lld cells of the column %s "
        "are; correct it, name it in missing if it stands for no value, or name the "
        "column in categories or ignore%s",
        column->first_word_path, (long long)column->first_word_line, column->first_word,
        (long long)column->numbers, (long long)column->present, name,
        header ? "; if this row names the columns, set header to yes, or comment to how a "
                 "line above them begins"
               : "");
}

/* Reports the first cell that is no date where most are. */
static int report_undated(const struct table_column *column, struct error *error)
{
    static const char *const shown[] = {
        [TABLE_DATE_MONTH_FIRST] = "month/day/year", [TABLE_DATE_DAY_FIRST] = "day/month/year"};
    bool by_day = column->day_dates > column->month_dates;
    enum table_date_order order = by_day ? TABLE_DATE_DAY_FIRST : TABLE_DATE_MONTH_FIRST;
    const struct table_word *word = column->undated[order];
    char name[CSV_SHOWN_SIZE];

    return error_set(
        error, -EINVAL,
        "%s:%lld: \"%s\" is no date%s%s, but %lld of the %lld cells of the column %s "
        "are; correct it, name it in missing if it stands for no value, or name the "
        "column in categories or ignore",
        word->path, (long long)word->line, word->text, column->has_order ? " of the form " : "",
        column->has_order ? shown[order] : "",
        (long long)(by_day ? column->day_dates : column->month_dates), (long long)column->present,
        csv_cell_show(column->name, strlen(column->name), name));
}

static int report_too_large(const struct table_column *column, struct error *error)
{
    const struct table_word *word = column->too_large;
    char name[CSV_SHOWN_SIZE];

    return error_set(
        error, -EINVAL,
        "%s:%lld: \"%s\" in the column %s does not fit into a float32; correct it, name "
        "it in missing if it stands for no value, or name the column in ignore",
        word->path, (long long)word->line, word->text,
        csv_cell_show(column->name, strlen(column->name), name));
}

static int report_other_unit(const struct table_column *column, struct error *error)
{
    const struct table_word *word = column->other_unit;
    char name[CSV_SHOWN_SIZE];

    return error_set(
        error, -EINVAL,
        "%s:%lld: \"%s\" in the column %s has another unit than the first number there; "
        "convert it, or name the column in categories or ignore",
        word->path, (long long)word->line, word->text,
        csv_cell_show(column->name, strlen(column->name), name));
}

/* Row numbers, as pandas and R write them, tell a model nothing that holds for other rows. */
static bool is_row_number(const struct table_column *column, int64_t rows)
{
    static const char *const names[] = {"index", "rownames", "row"};
    size_t length = strlen(column->name);

    if (column->row_numbers != rows || rows < 2)
        return false;
    if (length >= 2 && strcasecmp(column->name + length - 2, "id") == 0)
        return true;
    if (strncmp(column->name, TABLE_NAMELESS, strlen(TABLE_NAMELESS)) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(column->name, names[i]) == 0)
            return true;
    return false;
}

static int decide_category(struct table_column *column, const char **reason, struct error *error)
{
    bool too_many = column->texts.count > TABLE_CATEGORIES_MAX;

    if (column->is_category && too_many)
        return error_set(error, -EINVAL,
                         "the column %s is to hold categories, but it has more than %d different "
                         "texts; name it in ignore, or join those that are rare",
                         column->name, TABLE_CATEGORIES_MAX);
    column->kind = TABLE_CATEGORY;
    if (!column->is_category && (too_many || 2 * (int64_t)column->texts.count > column->present)) {
        column->kind = TABLE_LEFT_OUT;
        *reason = too_many ? "over 255 different texts" : "texts that hardly ever return";
    }
    return 0;
}

/* Whether the day or the month comes first in dates such as 3/4/2026. */
static void decide_order(struct table_column *column, const struct dataset_config *config)
{
    bool either = column->month_dates == column->day_dates, day = config->table.day_first;

    if (!either)
        day = column->day_dates > column->month_dates;
    column->order = day ? TABLE_DATE_DAY_FIRST : TABLE_DATE_MONTH_FIRST;
    if (either && column->month_dates == column->present && column->has_order && !day)
        reader_warn(config,
                    "%s: the dates of the column %s, such as %s, are read as month/day/year; "
                    "if the day comes first, set day_first",
                    column->first_word_path, column->name, column->first_word);
}

int table_column_decide(struct table_column *column, const struct dataset_config *config,
                        int64_t rows, const char **reason, struct error *error)
{
    bool month = column->month_dates == column->present, day = column->day_dates == column->present;

    *reason = NULL;
    column->kind = TABLE_LEFT_OUT;
    if (column->is_split_key && column->is_ignored && column->present)
        decide_order(column, config); /* of features below */
    if (column->is_ignored || column->target >= 0)
        return 0;
    if (column->present == 0) {
        *reason = "empty";
        return 0;
    }
    if (column->is_category)
        return decide_category(column, reason, error);
    if (column->numbers == column->present && column->too_large)
        return report_too_large(column, error);
    if (column->numbers == column->present && column->other_unit)
        return report_other_unit(column, error);
    if (column->numbers == column->present) {
        column->kind = is_row_number(column, rows) ? TABLE_LEFT_OUT : TABLE_NUMBER;
        *reason = column->kind == TABLE_LEFT_OUT ? "the number of the row" : NULL;
        return *reason ? 0
                       : table_column_check_range(column, column->lowest, column->highest, error);
    }
    if (month || day) {
        column->kind = TABLE_DATE;
        decide_order(column, config);
        return 0;
    }
    if (2 * column->numbers > column->present ||
        column->numbers + column->comma_numbers == column->present)
        return report_mixture(column, config, error);
    if (2 * column->month_dates > column->present || 2 * column->day_dates > column->present)
        return report_undated(column, error);
    return decide_category(column, reason, error);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int adopt_categories(struct table_column *column, struct error *error)
{
    column->categories = calloc((size_t)column->texts.count, sizeof *column->categories);
    if (!column->categories)
        return error_no_memory(error, "the categories of %s", column->name);
    for (int32_t i = 0; i < column->texts.count; i++)
        column->categories[column->category_count++] = TAKE_POINTER(column->texts.names[i].text);
    qsort(column->categories, (size_t)column->category_count, sizeof *column->categories,
          compare_texts);
    return 0;
}

static int32_t column_bins(const struct table_column *column)
{
    return column->edge_count ? column->edge_count - 1 : 0;
}

static int32_t count_features(const struct table_column *column)
{
    switch (column->kind) {
    case TABLE_NUMBER:
        return 1 + column_bins(column) + column->marks_missing;
    case TABLE_CATEGORY:
        return column->category_count + column->marks_missing;
    case TABLE_DATE:
        return (column->has_time ? TABLE_DATE_TIME_FEATURES : TABLE_DATE_FEATURES) +
               column->marks_missing;
    case TABLE_LEFT_OUT:
        break;
    }
    return 0;
}

void table_columns_number(struct table_columns *columns)
{
    columns->features = 0;
    for (int32_t i = 0; i < columns->count; i++) {
        struct table_column *column = &columns->columns[i];

        column->first_feature = columns->features;
        column->features = count_features(column);
        columns->features += column->features;
    }
}

static void set_mean(struct table_column *column)
{
    if (column->kind == TABLE_NUMBER)
        column->mean = (double)(column->number_sum / column->present);
    else if (column->kind == TABLE_DATE)
        column->mean =
            (double)((column->order == TABLE_DATE_DAY_FIRST ? column->day_sum : column->month_sum) /
                     column->present);
}

const char *table_column_hint(const struct table_column *column)
{
    if (column->is_ignored || column->target >= 0 || column->is_category ||
        (column->kind != TABLE_LEFT_OUT && column->kind != TABLE_CATEGORY))
        return NULL;
    if (2 * column->like_times > column->present)
        return "if they are times, write the date in front of them, or minutes as numbers";
    if (column->kind == TABLE_LEFT_OUT && column->like_numbers &&
        2 * (column->like_numbers + column->numbers) > column->present)
        return "if they are numbers, write their digits alone";
    return NULL;
}

static void warn_of_categories(const struct table_column *column,
                               const struct dataset_config *config)
{
    const char *hint = table_column_hint(column);
    char shown[CSV_SHOWN_SIZE];

    if (hint)
        reader_warn(config, "%s: the texts of the column \"%s\", such as %s, are categories; %s",
                    column->first_word_path,
                    csv_cell_show(column->name, strlen(column->name), shown), column->first_word,
                    hint);
}

/* "Name (texts that hardly ever return), …" */
struct left_out {
    char text[1024];
    size_t used;
    int32_t count;
};

static void left_out_add(struct left_out *list, const struct table_column *column,
                         const char *reason)
{
    const char *hint = table_column_hint(column);
    char shown[CSV_SHOWN_SIZE];

    if (list->count++ < LEFT_OUT_SHOWN_MAX && list->used < sizeof list->text)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s\"%s\" (%s%s%s)", list->count > 1 ? ", " : "",
                                       csv_cell_show(column->name, strlen(column->name), shown),
                                       reason, hint ? "; " : "", hint ? hint : "");
}

int table_columns_decide(struct table_columns *columns, const struct dataset_config *config,
                         int64_t rows, struct error *error)
{
    struct left_out left_out = {0};
    const char *reason;

    for (int32_t i = 0; i < columns->count; i++) {
        struct table_column *column = &columns->columns[i];
        int r = table_column_decide(column, config, rows, &reason, error);

        if (r == 0 && column->kind == TABLE_CATEGORY)
            r = adopt_categories(column, error);
        if (r == 0 && column->kind == TABLE_NUMBER)
            r = table_bins_find(&column->sample, config->table.bins, &column->edges,
                                &column->edge_count, error);
        table_sample_release(&column->sample);
        if (r < 0)
            return r;
        if (reason)
            left_out_add(&left_out, column, reason);
        else
            warn_of_categories(column, config);
        column->marks_missing = column->missing > 0 && column->kind != TABLE_LEFT_OUT &&
                                config->table.missing == DATASET_MISSING_INDICATE;
        set_mean(column);
        label_names_release(&column->texts);
    }
    table_columns_number(columns);
    if (columns->features == 0)
        return error_set(error, -EINVAL,
                         "%s:1: no column is left that a model can learn from: %s%s",
                         config->paths[0],
                         rows == 0        ? "the table has no row"
                         : left_out.count ? left_out.text
                                          : "all are ignored or to be predicted",
                         columns->count == 1 ? "; is the delimiter right?" : "");
    if (left_out.count > LEFT_OUT_SHOWN_MAX)
        reader_warn(config, "columns are left out: %s and %d more", left_out.text,
                    left_out.count - LEFT_OUT_SHOWN_MAX);
    else if (left_out.count)
        reader_warn(config, "columns are left out: %s", left_out.text);
    return 0;
}
