/* json.c: see json.h. json-c's strict mode still accepts numbers such as `1.` and `NaN`, quotes
 * such as 'a', and control characters and single surrogates in strings. It also saturates large
 * integers and drops the first of two equal keys. A pass over the tokens refuses all of these. */
#include "proto/json.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tokens -------------------------------------------------------------------------------- */

struct json_scan {
    const char *text, *end, *at;
    int depth;
    size_t members; /* colons outside strings; fewer members in the tree mean a duplicate key */
    size_t string_bytes; /* of keys and strings, without quotes, escapes resolved */
    struct error *error;
};

static int scan_fail(const struct json_scan *scan, const char *at, int code, const char *what)
{
    size_t line = 1, column = 1;

    for (const char *c = scan->text; c < at; c++) {
        if (*c == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*c & 0xC0) != 0x80) {
            column++;
        }
    }
    return error_set(scan->error, code, "line %zu, column %zu: %s", line, column, what);
}

static int hexadecimal_quad(const char *digits, const char *end)
{
    int value = 0;

    if (end - digits < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = digits[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* `at` is after the "\u". */
static int scan_unicode_escape(struct json_scan *scan)
{
    int unit = hexadecimal_quad(scan->at, scan->end);

    if (unit < 0)
        return scan_fail(scan, scan->at, -EINVAL, "\\u needs four hexadecimal digits");
    if (unit == 0)
        return scan_fail(scan, scan->at, -EINVAL, "a string must not contain the character NUL");
    scan->at += 4;
    scan->string_bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        int low = -1;

        if (scan->end - scan->at >= 6 && scan->at[0] == '\\' && scan->at[1] == 'u')
            low = hexadecimal_quad(scan->at + 2, scan->end);
        if (low < 0xDC00 || low > 0xDFFF)
            return scan_fail(scan, scan->at, -EINVAL, "half of a surrogate pair in a string");
        scan->at += 6;
        scan->string_bytes++; /* both halves together have four in UTF-8 */
    } else if (unit >= 0xDC00 && unit <= 0xDFFF) {
        return scan_fail(scan, scan->at, -EINVAL, "half of a surrogate pair in a string");
    }
    return 0;
}

/* `at` begins on the opening quote and ends after the closing one. */
static int scan_string(struct json_scan *scan)
{
    const char *opening = scan->at++;

    while (scan->at < scan->end && *scan->at != '"') {
        if ((unsigned char)*scan->at < 0x20)
            return scan_fail(scan, scan->at, -EINVAL, "a control character in a string");
        if (*scan->at++ != '\\') {
            scan->string_bytes++;
            continue;
        }
        if (scan->at == scan->end)
            break;
        if (*scan->at == 'u') {
            int r;

            scan->at++;
            r = scan_unicode_escape(scan);
            if (r < 0)
                return r;
        } else if (!*scan->at || !strchr("\"\\/bfnrt", *scan->at)) {
            return scan_fail(scan, scan->at, -EINVAL, "no such escape in a string");
        } else {
            scan->at++;
            scan->string_bytes++;
        }
    }
    if (scan->at >= scan->end)
        return scan_fail(scan, opening, -EINVAL, "the string that begins here has no end");
    scan->at++;
    return 0;
}

static bool scan_digits(struct json_scan *scan)
{
    const char *first = scan->at;

    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return scan->at > first;
}

/* number = [ "-" ] int [ frac ] [ exp ] of RFC 8259, within int64 or finite. */
static int scan_number(struct json_scan *scan)
{
    const char *first = scan->at;
    bool integer = true, valid;
    char copy[64];
    size_t length;

    if (*scan->at == '-')
        scan->at++;
    if (scan->at < scan->end && *scan->at == '0') {
        scan->at++;
        valid = true;
    } else {
        valid = scan_digits(scan);
    }
    if (valid && scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        integer = false;
        valid = scan_digits(scan);
    }
    if (valid && scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        integer = false;
        if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-'))
            scan->at++;
        valid = scan_digits(scan);
    }
    if (!valid || (scan->at < scan->end && strchr("0123456789.+-eE", *scan->at) && *scan->at))
        return scan_fail(scan, first, -EINVAL, "this is not a JSON number");
    length = (size_t)(scan->at - first);
    if (length >= sizeof copy)
        return scan_fail(scan, first, -EINVAL, "a number of more than 63 characters");
    memcpy(copy, first, length);
    copy[length] = '\0';
    errno = 0;
    if (integer) {
        (void)strtoll(copy, NULL, 10);
        if (errno == ERANGE)
            return scan_fail(scan, first, -EINVAL,
                             "an integer beyond 64 bits (-9223372036854775808 to "
                             "9223372036854775807)");
    } else if (!isfinite(strtod(copy, NULL))) {
        return scan_fail(scan, first, -EINVAL, "a number beyond the range of a double");
    }
    return 0;
}

static int scan_word(struct json_scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *first = scan->at;
    size_t length;

    while (scan->at < scan->end &&
           ((*scan->at >= 'a' && *scan->at <= 'z') || (*scan->at >= 'A' && *scan->at <= 'Z')))
        scan->at++;
    length = (size_t)(scan->at - first);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (length == strlen(words[i]) && memcmp(first, words[i], length) == 0)
            return 0;
    return scan_fail(scan, first, -EINVAL,
                     "this is not JSON: text needs double quotes, and the only bare words are "
                     "true, false and null");
}

/* One token or one white-space character. */
static int scan_token(struct json_scan *scan)
{
    char c = *scan->at;

    if (c == '"')
        return scan_string(scan);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(scan);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return scan_word(scan);
    if (c == '{' || c == '[') {
        if (++scan->depth > JSON_DEPTH_MAX)
            return scan_fail(scan, scan->at, -EMSGSIZE, "nested more than 32 levels deep");
    } else if (c == '}' || c == ']') {
        scan->depth--;
    } else if (c == ':') {
        scan->members++;
    } else if (c == '\0' || !strchr(", \t\r\n", c)) {
        return scan_fail(scan, scan->at, -EINVAL, "a character that JSON does not have here");
    }
    scan->at++;
    return 0;
}

static int scan_all(struct json_scan *scan)
{
    size_t valid = text_utf8_prefix(scan->text, (size_t)(scan->end - scan->text));

    if (scan->text + valid < scan->end)
        return scan_fail(scan, scan->text + valid, -EINVAL, "invalid UTF-8");
    while (scan->at < scan->end) {
        int r = scan_token(scan);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- duplicate keys ------------------------------------------------------------------------ */

/* Members of all objects; adds the bytes of their keys, and of all strings, to `string_bytes`. */
static size_t members_of(struct json_object *object, size_t *string_bytes)
{
    size_t count = 0;

    if (json_object_is_type(object, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(object); i++)
            count += members_of(json_object_array_get_idx(object, i), string_bytes);
    } else if (json_object_is_type(object, json_type_object)) {
        json_object_object_foreach (object, key, value) {
            *string_bytes += strlen(key);
            count += 1 + members_of(value, string_bytes);
        }
    } else if (json_object_is_type(object, json_type_string)) {
        *string_bytes += (size_t)json_object_get_string_len(object);
    }
    return count;
}

static int parse_no_memory(size_t length, struct error *error)
{
    return error_no_memory(error, "%zu bytes of JSON", length);
}

/* Adds the key whose quoted text begins at `quoted` to `keys`: 1 when it was there already, its
 * name then in `shown`; -ENOMEM. */
static int key_add(struct json_object *keys, const char *quoted, size_t length, char *shown,
                   size_t shown_size)
{
    struct json_tokener *tokener = json_tokener_new();
    JSON_AUTO struct json_object *key =
        tokener ? json_tokener_parse_ex(tokener, quoted, (int)length) : NULL;
    const char *name = json_object_get_string(key);

    if (tokener)
        json_tokener_free(tokener);
    if (!name || !keys)
        return -ENOMEM;
    if (!json_object_object_get_ex(keys, name, NULL))
        return json_object_object_add(keys, name, NULL) < 0 ? -ENOMEM : 0;
    text_escape_controls(name, shown, shown_size);
    return 1;
}

/* Goes once more over a text of which json-c has made fewer members than it has, with the set of
 * keys seen in each object that is open, to name the key that comes twice. If none does, json-c had
 * no memory for a member and did not say so. */
static int duplicate_report(const char *text, size_t length, struct error *error)
{
    struct json_scan scan = {.text = text, .end = text + length, .at = text, .error = error};
    struct json_object *seen[JSON_DEPTH_MAX + 1] = {NULL};
    const char *string = text;
    size_t string_length = 0;
    int r = 0;

    while (r == 0 && scan.at < scan.end) {
        const char *token = scan.at;
        char shown[128], sentence[160];

        if (scan_token(&scan) < 0)
            break;
        if (*token == '{') {
            json_object_put(seen[scan.depth]);
            seen[scan.depth] = json_object_new_object();
        } else if (*token == '"') {
            string = token;
            string_length = (size_t)(scan.at - token);
        } else if (*token == ':') {
            r = key_add(seen[scan.depth], string, string_length, shown, sizeof shown);
            if (r > 0) {
                snprintf(sentence, sizeof sentence, "the key \"%s\" is there twice", shown);
                r = scan_fail(&scan, string, -EINVAL, sentence);
            }
        }
    }
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        json_object_put(seen[i]);
    return r == -EINVAL ? r : parse_no_memory(length, error);
}

/* ---- parse --------------------------------------------------------------------------------- */

static void tokener_cleanup(struct json_tokener **tokener)
{
    if (*tokener)
        json_tokener_free(*tokener);
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

int json_parse(const char *text, size_t length, struct json_object **object, struct error *error)
{
    struct json_scan scan = {.text = text, .end = text + length, .at = text, .error = error};
    CLEANUP(tokener_cleanup) struct json_tokener *tokener = NULL;
    JSON_AUTO struct json_object *parsed = NULL;
    enum json_tokener_error verdict;
    size_t string_bytes = 0;
    const char *end;
    int r;

    *object = NULL;
    if (length > INT_MAX)
        return error_set(error, -EINVAL, "JSON of more than 2 GiB");
    r = scan_all(&scan);
    if (r < 0)
        return r;
    tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 2);
    if (!tokener)
        return parse_no_memory(length, error);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    parsed = json_tokener_parse_ex(tokener, text, (int)length);
    verdict = json_tokener_get_error(tokener);
    end = text + json_tokener_get_parse_end(tokener);
    if (verdict == json_tokener_continue) { /* only a NUL ends a number at the end */
        parsed = json_tokener_parse_ex(tokener, "", 1);
        if (json_tokener_get_error(tokener) != json_tokener_success)
            return scan_fail(&scan, scan.end, -EINVAL,
                             length ? "the text ends in the middle" : "the text is empty");
        verdict = json_tokener_success;
    }
    if (verdict != json_tokener_success)
        return scan_fail(&scan, end, -EINVAL, json_tokener_error_desc(verdict));
    /* json-c stops without an error, and makes null, where it has no memory for a value */
    if (skip_blanks(end, scan.end) < scan.end || (!parsed && *skip_blanks(text, scan.end) != 'n'))
        return parse_no_memory(length, error);
    if (members_of(parsed, &string_bytes) != scan.members)
        return duplicate_report(text, length, error);
    if (string_bytes != scan.string_bytes) /* it cuts a string likewise */
        return parse_no_memory(length, error);
    *object = TAKE_POINTER(parsed);
    return 0;
}

int json_parse_file(const char *path, size_t limit, struct json_object **object,
                    struct error *error)
{
    AUTO_FREE char *content = NULL;
    size_t size;
    int r = file_read(AT_FDCWD, path, limit, &content, &size, error);

    *object = NULL;
    if (r < 0)
        return r;
    r = json_parse(content, size, object, error);
    return r < 0 ? error_prefix(error, "%s", path) : 0;
}

/* ---- text ---------------------------------------------------------------------------------- */

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

/* ---- members ------------------------------------------------------------------------------- */

void json_set(struct json_object *parent, const char *key, struct json_object *value)
{
    if (json_object_object_add(parent, key, value) < 0)
        memory_exhausted(0);
}

/* json_set() of a value that json-c has just made; NULL: there was no memory for it. */
static void set_new(struct json_object *parent, const char *key, struct json_object *value)
{
    if (!value)
        memory_exhausted(0);
    json_set(parent, key, value);
}

void json_set_string(struct json_object *parent, const char *key, const char *value)
{
    if (value)
        set_new(parent, key, json_object_new_string(value));
    else
        json_set(parent, key, NULL);
}

void json_set_int(struct json_object *parent, const char *key, int64_t value)
{
    set_new(parent, key, json_object_new_int64(value));
}

void json_set_double(struct json_object *parent, const char *key, double value)
{
    json_set(parent, key, json_new_double(value));
}

void json_set_bool(struct json_object *parent, const char *key, bool value)
{
    set_new(parent, key, json_object_new_boolean(value));
}

struct json_object *json_get(struct json_object *parent, const char *key)
{
    struct json_object *value = NULL;

    if (json_object_is_type(parent, json_type_object))
        json_object_object_get_ex(parent, key, &value);
    return value;
}

const char *json_get_string(struct json_object *parent, const char *key, const char *absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : absent;
}

int64_t json_get_int(struct json_object *parent, const char *key, int64_t absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : absent;
}

double json_get_double(struct json_object *parent, const char *key, double absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int)
               ? json_object_get_double(value)
               : absent;
}

bool json_get_bool(struct json_object *parent, const char *key, bool absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_boolean) ? json_object_get_boolean(value) : absent;
}

void json_flatten(struct json_object *object, const char *prefix, struct json_object *to)
{
    enum { PATH_BYTES = 512 };

    if (!json_object_is_type(object, json_type_object))
        return;
    json_object_object_foreach (object, key, value) {
        char path[PATH_BYTES];

        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_object_is_type(value, json_type_object))
            json_flatten(value, path, to);
        else if (value)
            json_set(to, path, json_object_get(value));
    }
}
