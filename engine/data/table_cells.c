/* table_cells.c: what a cell of a table says: nothing, or a number as people write it; see
 * table_columns.h. */
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { NUMBER_LENGTH_MAX = 127 };

void table_text_trim(const char **text, size_t *length)
{
    while (*length && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*length;
    }
    while (*length && ((*text)[*length - 1] == ' ' || (*text)[*length - 1] == '\t'))
        --*length;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

bool table_cell_is_missing(const struct dataset_config *config, const char *text, size_t length)
{
    /* pandas.read_csv(): its default na_values, and NaT of dates; "?" is that of the UCI
     * repository */
    static const char *const words[] = {"?",        "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                        "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                        "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                        "None",     "n/a",  "nan",      "null",   "NaT"};
    enum { WORD_BYTES_MAX = 8 };
    const char *whole = text;
    size_t whole_length = length;

    table_text_trim(&text, &length);
    if (length == 0)
        return true;
    if (config->table.missing_words) {
        for (int i = 0; i < config->table.missing_word_count; i++)
            if (is_word(text, length, config->table.missing_words[i]) ||
                is_word(whole, whole_length, config->table.missing_words[i]))
                return true;
        return false;
    }
    if (length > WORD_BYTES_MAX || (*text >= '0' && *text <= '9' && *text != '1'))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(text, length, words[i]))
            return true;
    return false;
}

/* Signs of currencies, and that of hundredths. */
static const struct sign {
    const char *text;
    enum table_unit unit;
} signs[] = {{"$", TABLE_DOLLAR},   {"\u20ac", TABLE_EURO},  {"\u00a3", TABLE_POUND},
             {"\u00a5", TABLE_YEN}, {"\u20b9", TABLE_RUPEE}, {"%", TABLE_PERCENT}};

static bool begins(const char *at, const char *end, const char *text)
{
    size_t length = strlen(text);

    return (size_t)(end - at) >= length && memcmp(at, text, length) == 0;
}

/* Blanks between a number and its sign, also those that do not break. */
static const char *skip_blanks(const char *at, const char *end)
{
    static const char *const blanks[] = {" ", "\u00a0", "\u202f"};

    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++)
        if (begins(at, end, blanks[i]))
            return at + strlen(blanks[i]);
    return at;
}

static const char *take_unit(const char *at, const char *end, enum table_unit *unit)
{
    for (size_t i = 0; *unit == TABLE_NO_UNIT && i < sizeof signs / sizeof *signs; i++)
        if (begins(at, end, signs[i].text)) {
            *unit = signs[i].unit;
            return at + strlen(signs[i].text);
        }
    return at;
}

/* Reads "-", "+" or the minus of Unicode. */
static const char *take_sign(const char *at, const char *end, bool *negative)
{
    static const char minus[] = "\u2212";

    if (at < end && (*at == '-' || *at == '+')) {
        *negative = *at == '-';
        return at + 1;
    }
    *negative = begins(at, end, minus);
    return *negative ? at + sizeof minus - 1 : at;
}

/* Leaves out what parts thousands: three digits each, from the end of the whole part on. False: the
 * digits are parted otherwise, or it may be the decimal sign. */
static bool ungroup(char *digits, enum dataset_decimal rule)
{
    char group = rule == DATASET_DECIMAL_COMMA ? '.' : ',',
         decimal = rule == DATASET_DECIMAL_COMMA ? ',' : '.';
    size_t length = strcspn(digits, (char[]){group, decimal, '\0'});
    int groups = 0;
    char *to = digits + length, *from = to;

    if (*from == group && (length == 0 || length > 3 || *digits == '0'))
        return false;
    for (; *from == group; groups++, from += 4, to += 3) {
        if (strspn(from + 1, "0123456789") != 3)
            return false;
        memmove(to, from + 1, 3);
    }
    if (groups == 1 && *from != decimal && rule == DATASET_DECIMAL_AUTO)
        return false;
    if (groups && *from && *from != decimal)
        return false;
    memmove(to, from, strlen(from) + 1);
    if (*to == decimal)
        *to = '.';
    return true;
}

/* Takes the brackets that make a number negative in accounts; whether there are some. */
static bool take_brackets(const char **at, const char **end)
{
    if (*end - *at < 3 || **at != '(' || (*end)[-1] != ')')
        return false;
    *at = skip_blanks(*at + 1, *end);
    --*end;
    return true;
}

/* Reads what stands in front of the digits: sign or bracket, and the sign of a currency. */
static const char *take_front(const char *at, const char **end, bool *negative,
                              enum table_unit *unit)
{
    bool brackets = take_brackets(&at, end), has_sign = brackets;
    const char *after = at;

