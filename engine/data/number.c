/* number.c: converts decimal text to double. Nearly all numbers are short and take Clinger's fast
 * path ("How to read floating point numbers accurately", PLDI 1990). A mantissa up to 2^53 and a
 * power of ten up to 10^22 are exact doubles, so that one multiplication rounds correctly. All
 * other numbers go to strtod() in the C locale. */
#include "engine/data/reader.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_LENGTH_MAX = 127, MANTISSA_DIGITS_MAX = 19, EXPONENT_MAX = 9999 };

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static const char *number_parse_slowly(const char *text, const char *end, double *value)
{
    char copy[NUMBER_LENGTH_MAX + 1];
    size_t length = (size_t)(end - text);

    if (length > NUMBER_LENGTH_MAX)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    pthread_once(&c_locale_once, make_c_locale);
    if (!c_locale)
        return NULL;
    *value = strtod_l(copy, NULL, c_locale);
    return end;
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the exponent behind "e". NULL: no digit follows. */
static const char *exponent_parse(const char *text, const char *end, int *exponent)
{
    bool negative = false;
    int value = 0;

    if (text < end && (*text == '+' || *text == '-'))
        negative = *text++ == '-';
    if (text == end || !is_digit(*text))
        return NULL;
    for (; text < end && is_digit(*text); text++)
        if (value < EXPONENT_MAX)
            value = value * 10 + (*text - '0');
    *exponent = negative ? -value : value;
    return text;
}

char *number_format(double value, char text[NUMBER_TEXT_BYTES])
{
    double again = 0;

    for (int digits = 15; digits <= 17; digits++) {
        size_t length = (size_t)snprintf(text, NUMBER_TEXT_BYTES, "%.*g", digits, value);

        if (number_parse(text, text + length, &again) && again == value)
            break;
    }
    return text;
}

const char *number_parse(const char *text, const char *end, double *value)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *start = text;
    uint64_t mantissa = 0;
    int scale = 0, exponent = 0, significant = 0;
    bool negative = false, any = false;

    if (text < end && (*text == '+' || *text == '-'))
        negative = *text++ == '-';
    for (; text < end && is_digit(*text); text++, any = true) {
        if (significant < MANTISSA_DIGITS_MAX)
            mantissa = mantissa * 10 + (uint64_t)(*text - '0');
        significant += mantissa > 0;
    }
    if (text < end && *text == '.') {
        for (text++; text < end && is_digit(*text); text++, any = true) {
            if (significant < MANTISSA_DIGITS_MAX) {
                mantissa = mantissa * 10 + (uint64_t)(*text - '0');
                scale--;
            }
            significant += mantissa > 0;
        }
    }
    if (!any)
        return NULL;
    if (text < end && (*text == 'e' || *text == 'E')) {
        text = exponent_parse(text + 1, end, &exponent);
        if (!text)
            return NULL;
    }
    exponent += scale;
    if (significant > MANTISSA_DIGITS_MAX || mantissa > 1ull << 53 || exponent < -22 ||
        exponent > 22)
        return number_parse_slowly(start, text, value);
    double magnitude = (double)mantissa;
    magnitude = exponent < 0 ? magnitude / power[-exponent] : magnitude * power[exponent];
    *value = negative ? -magnitude : magnitude;
    return text;
}
