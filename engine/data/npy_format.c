/* npy_format.c: see npy_format.h. */
#include "engine/data/npy_format.h"

#include "base/half.h"
#include "base/text.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 6, KEY_MAX = 32, SHOWN_MAX = 64 };
static const char magic[MAGIC_BYTES] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const char *const npy_type_names[] = {
    [NPY_BOOL] = "bool",       [NPY_UINT8] = "uint8",     [NPY_INT8] = "int8",
    [NPY_UINT16] = "uint16",   [NPY_INT16] = "int16",     [NPY_UINT32] = "uint32",
    [NPY_INT32] = "int32",     [NPY_UINT64] = "uint64",   [NPY_INT64] = "int64",
    [NPY_FLOAT16] = "float16", [NPY_FLOAT32] = "float32", [NPY_FLOAT64] = "float64"};
DEFINE_STRING_TABLE(npy_type, enum npy_type, npy_type_names)

/* The type's code in the header's "descr", behind the byte order. */
static const char *const type_codes[] = {
    [NPY_BOOL] = "b1",  [NPY_UINT8] = "u1",   [NPY_INT8] = "i1",    [NPY_UINT16] = "u2",
    [NPY_INT16] = "i2", [NPY_UINT32] = "u4",  [NPY_INT32] = "i4",   [NPY_UINT64] = "u8",
    [NPY_INT64] = "i8", [NPY_FLOAT16] = "f2", [NPY_FLOAT32] = "f4", [NPY_FLOAT64] = "f8",
};

size_t npy_type_bytes(enum npy_type type)
{
    return (size_t)(type_codes[type][1] - '0');
}

bool npy_type_is_integer(enum npy_type type)
{
    return type_codes[type][0] != 'f';
}

bool npy_is(const void *bytes, size_t size)
{
    return size >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/* ---- the header ---- */

struct header {
    const char *at, *end;
    char descr[KEY_MAX];
    bool fortran_order, has_descr, has_order, has_shape;
};

static void skip_blanks(struct header *header)
{
    while (header->at < header->end && strchr(" \t\r\n", *header->at) && *header->at)
        header->at++;
}

static bool take(struct header *header, char wanted)
{
    skip_blanks(header);
    if (header->at == header->end || *header->at != wanted)
        return false;
    header->at++;
    return true;
}

static bool take_word(struct header *header, const char *word)
{
    size_t length = strlen(word);

    skip_blanks(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

/* Reads a text in single or double quotes, without escapes. */
static bool take_text(struct header *header, char text[KEY_MAX])
{
    char quote = take(header, '\'') ? '\'' : take(header, '"') ? '"' : '\0';
    const char *stop = quote ? memchr(header->at, quote, (size_t)(header->end - header->at)) : NULL;

    if (!stop || stop - header->at >= KEY_MAX)
        return false;
    memcpy(text, header->at, (size_t)(stop - header->at));
    text[stop - header->at] = '\0';
    header->at = stop + 1;
    return true;
}

static bool take_extent(struct header *header, int64_t *extent)
{
    const char *start;

    skip_blanks(header);
    start = header->at;
    *extent = 0;
    for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) ||
            __builtin_add_overflow(*extent, *header->at - '0', extent))
            return false;
    return header->at > start;
}

/* Reads "(3, 4)", "(3,)" or "()". */
static bool take_shape(struct header *header, struct npy_array *array)
{
    if (!take(header, '('))
        return false;
    for (array->rank = 0; !take(header, ')'); array->rank++) {
        if (array->rank == NPY_RANK_MAX || !take_extent(header, &array->extent[array->rank]))
            return false;
        if (!take(header, ',')) {
            array->rank++;
            return take(header, ')');
        }
    }
    return true;
}

static int report_header(const char *path, const struct header *header, struct error *error)
{
    char piece[SHOWN_MAX / 4 + 1], shown[SHOWN_MAX + 1];

    snprintf(piece, sizeof piece, "%.*s", (int)(header->end - header->at), header->at);
    return error_set(error, -EINVAL,
                     "%s has an .npy header that cannot be read at \"%s\"; write the file again "
                     "with numpy.save",
                     path, text_escape_controls(piece, shown, sizeof shown));
}

static int parse_dictionary(const char *path, struct header *header, struct npy_array *array,
                            struct error *error)
{
    bool good = take(header, '{');

    while (good && !take(header, '}')) {
        char key[KEY_MAX];

        good = take_text(header, key) && take(header, ':');
        if (good && strcmp(key, "descr") == 0) {
            skip_blanks(header);
            if (header->at < header->end && *header->at == '[')
                return error_set(error, -EINVAL,
                                 "%s holds records of several fields; save one array of numbers "
                                 "for each field",
                                 path);
            good = header->has_descr = take_text(header, header->descr);
        } else if (good && strcmp(key, "fortran_order") == 0) {
            header->fortran_order = take_word(header, "True");
            good = header->has_order = header->fortran_order || take_word(header, "False");
        } else if (good) {
            good = header->has_shape = strcmp(key, "shape") == 0 && take_shape(header, array);
        }
        if (good && !take(header, ',')) {
            good = take(header, '}');
            break;
        }
    }
    if (!good || !header->has_descr || !header->has_order || !header->has_shape)
        return report_header(path, header, error);
    return 0;
}

static int parse_type(const char *path, const char *descr, struct npy_array *array,
                      struct error *error)
{
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < sizeof type_codes / sizeof type_codes[0]; i++) {
        if (descr[0] && strcmp(descr + 1, type_codes[i]) == 0 && strchr("<|=>", descr[0])) {
            array->type = (enum npy_type)i;
            array->swapped = descr[0] == '>' && npy_type_bytes(array->type) > 1;
            return 0;
        }
    }
    if (descr[0] && descr[1] == 'c')
        return error_set(error, -EINVAL,
                         "%s holds complex numbers (\"%s\"); save the real and the imaginary part "
                         "as features of their own",
                         path, text_escape_controls(descr, shown, sizeof shown));
    return error_set(error, -EINVAL,
                     "%s holds elements of type \"%s\"; whole numbers and floats of 16, 32 or 64 "
                     "bits are read: convert it with .astype",
                     path, text_escape_controls(descr, shown, sizeof shown));
}

