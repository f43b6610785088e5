/* cache_file.c: the format of a file of the cache: a header, the samples, the targets, and a CRC-32
 * of each chunk between header and checksums. Numbers have the machine's byte order, which the
 * header records. */
#include "base/alignment.h"
#include "engine/data/cache.h"
#include "engine/data/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
    FILE_VERSION = 1, /* increase it if the format, or the decoding of images, changes */
    BYTE_ORDER_MARK = 0x01020304,
    HEADER_BYTES = 4096,
    PART_ALIGNMENT = 64,
    CHUNK_BYTES = 1 << 22,
    SOURCE_BYTES = 1024
};
static const char file_magic[16] = "traind data set";

struct cache_header {
    char magic[16];
    uint32_t version, byte_order;
    char identity[SHA256_HEX_SIZE], content[SHA256_HEX_SIZE];
    uint32_t element, target, rank;
    int32_t target_width;
    int64_t shape[DATASET_RANK_MAX], count;
    uint64_t file_bytes;
    char source[SOURCE_BYTES];
    uint32_t checksums_crc; /* of the checksums */
    uint32_t header_crc;    /* of the header up to here */
};
_Static_assert(sizeof(struct cache_header) <= HEADER_BYTES, "the header fits");

int cache_file_lay_out(const struct cache_entry *entry, struct cache_parts *parts,
                       struct error *error)
{
    size_t sample = entry->element == DATASET_UINT8 ? 1 : sizeof(float), samples, targets;
    bool absurd = false;

    for (int i = 0; i < entry->rank; i++)
        absurd |= __builtin_mul_overflow(sample, (size_t)entry->shape[i], &sample);
    absurd |= __builtin_mul_overflow(sample, (size_t)entry->count, &samples);
    absurd |= __builtin_mul_overflow((size_t)entry->count * sizeof(float),
                                     (size_t)entry->target_width, &targets);
    if (absurd || samples > SIZE_MAX / 4 || targets > SIZE_MAX / 4)
        return error_set(error, -EFBIG, "%s are too many or too large", entry->source);
    parts->samples = HEADER_BYTES;
    parts->targets = align_up(parts->samples + samples, PART_ALIGNMENT);
    parts->checksums = align_up(parts->targets + targets, PART_ALIGNMENT);
    parts->chunks = (parts->checksums - HEADER_BYTES + CHUNK_BYTES - 1) / CHUNK_BYTES;
    parts->end = parts->checksums + parts->chunks * sizeof(uint32_t);
    return 0;
}

/* ---- checksums ---- */

struct chunk_sums {
    const struct cache_parts *parts;
    const uint8_t *file;
    uint32_t *store;       /* writes the checksums here, or */
    const uint32_t *check; /* compares with these */
};

static int chunk_sum(void *context, int thread, int64_t index, struct error *error)
{
    const struct chunk_sums *sums = context;
    size_t start = HEADER_BYTES + (size_t)index * CHUNK_BYTES, end = start + CHUNK_BYTES;
    uint32_t sum;

    (void)thread;
    end = end > sums->parts->checksums ? sums->parts->checksums : end;
    sum = (uint32_t)crc32_z(0, sums->file + start, end - start);
    if (sums->store)
        sums->store[index] = sum;
    else if (sums->check[index] != sum)
        return error_set(error, -ERROR_STALE_FILE, "is damaged near byte %zu", start);
    return 0;
}

static int sum_chunks(const struct cache_entry *entry, struct chunk_sums *sums, struct error *error)
{
    struct parallel_work work = {.count = (int64_t)sums->parts->chunks,
                                 .run = chunk_sum,
                                 .context = sums,
                                 .what = "checking a cached data set",
                                 .events = entry->events};

    return parallel_run(&work, error);
}

static uint32_t header_sum(const struct cache_header *header)
{
    return (uint32_t)crc32_z(0, (const uint8_t *)header, offsetof(struct cache_header, header_crc));
}

/* ---- writing and checking ---- */

