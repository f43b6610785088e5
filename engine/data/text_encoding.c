/* text_encoding.c: texts in UTF-16, as spreadsheets write them, and in UTF-32 become UTF-8 (iconv
 * of the C library). */
#include "engine/data/reader.h"

#include <errno.h>
#include <iconv.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* The encoding by the name that iconv has for it; NULL: none that has to be converted. Names
 * without an order of bytes read the byte order mark. */
static const char *encoding_of(const uint8_t *bytes, size_t size)
{
    if (size >= 4 &&
        (memcmp(bytes, "\xff\xfe\0\0", 4) == 0 || memcmp(bytes, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (size >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0))
        return "UTF-16";
    return has_zeros(bytes, size, 1) ? "UTF-16LE" : has_zeros(bytes, size, 0) ? "UTF-16BE" : NULL;
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
                      "%s begins as %s, but byte %zu of it is no such text; convert the file to "
                      "UTF-8",
                      mapping->path, encoding, mapping->bytes - left);
    iconv_close(converter);
    *size = capacity - room;
    return r;
}

int reader_decode_text(struct dataset *dataset, const struct dataset_mapping **mapping,
                       struct error *error)
{
    struct dataset_mapping *own = &dataset->mappings[dataset->mapping_count - 1];
    const uint8_t *bytes = own->address;
    const char *encoding = encoding_of(bytes, own->bytes);
    size_t capacity = utf8_bytes_max(own->bytes), size = 0;
    struct dataset_mapping made = {.descriptor = -1};
    int r;

    *mapping = own;
    if (!encoding)
        return 0;
    made.address = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.address == MAP_FAILED)
        return reader_out_of_memory(own->path, error);
    r = convert(own, encoding, made.address, capacity, &size, error);
    if (r == 0 && size == 0)
        r = error_set(error, -EINVAL, "the data file %s is empty", own->path);
    if (r < 0) {
        munmap(made.address, capacity);
        return r;
    }
    made.bytes = size;
    made.address = mremap(made.address, capacity, size, 0);
    r = reader_adopt_mapping(dataset, &made, own->path, error);
    if (r < 0)
        return r;
    reader_drop_mapping(dataset, dataset->mapping_count - 2);
    *mapping = &dataset->mappings[dataset->mapping_count - 1];
    return 0;
}
