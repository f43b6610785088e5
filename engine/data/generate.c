/* generate.c: samples that a user's command makes, such as a numerical simulation. The command runs
 * for one range of samples after the other, on all booked cores. It writes each range as rows of
 * numbers: the elements of a sample, then the numbers to predict. The set becomes a file of the
 * cache (cache.h), whose name follows from command, numbers and seed. It is made again if a file of
 * the command changes. */
#include "engine/data/generate.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "engine/data/cache.h"
#include "engine/data/npy_format.h"
#include "engine/data/parallel.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* a larger file of the command is identified by its size and time, not by its content */
enum { HASHED_BYTES_MAX = 1 << 26 };

struct generator {
    const struct dataset_config *config;
    int32_t classes; /* CLASS: labels are below this */
    /* of a row: how many belong to the sample, how many are to be predicted */
    int64_t elements, values;
    char parts_name[2 * SHA256_HEX_SIZE]; /* a digest of all that the samples are made from */
    float *samples;                       /* while they are being made */
    void *targets;
};

/* ---- one part ---- */

static int report_part(const struct generator *generator, int64_t first, int64_t count,
                       const char *what, struct error *error)
{
    char name[256];

    return error_set(
        error, -EINVAL,
        "the command %s wrote %s for the samples %lld to %lld; each wants %lld numbers "
        "and %lld to predict, in an .npy array [%lld,%lld] or as plain float32",
        generate_name(generator->config, name, sizeof name), what, (long long)first,
        (long long)(first + count - 1), (long long)generator->elements,
        (long long)generator->values, (long long)count,
        (long long)(generator->elements + generator->values));
}

static int report_number(const struct generator *generator, int64_t index, int64_t column,
                         float value, const char *what, struct error *error)
{
    char name[256];

    return error_set(error, -EINVAL,
                     "the command %s wrote %g as number %lld of sample %lld, which %s",
                     generate_name(generator->config, name, sizeof name), (double)value,
                     (long long)column, (long long)index, what);
}

/* Splits one row into sample and target. */
static int row_take(struct generator *generator, int64_t index, const float *row,
                    struct error *error)
{
    int64_t elements = generator->elements, width = elements + generator->values;
    int64_t bad = reader_find_nonfinite(row, width);

    if (bad >= 0)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a row was read */
        return report_number(generator, index, bad, row[bad], "is not finite", error);
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a row was read */
    memcpy(generator->samples + index * elements, row, (size_t)elements * sizeof *row);
    row += elements;
    if (generator->config->target == DATASET_TARGET_VALUE) {
        memcpy((float *)generator->targets + index * generator->values, row,
               (size_t)generator->values * sizeof *row);
        return 0;
    }
    if (row[0] < 0 || row[0] != floorf(row[0]) || row[0] >= (float)generator->classes)
        return report_number(generator, index, elements, row[0], "is not one of the classes",
                             error);
    ((int32_t *)generator->targets)[index] = (int32_t)row[0];
    return 0;
}

static int rows_take(struct generator *generator, const struct npy_array *array, int64_t first,
                     int64_t count, struct error *error)
{
    int64_t width = generator->elements + generator->values;
    AUTO_FREE float *row = malloc((size_t)width * sizeof *row);
    int r = row ? 0 : reader_out_of_memory(generator->config->paths[0], error);

    for (int64_t i = 0; r == 0 && i < count; i++) {
        npy_to_floats(array, i * width, width, row);
        r = row_take(generator, first + i, row, error);
    }
    return r;
}

static int part_parse(const struct generator *generator, const char *path, const uint8_t *bytes,
                      size_t size, int64_t first, int64_t count, struct npy_array *array,
                      struct error *error)
{
    int64_t numbers = count * (generator->elements + generator->values);
    char what[64];
    int r;

    if (npy_is(bytes, size)) {
        r = npy_parse(path, bytes, size, array, error);
        if (r == 0 &&
            (array->elements != numbers || array->rank < 1 || array->extent[0] != count)) {
            char shape[128];

            snprintf(what, sizeof what, "an array %.50s",
                     reader_format_shape(array->extent, array->rank, shape, sizeof shape));
            return report_part(generator, first, count, what, error);
        }
        return r;
    }
    *array = (struct npy_array){.type = NPY_FLOAT32, .data = bytes, .elements = numbers};
    if (size == (size_t)numbers * sizeof(float))
        return 0;
    snprintf(what, sizeof what, "%zu bytes", size);
    return report_part(generator, first, count, what, error);
}

