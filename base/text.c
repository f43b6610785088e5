/* text.c: see text.h. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

size_t text_character_length(const char *text)
{
    size_t length = 1;

    while (length < 4 && ((unsigned char)text[length] & 0xC0) == 0x80)
        length++;
    for (; length > 0; length--)
        if (text_utf8_prefix(text, length) == length)
            break;
    return (unsigned char)*text < 0x80 ? 1 : length;
}

/* Whether the UTF-8 character of `length` bytes at `text` reorders text on a terminal or breaks the
 * line: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
static bool is_format_control(const char *text, size_t length)
{
    const unsigned char *c = (const unsigned char *)text;

    if (length == 2)
        return c[0] == 0xD8 && c[1] == 0x9C;
    if (length != 3 || c[0] != 0xE2)
        return false;
    return (c[1] == 0x80 && (c[2] == 0x8E || c[2] == 0x8F || (c[2] >= 0xA8 && c[2] <= 0xAE))) ||
           (c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9);
}

/* U+0080 to U+009F: 0xC2 0x80…0x9F in UTF-8 */
static bool is_c1_control(const char *text, size_t length)
{
    return length == 2 && (unsigned char)text[0] == 0xC2 && (unsigned char)text[1] <= 0x9F;
}

size_t text_printable_length(const char *text)
{
    size_t length;

    if (*text >= 0x20 && *text < 0x7F) /* most of every log line */
        return 1;
    length = text_character_length(text);
    if ((unsigned char)*text < 0x20 || *text == 0x7F || is_c1_control(text, length) ||
        is_format_control(text, length))
        return 0;
    return length;
}

bool text_is_printable(const char *text)
{
    size_t length = 1;

    while (*text && length) {
        length = text_printable_length(text);
        text += length;
    }
    return *text == '\0';
}

size_t text_escape_character(const char *text, char output[5])
{
    /* the second byte of a C1 control is its code point */
    size_t skipped = is_c1_control(text, text_character_length(text));

    sprintf(output, "\\x%02x", (unsigned char)text[skipped]);
    return skipped + 1;
}

size_t text_fit(const char *text, size_t width, char *output, size_t size)
{
    size_t used = 0, characters = 0;

    while (*text && characters < width && used + 5 <= size) {
        size_t length = text_printable_length(text);

        if (length) {
            memcpy(output + used, text, length);
            used += length;
            text += length;
            characters++;
            continue;
        }
        if (width - characters < 4)
            break;
        text += text_escape_character(text, output + used);
        used += 4;
        characters += 4;
    }
    if (size)
        output[used] = '\0';
    return characters;
}

char *text_escape_controls(const char *text, char *output, size_t size)
{
    text_fit(text, SIZE_MAX, output, size);
    return output;
}

char *text_make_utf8(char *text)
{
    size_t length = strlen(text), valid = 0;

    while ((valid += text_utf8_prefix(text + valid, length - valid)) < length)
        text[valid++] = '?';
    return text;
}

/* Optimal string alignment distance (Damerau-Levenshtein without repeated edits of one substring),
 * three rolling rows. Words longer than the rows get SIZE_MAX. */
enum { NEAREST_WORD_MAX = 63 };

static size_t text_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_WORD_MAX + 1], length_a = strlen(a), length_b = strlen(b);

    if (length_a > NEAREST_WORD_MAX || length_b > NEAREST_WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= length_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= length_a; i++) {
        size_t *before = rows[(i + 1) % 3], *above = rows[(i - 1) % 3], *row = rows[i % 3];

        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[length_a % 3][length_b];
}

const char *text_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t smallest = SIZE_MAX, allowed = strlen(word) / 3;

    if (allowed < 2)
        allowed = 2;
    for (size_t i = 0; i < count; i++) {
        size_t distance = text_distance(word, names[i]), length = strlen(names[i]);

        /* "lrate" for "lr", "valid" for "validation_fraction" */
        if (distance > 1 && length >= 2 && strlen(word) >= 2 &&
            strncmp(word, names[i], length < strlen(word) ? length : strlen(word)) == 0)
            distance = 1;

        if (distance < smallest) {
            smallest = distance;
            nearest = names[i];
        }
    }
    return smallest <= allowed ? nearest : NULL;
}