    *negative = brackets;
    if (!brackets) {
        after = take_sign(at, *end, negative);
        has_sign = *negative;
    }
    after = take_unit(after, *end, unit);
    if (!*unit)
        return after;
    after = skip_blanks(after, *end);
    if (!has_sign && take_brackets(&after, end))
        *negative = true;
    else if (!has_sign)
        after = take_sign(after, *end, negative);
    return after;
}

/* A number with the sign of a currency or of hundredths, parted thousands, a decimal comma, the
 * minus of Unicode, or brackets for a minus. */
static bool parse_written(const char *at, const char *end, enum dataset_decimal rule, double *value,
                          enum table_unit *unit)
{
    static const char letters[] = "0123456789.,eE+-";
    char digits[NUMBER_LENGTH_MAX + 1];
    bool negative;
    size_t length = 0;

    *unit = TABLE_NO_UNIT;
    at = take_front(at, &end, &negative, unit);
    if (*unit == TABLE_PERCENT)
        return false;
    while (at + length < end && at[length] && strchr(letters, at[length]))
        length++;
    if (length == 0 || length > NUMBER_LENGTH_MAX || !strchr("0123456789.,", *at))
        return false;
    memcpy(digits, at, length);
    digits[length] = '\0';
    at = take_unit(skip_blanks(at + length, end), end, unit);
    if (at != end || !ungroup(digits, rule) ||
        number_parse(digits, digits + strlen(digits), value) != digits + strlen(digits))
        return false;
    *value = negative ? -*value : *value;
    return true;
}

bool table_cell_number_with_unit(const struct dataset_config *config, const char *text,
                                 size_t length, double *value, enum table_unit *unit)
{
    bool is_plain, is_number;

    *unit = TABLE_NO_UNIT;
    table_text_trim(&text, &length);
    if (length == 0)
        return false;
    is_plain = (config->table.decimal != DATASET_DECIMAL_COMMA || !memchr(text, '.', length)) &&
               number_parse(text, text + length, value) == text + length; /* most are such */
    is_number = is_plain || parse_written(text, text + length, config->table.decimal, value, unit);
    /* a backend may have the processor take these for 0, after the bins have been made */
    if (is_number && fpclassify(*value) == FP_SUBNORMAL)
        *value = 0;
    return is_number;
}

bool table_cell_number(const struct dataset_config *config, const char *text, size_t length,
                       double *value)
{
    enum table_unit ignored;

    return table_cell_number_with_unit(config, text, length, value, &ignored);
}

bool table_cell_has_comma(const char *text, size_t length)
{
    enum table_unit ignored;
    double value;

    return length && parse_written(text, text + length, DATASET_DECIMAL_COMMA, &value, &ignored);
}

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at;
}

bool table_cell_may_be_number(const char *text, size_t length)
{
    enum { UNIT_BYTES_MAX = 4 }; /* "kg", "km/h" */
    const char *end = text + length, *at = text, *digits;
    bool negative;

    at = take_sign(at, end, &negative);
    if (begins(at, end, "0x") || begins(at, end, "0X")) {
        at += 2;
        digits = at;
        while (at < end && isxdigit((unsigned char)*at))
            at++;
        return at == end && at > digits;
    }
    digits = at;
    while (at < end && (isdigit((unsigned char)*at) || strchr("_.,' ", *at)))
        at++;
    return at > digits && isdigit((unsigned char)*digits) && end - at <= UNIT_BYTES_MAX;
}

bool table_cell_may_be_time(const char *text, size_t length)
{
    enum { HOUR_DIGITS_MAX = 4, PAIR = 3 /* ":05" */ };
    const char *end = text + length, *at = skip_digits(text, end);
    int pairs = 0;

    if (at == text || at - text > HOUR_DIGITS_MAX)
        return false;
    for (; at < end && *at == ':'; at += PAIR, pairs++)
        if (end - at < PAIR || skip_digits(at + 1, at + PAIR) < at + PAIR)
            return false;
    if (pairs && at < end && *at == '.')
        at = skip_digits(at + 1, end);
    at = skip_blanks(at, end);
    if (end - at == 2 && (at[1] == 'M' || at[1] == 'm') && strchr("AaPp", *at))
        return true; /* also "3 PM" */
    return pairs && at == end;
}

bool table_text_has_zeros(const char *text, size_t length)
{
    size_t digits = 0;

    while (digits < length && isdigit((unsigned char)text[digits]))
        digits++;
    return length > 1 && text[0] == '0' && digits == length;
}
