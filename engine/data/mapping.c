/* mapping.c: brings the files of a data set into memory: maps them, or unpacks gzip files with zlib
 * and arrays of .npz files (archive.c). */
#include "base/cleanup.h"
#include "base/file.h"
#include "engine/data/archive.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Deflate cannot pack tighter (zlib's "Technical Details": 1032:1). This limits how much memory a
 * small file can make this process allocate. */
enum { DEFLATE_RATIO_MAX = 1032 };

int reader_out_of_memory(const char *path, struct error *error)
{
    return error_set(error, -ENOMEM, "not enough memory to read the data file %s", path);
}

char *reader_path_join(const char *directory, const char *path)
{
    size_t length = directory ? strlen(directory) : 0;
    char *joined = NULL;

    while (length > 0 && directory[length - 1] == '/')
        length--;
    if (!directory || path[0] == '/')
        return strdup(path);
    if (asprintf(&joined, "%.*s/%s", (int)length, directory, path) < 0)
        return NULL;
    return joined;
}

static int file_open(const char *path, int *descriptor, size_t *bytes, struct error *error)
{
    struct stat status;

    /* O_NONBLOCK: a FIFO instead of a data file must not block the worker */
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0)
        return error_set_errno(error, -errno, "cannot open the data file %s", path);
    if (fstat(*descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot read the data file %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file; name the data file itself",
                         path);
    if (status.st_size == 0)
        return error_set(error, -EINVAL, "the data file %s is empty; fetch or write it again",
                         path);
    *bytes = (size_t)status.st_size;
    return 0;
}

/* A growing mapping. mremap() moves pages without copying bytes. */
struct growing {
    uint8_t *address;
    size_t used, capacity;
};

static int growing_reserve(struct growing *output, size_t capacity)
{
    void *address;

    if (output->address)
        address = mremap(output->address, output->capacity, capacity, MREMAP_MAYMOVE);
    else
        address = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        return -ENOMEM;
    output->address = address;
    output->capacity = capacity;
    return 0;
}

/* Inflates all members of the gzip file input[0..size) into `output`. */
static int inflate_all(z_stream *stream, const uint8_t *input, size_t size, struct growing *output,
                       const char *path, struct error *error)
{
    size_t taken = 0;

    for (;;) {
        if (output->used == output->capacity && growing_reserve(output, output->capacity * 2) < 0)
            return reader_out_of_memory(path, error);

        size_t room = output->capacity - output->used, left = size - taken;
        uInt offered = left > 1u << 30 ? 1u << 30 : (uInt)left;
        uInt free_bytes = room > 1u << 30 ? 1u << 30 : (uInt)room;
        stream->next_in = (Bytef *)(uintptr_t)(input + taken);
        stream->avail_in = offered;
        stream->next_out = output->address + output->used;
        stream->avail_out = free_bytes;
        int status = inflate(stream, Z_NO_FLUSH);
        taken += offered - stream->avail_in;
        output->used += free_bytes - stream->avail_out;

        if (status == Z_STREAM_END) {
            /* gzip allows several members in a row; padding behind the last one is ignored */
            if (size - taken < 2 || input[taken] != 0x1f || input[taken + 1] != 0x8b)
                return 0;
            inflateReset(stream);
        } else if (status == Z_MEM_ERROR) {
            return reader_out_of_memory(path, error);
        } else if (status == Z_BUF_ERROR ||
                   (status == Z_OK && taken == size && stream->avail_out)) {
            return error_set(error, -EINVAL,
                             "%s: the gzip data end early, after %zu packed bytes; the file is "
                             "truncated, fetch it again",
                             path, taken);
        } else if (status != Z_OK) {
            return error_set(error, -EINVAL,
                             "%s: damaged gzip data near byte %zu (%s); fetch the file again", path,
                             taken, stream->msg ? stream->msg : "unknown cause");
        }
    }
}

static int unpack(const uint8_t *input, size_t size, struct growing *output, const char *path,
                  struct error *error)
{
    z_stream stream = {0};
    uint32_t unpacked;
    int result;

    /* The last 4 bytes are the length of the last member modulo 2^32. It is a guess, which reading
     * verifies. */
    memcpy(&unpacked, input + size - 4, 4);
    unpacked = le32toh(unpacked);
    size_t guess = (size_t)unpacked + 1;
    if (guess / DEFLATE_RATIO_MAX > size || guess < 65536)
        guess = 65536;
    if (growing_reserve(output, guess) < 0 || inflateInit2(&stream, 15 + 16) != Z_OK)
        return reader_out_of_memory(path, error);
    result = inflate_all(&stream, input, size, output, path, error);
    inflateEnd(&stream);
    if (result == 0 && output->used == 0)
        return error_set(error, -EINVAL, "the data file %s is empty once unpacked", path);
    return result;
}