int cache_file_finish(const struct cache_entry *entry, const struct cache_parts *parts,
                      uint8_t *file, struct error *error)
{
    struct chunk_sums sums = {.parts = parts, .file = file};
    struct cache_header *header = (struct cache_header *)(void *)file;
    int r;

    sums.store = (uint32_t *)(void *)(file + parts->checksums);
    r = sum_chunks(entry, &sums, error);
    if (r < 0)
        return r;
    *header = (struct cache_header){.version = FILE_VERSION,
                                    .byte_order = BYTE_ORDER_MARK,
                                    .element = entry->element,
                                    .target = entry->target,
                                    .rank = (uint32_t)entry->rank,
                                    .target_width = entry->target_width,
                                    .count = entry->count,
                                    .file_bytes = parts->end};
    memcpy(header->magic, file_magic, sizeof file_magic);
    memcpy(header->identity, entry->identity, sizeof header->identity);
    memcpy(header->content, entry->content, sizeof header->content);
    memcpy(header->shape, entry->shape, sizeof header->shape);
    snprintf(header->source, sizeof header->source, "%s", entry->source);
    header->checksums_crc =
        (uint32_t)crc32_z(0, file + parts->checksums, parts->end - parts->checksums);
    header->header_crc = header_sum(header);
    return 0;
}

static int check_header(const struct cache_entry *entry, const struct cache_parts *parts,
                        const struct cache_header *header, size_t size, struct error *error)
{
    if (memcmp(header->magic, file_magic, sizeof file_magic) != 0)
        return error_set(error, -ERROR_STALE_FILE, "is no file of the cache");
    if (header->byte_order != BYTE_ORDER_MARK || header->version != FILE_VERSION)
        return error_set(error, -ERROR_STALE_FILE, "was written by another version of traind");
    if (header->header_crc != header_sum(header))
        return error_set(error, -ERROR_STALE_FILE, "has a damaged header");
    if (memcmp(header->identity, entry->identity, sizeof header->identity) != 0)
        return error_set(error, -ERROR_STALE_FILE, "belongs to another data set, %s",
                         header->source);
    if (memcmp(header->content, entry->content, sizeof header->content) != 0)
        return error_set(error, -ERROR_STALE_FILE, "was made before %s changed", entry->source);
    if (header->element != entry->element || header->target != entry->target ||
        header->rank != (uint32_t)entry->rank || header->target_width != entry->target_width ||
        header->count != entry->count ||
        memcmp(header->shape, entry->shape, (size_t)entry->rank * sizeof *entry->shape) != 0)
        return error_set(error, -ERROR_STALE_FILE, "has samples of another form");
    if (size != parts->end || header->file_bytes != parts->end)
        return error_set(error, -ERROR_STALE_FILE, "is truncated: it has %zu bytes instead of %zu",
                         size, parts->end);
    return 0;
}

int cache_file_check(const struct cache_entry *entry, const struct cache_parts *parts,
                     const char *path, const uint8_t *file, size_t size, struct error *error)
{
    const struct cache_header *header = (const struct cache_header *)(const void *)file;
    struct chunk_sums sums = {.parts = parts, .file = file};
    int r;

    if (size < HEADER_BYTES)
        r = error_set(error, -ERROR_STALE_FILE, "is truncated: %zu bytes are no whole header",
                      size);
    else
        r = check_header(entry, parts, header, size, error);
    if (r == 0 && (uint32_t)crc32_z(0, file + parts->checksums, parts->end - parts->checksums) !=
                      header->checksums_crc)
        r = error_set(error, -ERROR_STALE_FILE, "has damaged checksums");
    if (r == 0) {
        sums.check = (const uint32_t *)(const void *)(file + parts->checksums);
        r = sum_chunks(entry, &sums, error);
    }
    if (r == -ERROR_STALE_FILE && error) {
        struct error what = *error;

        return error_set(error, r, "the cache file %s %s", path, what.text);
    }
    return r;
}
