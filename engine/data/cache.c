/* cache.c: finds a set in the cache, or makes it and stores it there; see cache.h. */
#include "engine/data/cache.h"

#include "base/cleanup.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* how often to look whether another process has finished the same set */
static const struct timespec wait_period = {.tv_nsec = 50000000};

struct cache {
    const struct cache_entry *entry;
    struct cache_parts parts;
    struct dataset *dataset;
    int folder; /* a descriptor; -1: there is none */
    char *path; /* owned: of the folder */
    char name[CACHE_NAME_SIZE], temporary[CACHE_NAME_SIZE];
};

static void __attribute__((format(printf, 2, 3)))
warn(const struct cache_entry *entry, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list arguments;

    if (!entry->events || !entry->events->warning)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    entry->events->warning(entry->events->context, text);
}

/* ---- handing over ---- */

/* Lets the set read its samples from `samples`, and gives it a copy of the targets. */
static int adopt(const struct cache_entry *entry, const uint8_t *samples, const void *targets,
                 struct dataset *dataset, struct error *error)
{
    size_t bytes = (size_t)entry->count * (size_t)entry->target_width * sizeof(float);
    void *copy = malloc(bytes);

    if (!copy)
        return reader_out_of_memory(entry->source, error);
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a cache has targets */
    memcpy(copy, targets, bytes);
    if (entry->target == DATASET_TARGET_CLASS)
        dataset->labels = copy;
    else
        dataset->targets = copy;
    dataset->memory_bytes += bytes;
    dataset->target_width = entry->target_width;
    dataset->element = entry->element;
    reader_set_shape(dataset, entry->shape, entry->rank);
    dataset->sample_stride =
        (size_t)dataset->sample_elements * (entry->element == DATASET_UINT8 ? 1 : sizeof(float));
    return reader_add_block(dataset, samples, entry->count, error);
}

/* Without a cache, makes the samples in the memory of this process. */
static int make_in_memory(struct cache *cache, struct error *error)
{
    const struct cache_entry *entry = cache->entry;
    struct dataset_mapping made = {.descriptor = -1, .bytes = cache->parts.checksums};
    uint8_t *file =
        mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int r;

    if (file == MAP_FAILED)
        return reader_out_of_memory(entry->source, error);
    made.address = file;
    r = entry->make(entry->context, file + cache->parts.samples, file + cache->parts.targets,
                    error);
    if (r < 0) {
        munmap(file, made.bytes);
        return r;
    }
    mprotect(file, made.bytes, PROT_READ);
    r = reader_adopt_mapping(cache->dataset, &made, entry->source, error);
    if (r < 0)
        return r;
    return adopt(entry, file + cache->parts.samples, file + cache->parts.targets, cache->dataset,
                 error);
}

/* ---- the finished file ---- */

/* Maps the file if it is the expected one, is complete, and cannot be written by others. Otherwise
 * -ERROR_STALE_FILE with a sentence. */
static int map_checked(const struct cache *cache, int descriptor, const char *path,
                       struct dataset_mapping *mapping, struct error *error)
{
    struct stat status;
    uint8_t *file;
    int r;