int reader_adopt_mapping(struct dataset *dataset, const struct dataset_mapping *mapping,
                         const char *path, struct error *error)
{
    struct dataset_mapping *grown = reallocarray(
        dataset->mappings, (size_t)dataset->mapping_count + 1, sizeof *dataset->mappings);
    char *name = strdup(path);

    if (grown)
        dataset->mappings = grown;
    if (!grown || !name) {
        munmap(mapping->address, mapping->bytes);
        if (mapping->descriptor >= 0)
            close(mapping->descriptor);
        free(name);
        return reader_out_of_memory(path, error);
    }
    grown[dataset->mapping_count] = *mapping;
    grown[dataset->mapping_count++].path = name;
    if (mapping->descriptor >= 0)
        dataset->mapped_bytes += mapping->bytes;
    else
        dataset->memory_bytes += mapping->bytes;
    return 0;
}

int reader_map(struct dataset *dataset, const char *directory, const char *path,
               const struct dataset_mapping **mapping, struct error *error)
{
    AUTO_FREE char *joined = reader_path_join(directory, path);
    AUTO_CLOSE int descriptor = -1;
    struct dataset_mapping made = {.descriptor = -1};
    char *member;
    int result;

    if (!joined)
        return reader_out_of_memory(path, error);
    member = file_archive_member(joined);
    if (member || file_is_archive(joined)) {
        if (member)
            member[-1] = '\0';
        result = archive_read(joined, member, &made, error);
        if (result == 0)
            result = reader_adopt_mapping(dataset, &made, joined, error);
        if (result == 0)
            *mapping = &dataset->mappings[dataset->mapping_count - 1];
        return result;
    }
    result = file_open(joined, &descriptor, &made.bytes, error);
    if (result < 0)
        return result;
    made.address = mmap(NULL, made.bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (made.address == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot map the data file %s", joined);

    const uint8_t *bytes = made.address;
    if (made.bytes >= 18 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        struct growing output = {0};

        result = unpack(bytes, made.bytes, &output, joined, error);
        munmap(made.address, made.bytes);
        if (result < 0) {
            if (output.address)
                munmap(output.address, output.capacity);
            return result;
        }
        made.address = mremap(output.address, output.capacity, output.used, 0);
        made.bytes = output.used;
        mprotect(made.address, made.bytes, PROT_READ);
    } else {
        made.descriptor = TAKE_DESCRIPTOR(descriptor);
    }
    result = reader_adopt_mapping(dataset, &made, joined, error);
    if (result < 0)
        return result;
    *mapping = &dataset->mappings[dataset->mapping_count - 1];
    return 0;
}

void reader_drop_mapping(struct dataset *dataset, int index)
{
    struct dataset_mapping *mapping = &dataset->mappings[index];

    if (mapping->descriptor >= 0)
        dataset->mapped_bytes -= mapping->bytes;
    else
        dataset->memory_bytes -= mapping->bytes;
    munmap(mapping->address, mapping->bytes);
    cleanup_close(&mapping->descriptor);
    free(mapping->path);
    dataset->mapping_count--;
    memmove(mapping, mapping + 1, (size_t)(dataset->mapping_count - index) * sizeof *mapping);
}

void reader_unmap_all(struct dataset *dataset)
{
    while (dataset->mapping_count > 0)
        reader_drop_mapping(dataset, dataset->mapping_count - 1);
    free(dataset->mappings);
    dataset->mappings = NULL;
}

int dataset_check_files(const struct dataset *dataset, struct error *error)
{
    for (int i = 0; i < dataset->mapping_count; i++) {
        const struct dataset_mapping *mapping = &dataset->mappings[i];
        struct stat status;

        if (mapping->descriptor < 0)
            continue;
        if (fstat(mapping->descriptor, &status) < 0)
            return error_set_errno(error, -errno, "cannot check the data file %s", mapping->path);
        if ((size_t)status.st_size != mapping->bytes)
            return error_set(error, -ERROR_STALE_FILE,
                             "the data file %s changed from %zu to %lld bytes while it was in use; "
                             "leave data files alone while a job reads them",
                             mapping->path, mapping->bytes, (long long)status.st_size);
    }
    return 0;
}
