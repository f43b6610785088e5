/* text_encoding.c: texts in UTF-16, as spreadsheets write them, become UTF-8 (iconv of the C
 * library). */
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

static int convert(const struct dataset_mapping *mapping, char *output, size_t capacity,
                   size_t *size, struct error *error)
{
    iconv_t converter = iconv_open("UTF-8", "UTF-16"); /* which reads the byte order mark */
    char *from = mapping->address, *to = output;
    size_t left = mapping->bytes, room = capacity;
    int r = 0;

    if (converter == (iconv_t)-1)
        return error_set_errno(error, -errno, "%s is UTF-16, which cannot be converted here",
                               mapping->path);
    if (iconv(converter, &from, &left, &to, &room) == (size_t)-1)
        r = error_set(error, -EINVAL,
                      "%s begins as UTF-16, but byte %zu of it is no such text; convert the file "
                      "to UTF-8",
                      mapping->path, mapping->bytes - left);
    iconv_close(converter);
    *size = capacity - room;
    return r;
}

int reader_decode_text(struct dataset *dataset, const struct dataset_mapping **mapping,
                       struct error *error)
{
    struct dataset_mapping *own = &dataset->mappings[dataset->mapping_count - 1];
    const uint8_t *bytes = own->address;
    size_t capacity = utf8_bytes_max(own->bytes), size = 0;
    struct dataset_mapping made = {.descriptor = -1};
    int r;

    *mapping = own;
    if (own->bytes < 2 || (memcmp(bytes, "\xff\xfe", 2) != 0 && memcmp(bytes, "\xfe\xff", 2) != 0))
        return 0;
    made.address = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.address == MAP_FAILED)
        return reader_out_of_memory(own->path, error);
    r = convert(own, made.address, capacity, &size, error);
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