static int parse_extents(const char *path, bool fortran_order, struct npy_array *array,
                         struct error *error)
{
    int wide = 0;

    array->elements = 1;
    for (int i = 0; i < array->rank; i++) {
        if (array->extent[i] == 0)
            return error_set(error, -EINVAL, "%s is an empty array; write it again", path);
        if (__builtin_mul_overflow(array->elements, array->extent[i], &array->elements) ||
            array->elements > INT64_MAX / 8)
            return error_set(error, -EINVAL, "%s: its dimensions are absurd; write it again", path);
        wide += array->extent[i] > 1;
    }
    array->columns_first = fortran_order && wide > 1; /* else both orders are the same */
    return 0;
}

static int parse_lengths(const char *path, const uint8_t *bytes, size_t size, size_t *start,
                         size_t *length, struct error *error)
{
    uint32_t wide;
    uint16_t narrow;

    if (!npy_is(bytes, size))
        return error_set(
            error, -EINVAL,
            "%s is no .npy file: it does not begin with \\x93NUMPY; check the path and "
            "the format",
            path);
    *start = size > MAGIC_BYTES && bytes[MAGIC_BYTES] == 1 ? 10 : 12;
    if (size < *start)
        return error_set(error, -EINVAL, "%s is truncated: %zu bytes are no whole header", path,
                         size);
    if (bytes[MAGIC_BYTES] < 1 || bytes[MAGIC_BYTES] > 3)
        return error_set(error, -EINVAL, "%s has version %d.%d of the .npy format; 1 to 3 are read",
                         path, bytes[MAGIC_BYTES], bytes[MAGIC_BYTES + 1]);
    memcpy(&narrow, bytes + 8, sizeof narrow);
    memcpy(&wide, bytes + 8, sizeof wide);
    *length = *start == 10 ? le16toh(narrow) : le32toh(wide);
    if (*length > size - *start)
        return error_set(error, -EINVAL,
                         "%s is truncated: its header takes %zu bytes, but only %zu follow; fetch "
                         "or write it again",
                         path, *length, size - *start);
    return 0;
}

int npy_parse(const char *path, const void *bytes, size_t size, struct npy_array *array,
              struct error *error)
{
    size_t start = 0, length = 0;
    int r = parse_lengths(path, bytes, size, &start, &length, error);
    const char *text = (const char *)bytes + start;
    struct header header = {.at = text, .end = text + length};