static int part_take(void *context, const char *path, int64_t first, int64_t count,
                     struct error *error)
{
    struct generator *generator = context;
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    AUTO_FREE uint8_t *copy = NULL;
    struct npy_array array;
    struct stat status;
    uint8_t *bytes;
    int r;

    if (descriptor < 0 || fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_size == 0)
        return report_part(generator, first, count, "nothing to {output}", error);
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot map %s", path);
    r = part_parse(generator, path, bytes, (size_t)status.st_size, first, count, &array, error);
    if (r == 0)
        r = npy_normalise(path, &array, &copy, error);
    if (r == 0)
        r = rows_take(generator, &array, first, count, error);
    munmap(bytes, (size_t)status.st_size);
    return r;
}

/* ---- all of them ---- */

/* Makes the folder if it does not exist, and locks it, so that nobody considers it abandoned. */
static int folder_lock(const char *path, int *lock)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int code = -errno;
    if (*lock >= 0)
        close(*lock);
    *lock = -1;
    return code;
}

/* Makes a folder for parts. In the cache its name says what is made, so that the parts of an
 * interrupted run are found. Without a cache, or if another process uses that folder, the folder is
 * a temporary one. */
static int parts_folder_make(const char *name, struct generate_run *run, char **path, int *lock,
                             struct error *error)
{
    AUTO_FREE char *cache = NULL;
    AUTO_CLOSE int folder __attribute__((unused)) = cache_folder_open(&cache, NULL);
    const char *temporary = getenv("TMPDIR");
    int r;

    if (cache && asprintf(path, "%s/" CACHE_PARTS_PREFIX "%s", cache, name) >= 0) {
        run->keeps_parts = folder_lock(*path, lock) == 0;
        if (run->keeps_parts)
            return 0;
        free(TAKE_POINTER(*path));
    }
    if (asprintf(path, "%s/" CACHE_PARTS_PREFIX "XXXXXX",
                 cache       ? cache
                 : temporary ? temporary
                             : "/tmp") < 0)
        return error_set(error, -ENOMEM, "not enough memory to generate samples");
    if (!mkdtemp(*path))
        return error_set_errno(error, -errno, "cannot make the folder %s", *path);
    r = folder_lock(*path, lock);
    return r < 0 ? error_set_errno(error, r, "cannot use the folder %s", *path) : 0;
}

static int generate_all(void *context, void *samples, void *targets, struct error *error)
{
    struct generator *generator = context;
    AUTO_FREE char *folder = NULL;
    AUTO_CLOSE int lock = -1;
    int processes = generator->config->generate.processes;
    struct generate_run run = {.config = generator->config,
                               .processes = processes > 0 ? processes : parallel_usable_cores(),
                               .take = part_take,
                               .context = generator};
    int r = parts_folder_make(generator->parts_name, &run, &folder, &lock, error);

    generator->samples = samples;
    generator->targets = targets;
    run.folder = folder;
    if (r == 0)
        r = generate_run_all(&run, error);
    if (folder && r == -EINTR && run.keeps_parts)
        rmdir(folder); /* succeeds only if it is empty */
    else if (folder)
        cache_folder_remove_parts(AT_FDCWD, folder);
    return r;
}

/* ---- what it is made from ---- */

