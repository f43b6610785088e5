/* text_encoding.c: texts in UTF-16, as spreadsheets write them, and in UTF-32 become UTF-8 (iconv
 * of the C library); lines that end in CR alone end in LF then. */
#include "engine/data/reader.h"

#include <errno.h>
#include <iconv.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

/* No code point takes more bytes of UTF-8 than 3/2 of those of UTF-16. */
static size_t utf8_bytes_max(size_t utf16_bytes)
{
    return utf16_bytes / 2 * 3 + 3;
}

/* Whether the text is UTF-16 without a byte order mark: every other byte of its beginning is zero,
 * as where all characters are of ASCII. `zero`: the first of them, 1 in little-endian texts. */
static bool has_zeros(const uint8_t *bytes, size_t size, size_t zero)
{
    enum { LOOKED_AT = 16 };

    if (size < LOOKED_AT || size % 2)
        return false;
    for (size_t i = 0; i < LOOKED_AT; i++)
        if ((bytes[i] == 0) != (i % 2 == zero))
            return false;
    return true;
}

/* iconv reads the byte order mark where the name has no order of bytes. */
const char *reader_find_encoding(const uint8_t *bytes, size_t size)
{
    if (size >= 4 &&
        (memcmp(bytes, "\xff\xfe\0\0", 4) == 0 || memcmp(bytes, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (size >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0))
        return "UTF-16";
    return has_zeros(bytes, size, 1) ? "UTF-16LE" : has_zeros(bytes, size, 0) ? "UTF-16BE" : NULL;
}

int reader_check_text(const struct dataset_mapping *mapping, struct error *error)
{
    static const struct {
        const char *begin, *what;
    } kinds[] = {{"PK\3\4", "a workbook of a spreadsheet, or a zip archive"},
                 {"\xd0\xcf\x11\xe0", "a workbook of Excel"},
                 {"PAR1", "a Parquet file"},
                 {"ARROW1", "an Arrow file"},
                 {"\x89HDF", "an HDF5 file"},
                 {"SQLite format 3", "a database of SQLite"},
                 {"%PDF", "a PDF file"},
                 {"\x89PNG", "an image"},
                 {"\xff\xd8\xff", "an image"},
                 {"\x1f\x8b", "packed by gzip"}, /* of a file only if it is so twice */
                 {"BZh", "packed by bzip2"},
                 {"\xfd"
                  "7zXZ",
                  "packed by xz"},
                 {"\x28\xb5\x2f\xfd", "packed by zstd"}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].begin);

        if (mapping->bytes >= length && memcmp(mapping->address, kinds[i].begin, length) == 0)
            return error_set(error, -EINVAL,
                             "%s is %s, not lines of text; take a table, saved as CSV",
                             mapping->path, kinds[i].what);
    }
    return 0;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && *at && strchr(" \t\r\n", *at))
        at++;
    return at;
}

/* Whether objects begin here, on one line or on several. */
static bool is_json(const char *at, const char *end)
{
    const char *next = at < end ? skip_blanks(at + 1, end) : end;

    return next < end && ((*at == '{' && *next == '"') || (*at == '[' && *next == '{'));
}

/* Servers send texts that are no tables in the place of one. */
int reader_check_table(const struct dataset_mapping *mapping, struct error *error)
{
    static const struct {
        const char *begin, *what;
    } kinds[] = {{"<!doctype", "a web page (HTML), maybe one that asks to log in"},
                 {"<html", "a web page (HTML), maybe one that asks to log in"},
                 {"<?xml", "an XML file"}};
    const char *at = mapping->address, *end = at + mapping->bytes;

    if (reader_check_text(mapping, error) < 0)
        return error->code;
    at = skip_blanks(at, end);
    if (is_json(at, end))
        return error_set(error, -EINVAL, "%s is a JSON file, not a table; take one, saved as CSV",
                         mapping->path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].begin);

        if ((size_t)(end - at) >= length && strncasecmp(at, kinds[i].begin, length) == 0)
            return error_set(error, -EINVAL, "%s is %s, not a table; take one, saved as CSV",
                             mapping->path, kinds[i].what);
    }
    return 0;
}

/* Whether no line ends in LF, but in CR: texts of old Macintosh programs. */
static bool lines_end_in_cr(const char *text, size_t size)
{
    return !memchr(text, '\n', size) && memchr(text, '\r', size);
}

static void end_lines(char *text, size_t size)
{
    const char *end = text + size;

    if (lines_end_in_cr(text, size))
        while ((text = memchr(text, '\r', (size_t)(end - text))))
            *text++ = '\n';
}

static int64_t line_of(const char *text, size_t size)
{
    const char *end = text + size;
    int64_t line = 1;

    for (; (text = memchr(text, '\n', (size_t)(end - text))); text++)
        line++;
    return line;
}

static int convert(const struct dataset_mapping *mapping, const char *encoding, char *output,
                   size_t capacity, size_t *size, struct error *error)
{
    iconv_t converter = iconv_open("UTF-8", encoding);
    char *from = mapping->address, *to = output;
    size_t left = mapping->bytes, room = capacity;
    int r = 0;

    if (converter == (iconv_t)-1)
        return error_set_errno(error, -errno, "%s is %s, which cannot be converted here",
                               mapping->path, encoding);
    if (iconv(converter, &from, &left, &to, &room) == (size_t)-1)
        r = error_set(error, -EINVAL,
                      "%s:%lld: the file begins as %s, but byte %zu of it is no such text; fetch "
                      "it again, or convert it to UTF-8",
                      mapping->path, (long long)line_of(output, capacity - room), encoding,
                      mapping->bytes - left);
    iconv_close(converter);
    *size = capacity - room;
    return r == 0 && *size == 0
               ? error_set(error, -EINVAL, "the data file %s is empty", mapping->path)
               : r;
}

int reader_decode_text(struct dataset *dataset, const struct dataset_mapping **mapping,
                       struct error *error)
{
    struct dataset_mapping *own = &dataset->mappings[dataset->mapping_count - 1];
    const uint8_t *bytes = own->address;
    const char *encoding = reader_find_encoding(bytes, own->bytes);
    size_t capacity = encoding ? utf8_bytes_max(own->bytes) : own->bytes, size = own->bytes;
    struct dataset_mapping made = {.descriptor = -1};
    int r = reader_check_table(own, error);

    *mapping = own;
    if (r < 0 || (!encoding && !lines_end_in_cr(own->address, own->bytes)))
        return r;
    made.address = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.address == MAP_FAILED)
        return reader_out_of_memory(own->path, error);
    if (encoding)
        r = convert(own, encoding, made.address, capacity, &size, error);
    else
        memcpy(made.address, own->address, size);
    if (r < 0) {
        munmap(made.address, capacity);
        return r;
    }
    end_lines(made.address, size);
    made.bytes = size;
    made.address = mremap(made.address, capacity, size, 0);
    r = reader_adopt_mapping(dataset, &made, own->path, error);
    if (r < 0)
        return r;
    reader_drop_mapping(dataset, dataset->mapping_count - 2);
    *mapping = &dataset->mappings[dataset->mapping_count - 1];
    return 0;
}