    if (fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at the cache file %s", path);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022))
        return error_set(error, -ERROR_STALE_FILE,
                         "the cache file %s can be written by somebody else", path);
    if (status.st_size == 0)
        return error_set(error, -ERROR_STALE_FILE, "the cache file %s is empty", path);
    mapping->bytes = (size_t)status.st_size;
    file = mmap(NULL, mapping->bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (file == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot map the cache file %s", path);
    r = cache_file_check(cache->entry, &cache->parts, path, file, mapping->bytes, error);
    if (r < 0)
        munmap(file, mapping->bytes);
    mapping->address = file;
    return r;
}

/* Uses an existing file. 1: the set uses it (or, without a set, it is good); 0: there is no good
 * file; else an error. */
static int use_existing(struct cache *cache, bool warns, struct error *error)
{
    AUTO_CLOSE int descriptor =
        openat(cache->folder, cache->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_FREE char *path = NULL;
    struct dataset_mapping mapping = {.descriptor = -1};
    struct error fault = {0};
    const uint8_t *file;
    int r;

    if (descriptor < 0)
        return 0;
    if (asprintf(&path, "%s/%s", cache->path, cache->name) < 0)
        return reader_out_of_memory(cache->entry->source, error);
    r = map_checked(cache, descriptor, path, &mapping, &fault);
    if (r == -EINTR) {
        if (error)
            *error = fault;
        return r;
    }
    if (r < 0) {
        if (warns)
            warn(cache->entry, "%s; it is made again", fault.text);
        return 0;
    }
    if (!cache->dataset) {
        munmap(mapping.address, mapping.bytes);
        return 1;
    }
    /* marks it as used, because the file unused for the longest time is deleted first */
    futimens(descriptor, NULL);
    mapping.descriptor = TAKE_DESCRIPTOR(descriptor);
    file = mapping.address;
    r = reader_adopt_mapping(cache->dataset, &mapping, path, error);
    if (r == 0)
        r = adopt(cache->entry, file + cache->parts.samples, file + cache->parts.targets,
                  cache->dataset, error);
    return r < 0 ? r : 1;
}

/* ---- making it ---- */

/* Gives the temporary file its length, maps it, and has the samples made. */
static int fill_file(struct cache *cache, int descriptor, bool *is_room, struct error *error)
{
    const struct cache_entry *entry = cache->entry;
    int r = cache_folder_make_room(cache->folder, cache->parts.end, error);
    uint8_t *file;

    *is_room = false;
    if (r < 0)
        return r;
    /* if the disk became full, writing into a hole of the mapped file would kill the process */
    r = -posix_fallocate(descriptor, 0, (off_t)cache->parts.end);
    if (r < 0)
        return error_set_errno(error, r, "cannot make a file in the cache folder %s", cache->path);
    file = mmap(NULL, cache->parts.end, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (file == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot map a file of the cache");
    *is_room = true;
    r = entry->make(entry->context, file + cache->parts.samples, file + cache->parts.targets,
                    error);
    if (r == 0)
        r = cache_file_finish(entry, &cache->parts, file, error);
    if (r == 0 && (msync(file, cache->parts.end, MS_SYNC) < 0 || fsync(descriptor) < 0))
        r = error_set_errno(error, -errno, "cannot write to the cache folder %s", cache->path);
    munmap(file, cache->parts.end);
    return r;
}

/* Called with the lock held. `is_room` false: the cache cannot hold the file, and nothing was
 * made. */
static int make_file(struct cache *cache, int descriptor, bool *is_room, struct error *error)
{
    int r = use_existing(cache, true, error);

    *is_room = true;
    if (r == 0) {
        r = fill_file(cache, descriptor, is_room, error);
        if (r == 0 && renameat(cache->folder, cache->temporary, cache->folder, cache->name) < 0)
            r = error_set_errno(error, -errno, "cannot rename a file of the cache");
        if (r == 0) {
            fsync(cache->folder);
            r = use_existing(cache, true, error);
            return r == 0 ? error_set(error, -EIO, "the file just written to %s cannot be used",
                                      cache->path)
                          : r;
        }
    }
    unlinkat(cache->folder, cache->temporary, 0);
    return r;
}

static bool stop_wanted(const struct cache_entry *entry)
{
    return entry->events && entry->events->stop && atomic_load(entry->events->stop);
}

/* Returns 1 if done, 0 if it is not possible in this folder (`error` says why), else an error. */
static int obtain_in_folder(struct cache *cache, struct error *error)
{
    AUTO_CLOSE int descriptor = -1;
    bool told = false, is_room;
    int r;

    for (;;) {
        r = use_existing(cache, false, error);
        if (r != 0)
            return r;
        r = cache_folder_try_lock(cache->folder, cache->temporary, &descriptor, error);
        if (r <= 0)
            break;
        if (stop_wanted(cache->entry))
            return error_set(error, -EINTR, "interrupted while another worker makes %s",
                             cache->entry->source);
        if (!told && cache->entry->events && cache->entry->events->progress)
            cache->entry->events->progress(cache->entry->events->context,
                                           "waiting for another worker that makes the same data", 0,
                                           0);
        told = true;
        nanosleep(&wait_period, NULL);
    }
    if (r < 0)
        return 0;
    r = make_file(cache, descriptor, &is_room, error);
    return r < 0 && !is_room ? 0 : r;
}

static int cache_prepare(struct cache *cache, struct error *error)
{
    int r = cache_file_lay_out(cache->entry, &cache->parts, error);

    snprintf(cache->name, sizeof cache->name, "%.64s.data", cache->entry->identity);
    snprintf(cache->temporary, sizeof cache->temporary, "%.64s.tmp", cache->entry->identity);
    return r;
}

int cache_obtain(const struct cache_entry *entry, struct dataset *dataset, struct error *error)
{
    struct cache cache = {.entry = entry, .dataset = dataset, .folder = -1};
    struct error reason = {0};
    int r = cache_prepare(&cache, error);

    if (r < 0)
        return r;
    cache.folder = cache_folder_open(&cache.path, &reason);
    r = cache.folder < 0 ? 0 : obtain_in_folder(&cache, &reason);
    if (r < 0 && error)
        *error = reason;
    if (r == 0) {
        warn(entry, "%s are not kept for the next run: %s", entry->source, reason.text);
        r = make_in_memory(&cache, error);
    }
    cleanup_close(&cache.folder);
    free(cache.path);
    return r < 0 ? r : 0;
}

int cache_has(const struct cache_entry *entry)
{
    struct cache cache = {.entry = entry, .folder = -1};
    struct error ignored = {0};
    int r = cache_prepare(&cache, &ignored);

    if (r == 0)
        cache.folder = cache_folder_open(&cache.path, &ignored);
    if (cache.folder >= 0)
        r = use_existing(&cache, false, &ignored);
    cleanup_close(&cache.folder);
    free(cache.path);
    return r == 1;
}