    if (r < 0)
        return r;
    if ((r = parse_dictionary(path, &header, array, error)) < 0 ||
        (r = parse_type(path, header.descr, array, error)) < 0 ||
        (r = parse_extents(path, header.fortran_order, array, error)) < 0)
        return r;
    size_t present = size - start - length;
    size_t promised = (size_t)array->elements * npy_type_bytes(array->type);
    if (present != promised)
        return error_set(
            error, -EINVAL,
            "%s is %s: its header promises %zu bytes of data, but %zu follow; fetch or "
            "write it again",
            path, present < promised ? "truncated" : "too long", promised, present);
    array->data = (const uint8_t *)text + length;
    return 0;
}

/* ---- orders ---- */

/* Copies one number of `size` bytes. */
static void number_copy(uint8_t *to, const uint8_t *from, size_t size, bool swapped)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[swapped ? size - 1 - i : i];
}

int npy_normalise(const char *path, struct npy_array *array, uint8_t **copy, struct error *error)
{
    size_t size = npy_type_bytes(array->type);
    int64_t index[NPY_RANK_MAX] = {0}, step[NPY_RANK_MAX] = {0}, from = 0, product = 1;

    *copy = NULL;
    if (!array->swapped && !array->columns_first)
        return 0;
    *copy = malloc((size_t)array->elements * size);
    if (!*copy)
        return error_set(error, -ENOMEM, "not enough memory to reorder %s", path);
    for (int i = 0; i < array->rank; i++) {
        int axis = array->columns_first ? i : array->rank - 1 - i;

        step[axis] = product;
        product *= array->extent[axis];
    }
    for (int64_t i = 0; i < array->elements; i++) {
        number_copy(*copy + (size_t)i * size, array->data + (size_t)from * size, size,
                    array->swapped);
        for (int axis = array->rank - 1; axis >= 0; axis--) { /* the next place, rows first */
            from += step[axis];
            if (++index[axis] < array->extent[axis])
                break;
            from -= step[axis] * array->extent[axis];
            index[axis] = 0;
        }
    }
    array->data = *copy;
    array->swapped = array->columns_first = false;
    return 0;
}

/* ---- elements ---- */

/* The data may be at any address, aligned or not. */
#define CONVERT(type, expression)                                      \
    for (int64_t i = 0; i < count; i++) {                              \
        type value;                                                    \
        memcpy(&value, data + (size_t)i * sizeof value, sizeof value); \
        output[i] = (float)(expression);                               \
    }                                                                  \
    break

void npy_to_floats(const struct npy_array *array, int64_t first, int64_t count, float *output)
{
    const uint8_t *data = array->data + (size_t)first * npy_type_bytes(array->type);

    switch (array->type) {
    case NPY_BOOL:
    case NPY_UINT8:
        CONVERT(uint8_t, value);
    case NPY_INT8:
        CONVERT(int8_t, value);
    case NPY_UINT16:
        CONVERT(uint16_t, value);
    case NPY_INT16:
        CONVERT(int16_t, value);
    case NPY_UINT32:
        CONVERT(uint32_t, value);
    case NPY_INT32:
        CONVERT(int32_t, value);
    case NPY_UINT64:
        CONVERT(uint64_t, value);
    case NPY_INT64:
        CONVERT(int64_t, value);
    case NPY_FLOAT16:
        CONVERT(uint16_t, half_to_float(value));
    case NPY_FLOAT32:
        CONVERT(float, value);
    case NPY_FLOAT64:
        CONVERT(double, value);
    }
}

#define TAKE(type)                        \
    do {                                  \
        type value;                       \
        memcpy(&value, at, sizeof value); \
        return (int64_t)value;            \
    } while (0)

static int64_t take_uint64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

int64_t npy_integer(const struct npy_array *array, int64_t index)
{
    const uint8_t *at = array->data + (size_t)index * npy_type_bytes(array->type);

    switch (array->type) {
    case NPY_INT8:
        TAKE(int8_t);
    case NPY_UINT16:
        TAKE(uint16_t);
    case NPY_INT16:
        TAKE(int16_t);
    case NPY_UINT32:
        TAKE(uint32_t);
    case NPY_INT32:
        TAKE(int32_t);
    case NPY_UINT64:
        return take_uint64(at);
    case NPY_INT64:
        TAKE(int64_t);
    default:
        return *at;
    }
}
