/* json_print.c: JSON as text, and doubles in the fewest digits; see json.h. */
#include "base/memory.h"
#include "base/text.h"
#include "proto/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *json_text(struct json_object *object, size_t *length)
{
    size_t unused;
    const char *text = json_object_to_json_string_length(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, length ? length : &unused);

    if (!text)
        memory_exhausted(0);
    return text;
}

/* The code point of the character at `text`, and its length; U+FFFD for a byte that is not
 * UTF-8. */
static unsigned code_point(const char *text, size_t *length)
{
    const unsigned char *c = (const unsigned char *)text;

    *length = text_character_length(text);
    switch (*length) {
    case 1:
        return c[0];
    case 2:
        return (c[0] & 0x1Fu) << 6 | (c[1] & 0x3Fu);
    case 3:
        return (c[0] & 0x0Fu) << 12 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
    default:
        *length = 1;
        return 0xFFFD;
    }
}

/* Characters outside JSON's strings are printable ASCII and line breaks, so only strings change. */
static void text_print(const char *text, FILE *output)
{
    while (*text) {
        const char *start = text;
        size_t length = 1;

        while (*text && length > 0) {
            length = *text == '\n' ? 1 : text_printable_length(text);
            text += length;
        }
        fwrite(start, 1, (size_t)(text - start), output);
        if (*text) {
            fprintf(output, "\\u%04x", code_point(text, &length));
            text += length;
        }
    }
    fputc('\n', output);
}

void json_print(struct json_object *object, FILE *output)
{
    text_print(json_text(object, NULL), output);
}

void json_print_indented(struct json_object *object, FILE *output)
{
    text_print(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                          JSON_C_TO_STRING_SPACED |
                                                          JSON_C_TO_STRING_NOSLASHESCAPE),
               output);
}

/* 0.001 up to, but without, 1e14: %g writes such a number without an exponent, and all products
 * below have less than 128 bits. Times are among them, and most of what a message says. */
static const double powers_of_ten[] = {1e-3, 1e-2, 1e-1, 1e0, 1e1,  1e2,  1e3,  1e4,  1e5,
                                       1e6,  1e7,  1e8,  1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
enum { POWERS = sizeof powers_of_ten / sizeof *powers_of_ten, LEAST_POWER = -3 };

/* A positive double m * 2^-shift beside the decimal number that it is rounded to: decimal /
 * 10^places. */
struct decimal {
    uint64_t mantissa, scale, number; /* m, 10^places, the decimal's digits */
    int shift, places;
};

/* Rounds to `places` as printf does, exactly. True: strtod() gives the same double again, because
 * no other is as close. */
static bool decimal_round(struct decimal *decimal)
{
    unsigned __int128 product = (unsigned __int128)decimal->mantissa * decimal->scale;
    uint64_t unit = 1ULL << decimal->shift, rest = (uint64_t)product & (unit - 1);
    bool up;

    decimal->number = (uint64_t)(product >> decimal->shift);
    up = rest > unit / 2 || (rest == unit / 2 && decimal->number % 2 == 1);
    decimal->number += up;
    /* Half way to a neighbour has over 20 digits, so there are no ties. A power of two, whose
     * neighbour below is nearer, is exact with 15 digits. */
    return (unsigned __int128)(up ? unit - rest : rest) * 2 < decimal->scale;
}

static void decimal_print(const struct decimal *decimal, bool negative, char *text, size_t size)
{
    uint64_t whole = decimal->number / decimal->scale, part = decimal->number % decimal->scale;
    char digits[JSON_DOUBLE_BYTES], *at = digits + sizeof digits;
    int places = decimal->places;

    for (; places > 1 && part % 10 == 0; places--)
        part /= 10;
    *--at = '\0';
    for (; places > 0; places--, part /= 10)
        *--at = (char)('0' + part % 10);
    *--at = '.';
    do
        *--at = (char)('0' + whole % 10);
    while (whole /= 10);
    if (negative)
        *--at = '-';
    snprintf(text, size, "%s", at);
}

/* json_format_double() for the numbers of powers_of_ten[], in a tenth of the time. */
static bool format_usual(double value, char *text, size_t size)
{
    double positive = fabs(value);
    struct decimal decimal;
    int power = 0, exponent;

    if (!(positive >= powers_of_ten[0] && positive < powers_of_ten[POWERS - 1]))
        return false;
    while (positive >= powers_of_ten[power + 1])
        power++;
    decimal.mantissa = (uint64_t)ldexp(frexp(positive, &exponent), DBL_MANT_DIG);
    decimal.shift = DBL_MANT_DIG - exponent;
    decimal.places = 15 - 1 - (power + LEAST_POWER);
    decimal.scale = 1;
    for (int i = 0; i < decimal.places; i++)
        decimal.scale *= 10;
    for (int digits = 15; digits <= 17; digits++, decimal.places++, decimal.scale *= 10)
        if (decimal_round(&decimal)) {
            decimal_print(&decimal, value < 0, text, size);
            return true;
        }
    return false;
}

/* %.15g strips trailing zeros. So a normal double whose shortest text has up to 15 digits is
 * printed as that text. Subnormal numbers have fewer significant digits. */
char *json_format_double(double value, char *text, size_t size)
{
    char shortest[JSON_DOUBLE_BYTES];
    char *comma;

    if (format_usual(value, text, size))
        return text;
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*g", digits, value);
        if (strtod(shortest, NULL) == value)
            break;
    }
    comma = strchr(shortest, ','); /* the decimal point of some locales */
    if (comma)
        *comma = '.';
    snprintf(text, size, "%s%s", shortest, strpbrk(shortest, ".e") ? "" : ".0");
    return text;
}

static int double_serialise(struct json_object *object, struct printbuf *buffer, int level,
                            int flags)
{
    char text[JSON_DOUBLE_BYTES];

    (void)level;
    (void)flags;
    json_format_double(json_object_get_double(object), text, sizeof text);
    return printbuf_memappend(buffer, text, (int)strlen(text));
}

struct json_object *json_new_double(double value)
{
    struct json_object *object;

    if (!isfinite(value))
        return NULL;
    object = json_object_new_double(value);
    if (!object)
        memory_exhausted(0);
    json_object_set_serializer(object, double_serialise, NULL, NULL);
    return object;
}