/* Finds the file that execvp() would run. The caller frees the path; NULL: there is none. */
static char *program_find(const struct dataset_config *config)
{
    const char *name = config->paths[0], *path = getenv("PATH");
    AUTO_FREE char *copy = NULL;
    char *rest, *folder;

    if (strchr(name, '/'))
        return reader_path_join(config->directory, name);
    rest = copy = strdup(path ? path : "/usr/bin:/bin");
    while (rest && (folder = strsep(&rest, ":"))) {
        char *file = reader_path_join(*folder ? folder : ".", name);

        if (file && access(file, X_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

/* Adds a file to the digest: its content, or size and time of a large one. Ignores everything but
 * files. */
static void digest_file(struct sha256 *hash, const char *path)
{
    struct stat status;
    char *content;
    size_t size;

    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
        return;
    sha256_add(hash, &status.st_size, sizeof status.st_size);
    if (status.st_size <= HASHED_BYTES_MAX &&
        file_read(AT_FDCWD, path, HASHED_BYTES_MAX, &content, &size, NULL) == 0) {
        sha256_add(hash, content, size);
        free(content);
    } else {
        sha256_add(hash, &status.st_mtim, sizeof status.st_mtim);
    }
}

static void entry_identify(const struct generator *generator, struct cache_entry *entry)
{
    const struct dataset_config *config = generator->config;
    AUTO_FREE char *program = program_find(config);
    const char *directory = config->directory ? config->directory : "";
    int64_t numbers[] = {
        config->generate.samples, config->generate.chunk, (int64_t)config->generate.seed,
        generator->values,        config->target,         config->rank,
        generator->classes};
    struct sha256 hash;

    sha256_begin(&hash);
    sha256_add(&hash, "generate", sizeof "generate");
    sha256_add(&hash, directory, strlen(directory) + 1);
    sha256_add(&hash, numbers, sizeof numbers);
    sha256_add(&hash, config->shape, (size_t)config->rank * sizeof *config->shape);
    for (int i = 0; i < config->path_count; i++)
        sha256_add(&hash, config->paths[i], strlen(config->paths[i]) + 1);
    sha256_end(&hash, entry->identity);
    sha256_begin(&hash);
    if (program)
        digest_file(&hash, program);
    for (int i = 1; i < config->path_count; i++) {
        AUTO_FREE char *file = reader_path_join(config->directory, config->paths[i]);

        if (file)
            digest_file(&hash, file);
    }
    sha256_end(&hash, entry->content);
}

/* ---- the reader ---- */

static int check_config(const struct dataset_config *config, const struct dataset *reference,
                        struct generator *generator, struct error *error)
{
    generator->classes = reader_class_limit(config, reference);
    generator->elements = 1;
    for (int i = 0; i < config->rank; i++)
        if (config->shape[i] < 1 ||
            __builtin_mul_overflow(generator->elements, config->shape[i], &generator->elements))
            return error_set(error, -EINVAL, "the shape of generated samples is absurd");
    generator->values = config->target == DATASET_TARGET_VALUE && config->generate.values > 1
                            ? config->generate.values
                            : 1;
    if (config->rank < 1 || config->path_count < 1 || config->generate.samples < 1 ||
        config->generate.chunk < 1 || generator->elements > INT32_MAX)
        return error_set(error, -EINVAL,
                         "a data set of format generate needs a command, the number of samples and "
                         "the shape of one");
    if (config->target == DATASET_TARGET_CLASS && generator->classes < 1)
        return error_set(error, -EINVAL,
                         "generated samples need the number of classes: say model.classes");
    return 0;
}

/* For planning: describes the set without making it. */
static int describe(const struct cache_entry *entry, struct dataset *dataset, struct error *error)
{
    struct cache_parts parts;
    int r = cache_file_lay_out(entry, &parts, error);

    if (r < 0)
        return r;
    dataset->is_absent = true;
    dataset->element = entry->element;
    dataset->count = entry->count;
    dataset->target_width = entry->target_width;
    reader_set_shape(dataset, entry->shape, entry->rank);
    dataset->mapped_bytes = parts.end;
    dataset->memory_bytes = (size_t)entry->count * (size_t)entry->target_width * sizeof(float);
    return 0;
}

int generate_read(const struct dataset_config *config, const struct dataset *reference,
                  struct dataset *dataset, struct error *error)
{
    struct generator generator = {.config = config};
    char name[256], source[300];
    struct cache_entry entry = {.element = DATASET_FLOAT32,
                                .target = config->target,
                                .rank = config->rank,
                                .count = config->generate.samples,
                                .source = source,
                                .make = generate_all,
                                .context = &generator,
                                .events = config->events};
    int r = check_config(config, reference, &generator, error);

    if (r < 0)
        return r;
    snprintf(source, sizeof source, "the samples of %s", generate_name(config, name, sizeof name));
    memcpy(entry.shape, config->shape, sizeof entry.shape);
    entry.target_width = (int32_t)generator.values;
    entry_identify(&generator, &entry);
    snprintf(generator.parts_name, sizeof generator.parts_name, "%s-%s", entry.identity,
             entry.content);
    dataset->classes = config->target == DATASET_TARGET_CLASS ? generator.classes : 0;
    if (config->describes && !cache_has(&entry))
        return describe(&entry, dataset, error);
    return cache_obtain(&entry, dataset, error);
}
