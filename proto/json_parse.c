/* json_parse.c: strict parsing; see json.h. json-c's strict mode still accepts numbers such as `1.`
 * and `NaN`, quotes such as 'a', and control characters and single surrogates in strings. It also
 * saturates large integers and drops the first of two equal keys. A pass over the tokens refuses
 * all of these. */
#include "base/file.h"
#include "base/text.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