char *text_format_bytes(uint64_t bytes, char *output, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1023.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(output, size, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return output;
}

char *text_format_duration(double seconds, char *output, size_t size)
{
    if (!isfinite(seconds))
        snprintf(output, size, "?");
    else if (seconds < 1e-3)
        snprintf(output, size, "%.1f µs", seconds * 1e6);
    else if (seconds < 1)
        snprintf(output, size, "%.1f ms", seconds * 1e3);
    else if (seconds < 59.95)
        snprintf(output, size, "%.1f s", seconds);
    else if (seconds < 3599.5)
        snprintf(output, size, "%.0f min %02.0f s", floor(round(seconds) / 60),
                 fmod(round(seconds), 60));
    else
        snprintf(output, size, "%.0f h %02.0f min", floor(round(seconds / 60) / 60),
                 fmod(round(seconds / 60), 60));
    return output;
}

struct text_unit {
    const char *name;
    double factor;
};

static int text_parse_with_unit(const char *text, const struct text_unit *units, size_t count,
                                double *value)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(text, &end);
    if (end == text || errno || !isfinite(number) || number < 0)
        return -EINVAL;
    while (isspace((unsigned char)*end))
        end++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name) == 0) {
            *value = number * units[i].factor;
            return 0;
        }
    }
    return -EINVAL;
}

int text_parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct text_unit units[] = {
        {"", 1},        {"b", 1},        {"k", 0x1p10},   {"kib", 0x1p10}, {"kb", 0x1p10},
        {"m", 0x1p20},  {"mib", 0x1p20}, {"mb", 0x1p20},  {"g", 0x1p30},   {"gib", 0x1p30},
        {"gb", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40}, {"tb", 0x1p40},
    };
    double value;

    if (text_parse_with_unit(text, units, sizeof units / sizeof *units, &value) < 0 ||
        value >= 0x1p63)
        return -EINVAL;
    *bytes = (uint64_t)value;
    return 0;
}

int text_parse_duration(const char *text, double *seconds)
{
    static const struct text_unit units[] = {
        {"", 1},         {"s", 1},        {"sec", 1},     {"second", 1},   {"seconds", 1},
        {"ms", 1e-3},    {"us", 1e-6},    {"m", 60},      {"min", 60},     {"minute", 60},
        {"minutes", 60}, {"h", 3600},     {"hour", 3600}, {"hours", 3600}, {"d", 86400},
        {"day", 86400},  {"days", 86400},
    };

    return text_parse_with_unit(text, units, sizeof units / sizeof *units, seconds);
}

size_t text_utf8_prefix(const char *text, size_t length)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + length;

    while (c < end) {
        size_t following;
        unsigned char lowest = 0x80, highest = 0xBF;

        if (*c < 0x80) {
            c++;
            continue;
        }
        if (*c >= 0xC2 && *c <= 0xDF) {
            following = 1;
        } else if (*c >= 0xE0 && *c <= 0xEF) {
            following = 2;
            if (*c == 0xE0)
                lowest = 0xA0;
            if (*c == 0xED)
                highest = 0x9F;
        } else if (*c >= 0xF0 && *c <= 0xF4) {
            following = 3;
            if (*c == 0xF0)
                lowest = 0x90;
            if (*c == 0xF4)
                highest = 0x8F;
        } else {
            break;
        }
        if ((size_t)(end - c) <= following || c[1] < lowest || c[1] > highest ||
            (following > 1 && (c[2] & 0xC0) != 0x80) || (following > 2 && (c[3] & 0xC0) != 0x80))
            break;
        c += following + 1;
    }
    return (size_t)((const char *)c - text);
}

bool text_is_utf8(const char *text, size_t length)
{
    return text_utf8_prefix(text, length) == length;
}

void text_print_wrapped(const char *first, const char *prefix, const char *text, size_t width,
                        FILE *output)
{
    for (const char *begin = first; *text; begin = prefix) {
        size_t used = strlen(begin), room = width > used ? width - used : 0;
        size_t length = strlen(text);

        if (length > room) {
            for (length = room; length > 0 && text[length] != ' ';)
                length--;
            while (length > 0 && text[length - 1] == ' ')
                length--;
            if (length == 0) /* one long word */
                length = strcspn(text, " ");
        }
        fprintf(output, "%s%.*s\n", begin, (int)length, text);
        text += length + strspn(text + length, " ");
    }
}
