/* detection.c: see detection.h. Here are single files; detection_folder.c has folders,
 * detection_arrays.c NumPy's files and images. */
#include "engine/data/detection.h"

#include "base/cleanup.h"
#include "engine/data/detection_internal.h"
#include "engine/data/image.h"
#include "engine/data/npy_format.h"
#include "engine/data/reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
    CIFAR_PIXELS = 3 * 32 * 32,
    IDX_BYTES = 0x08,
    TABLE_LINES = 8,          /* that must have as many cells for a file to be a table */
    FASTA_BYTES = 1024 * 1024 /* that are looked at */
};

/* What the test set is called where the training set has the first name. */
static const char *const test_names[][2] = {
    {"train", "test"},  {"train", "t10k"},      {"TRAIN", "TEST"},       {".tra", ".tes"},
    {".data", ".test"}, {"Train", "Test"},      {"training", "testing"}, {"train", "val"},
    {"train", "valid"}, {"train", "validation"}};

void detection_release(struct detection *detection)
{
    struct detection_set *const sets[] = {&detection->train, &detection->test};

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < sets[i]->path_count; k++)
            free(sets[i]->paths[k]);
        free(sets[i]->labels);
    }
    for (int i = 0; i < DETECTION_FILES_MAX; i++)
        free(detection->classes[i]);
    for (int i = 0; i < detection->note_count; i++)
        free(detection->notes[i]);
    *detection = (struct detection){0};
}

void detection_note(struct detection *detection, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    if (detection->note_count < DETECTION_NOTES_MAX &&
        vasprintf(&detection->notes[detection->note_count], format, list) >= 0)
        detection->note_count++;
    va_end(list);
}

void detection_note_unused(struct detection *detection, const char *path)
{
    detection_note(detection,
                   "%s is left out: samples for validation are drawn from the training set "
                   "(data.validation_fraction)",
                   path);
}

int detection_add(struct detection_set *set, const char *path, struct error *error)
{
    if (set->path_count == DETECTION_FILES_MAX)
        return error_set(error, -EINVAL,
                         "there are more than %d files beside %s; write a specification that names "
                         "them: `trainctl help spec data.train`",
                         DETECTION_FILES_MAX, path);
    set->paths[set->path_count] = strdup(path);
    if (!set->paths[set->path_count])
        return error_no_memory(error, "the names of files");
    set->path_count++;
    return 0;
}

char *detection_sibling(const char *path, const char *from, const char *to)
{
    const char *name = strrchr(path, '/'), *at = NULL;
    struct stat status;
    char *result;

    for (const char *next = name ? name + 1 : path; (next = strstr(next, from)); next++)
        at = next;
    if (!at || asprintf(&result, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from)) < 0)
        return NULL;
    if (stat(result, &status) == 0 && S_ISREG(status.st_mode))
        return result;
    free(result);
    return NULL;
}

bool detection_ends(const char *name, const char *ending)
{
    size_t length = strlen(name), size = strlen(ending);

    if (length > 3 && strcasecmp(name + length - 3, ".gz") == 0)
        length -= 3;
    return length > size && strncasecmp(name + length - size, ending, size) == 0;
}

/* Adds the file as the training set, and the one whose name says so as the test set. */
static int sets_add(struct detection *detection, const char *path, struct error *error)
{
    AUTO_FREE char *test = NULL, *other = NULL;
    int r = detection_add(&detection->train, path, error);

    for (size_t i = 0; i < sizeof test_names / sizeof *test_names && !other; i++)
        *(test ? &other : &test) = detection_sibling(path, test_names[i][0], test_names[i][1]);
    if (r < 0 || !test)
        return r;
    detection_note(detection, "%s is the test set", test);
    if (other)
        detection_note_unused(detection, other);
    return detection_add(&detection->test, test, error);
}

/* ---- IDX ---- */

static bool is_idx(const uint8_t *bytes, size_t size)
{
    return size >= 8 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == IDX_BYTES && bytes[3] >= 1 &&
           bytes[3] <= 4 && size >= 4 + 4 * (size_t)bytes[3];
}

static int64_t idx_extent(const uint8_t *bytes, int dimension)
{
    const uint8_t *at = bytes + 4 + 4 * dimension;

    return (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* The file of labels beside one of images, or the other way round. */
static char *idx_partner(const char *path, const char *from, const char *to, int rank, int other)
{
    AUTO_FREE char *renamed = NULL;
    char before[8], after[8];
    char *result = detection_sibling(path, from, to);
    const char *name = strrchr(path, '/'), *at = strstr(name ? name : path, from);

    if (result || !at ||
        asprintf(&renamed, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from)) < 0)
        return result;
    snprintf(before, sizeof before, "idx%d", rank);
    snprintf(after, sizeof after, "idx%d", other);
    return detection_sibling(renamed, before, after);
}

static void idx_count_classes(struct detection *detection, const struct dataset_mapping *mapping)
{
    const uint8_t *bytes = mapping->address;
    int highest = 0;

    if (!is_idx(bytes, mapping->bytes) || bytes[3] != 1)
        return;
    for (size_t i = 8; i < mapping->bytes; i++)
        highest = bytes[i] > highest ? bytes[i] : highest;
    detection->class_count = highest + 1;
}

/* The labels of the training set and of the test set. */
static int idx_add_labels(struct detection *detection, int rank, struct dataset *files,
                          struct error *error)
{
    const char *path = detection->train.paths[0];
    const struct dataset_mapping *mapping;
    int r;

    detection->train.labels = idx_partner(path, "images", "labels", rank, 1);
    if (!detection->train.labels)
        return error_set(error, -EINVAL,
                         "%s holds samples, but no file of labels lies beside it: its name has "
                         "\"labels\" where this one has \"images\"",
                         path);
    r = reader_map(files, NULL, detection->train.labels, &mapping, error);
    if (r < 0)
        return r;
    idx_count_classes(detection, mapping);
    if (!detection->test.path_count)
        return 0;
    detection->test.labels = idx_partner(detection->test.paths[0], "images", "labels", rank, 1);
    if (!detection->test.labels) {
        detection_note(detection, "%s has no labels beside it and is left out",
                       detection->test.paths[0]);
        free(detection->test.paths[--detection->test.path_count]);
    }
    return 0;
}

static int read_idx(const char *path, const struct dataset_mapping *mapping,
                    struct detection *detection, struct dataset *files, struct error *error)
{
    const uint8_t *bytes = mapping->address;
    int rank = bytes[3], first = rank == 3;
    AUTO_FREE char *images = NULL;

    if (rank == 1) {
        images = idx_partner(path, "labels", "images", 1, 3);
        if (!images)
            return error_set(error, -EINVAL,
                             "%s holds labels, but no file of images lies beside it", path);
        return detection_read_file(images, detection, error);
    }
    detection->format = DATASET_IDX;
    detection->samples = idx_extent(bytes, 0);
    detection->rank = first + rank - 1;
    detection->shape[0] = 1;
    for (int i = 1; i < rank; i++)
        detection->shape[first + i - 1] = idx_extent(bytes, i);
    int r = sets_add(detection, path, error);

    return r < 0 ? r : idx_add_labels(detection, rank, files, error);
}

/* ---- CIFAR, FASTA, text and tables ---- */

static int read_cifar(const char *path, size_t bytes, struct detection *detection,
                      struct error *error)
{
    AUTO_FREE char *test = NULL;
    int r;

    detection->format = DATASET_CIFAR;
    detection->label_bytes = bytes % (CIFAR_PIXELS + 1) == 0 ? 1 : 2;
    detection->samples = (int64_t)bytes / (CIFAR_PIXELS + detection->label_bytes);
    detection->rank = 3;
    memcpy(detection->shape, (const int64_t[]){3, 32, 32}, 3 * sizeof(int64_t));
    r = sets_add(detection, path, error);
    for (int i = 1; i <= 9 && !test; i++) {
        char name[24];

        snprintf(name, sizeof name, "data_batch_%d", i);
        test = detection_sibling(path, name, "test_batch");
    }
    if (r == 0 && test && !detection->test.path_count)
        r = detection_add(&detection->test, test, error);
    return r;
}

static int read_fasta(const char *path, const struct dataset_mapping *mapping,
                      struct detection *detection, struct error *error)
{
    const char *text = (const char *)mapping->address;
    size_t size = mapping->bytes < FASTA_BYTES ? mapping->bytes : FASTA_BYTES;
    bool title = false;

    detection->format = DATASET_FASTA;
    detection->is_dna = true;
    for (const char *at = text, *end = text + mapping->bytes;
         (at = memchr(at, '>', (size_t)(end - at))); at++)
        detection->samples++;
    for (size_t i = 0; i < size; i++) {
        title = text[i] == '>' || text[i] == ';' || (title && text[i] != '\n');
        if (!title && isalpha((unsigned char)text[i]) && !strchr("ACGTUNacgtun", text[i]))
            detection->is_dna = false;
    }
    return sets_add(detection, path, error);
}

/* The next whole line that is neither empty nor a comment; whether there was one. */
static bool line_next(const char **at, const char *end, const char **line, size_t *length)
{
    const char *stop;

    while ((stop = memchr(*at, '\n', (size_t)(end - *at)))) {
        *line = *at;
        *length = (size_t)(stop - *at);
        *at = stop + 1;
        if (*length && **line != '\r' && **line != '#' && **line != '%')
            return true;
    }
    return false;
}

/* Whether lines have the same number of the character, at least one each. */
static bool parts_lines(const char *text, size_t size, char delimiter)
{
    const char *at = text, *line;
    int64_t first = 0;
    size_t length;
    int lines = 0;

    while (lines < TABLE_LINES && line_next(&at, text + size, &line, &length)) {
        int64_t count = 0;

        for (size_t i = 0; i < length; i++)
            count += line[i] == delimiter;
        if (count == 0 || (lines && count != first))
            return false;
        first = count;
        lines++;
    }
    return lines > 1;
}

/* Whether the character is one of these; no NUL character is. */
static bool is_one_of(char character, const char *characters)
{
    return character && strchr(characters, character);
}

/* Counts the words that blanks part, and those of them that look like numbers. */
static int64_t count_words(const char *line, size_t length, int64_t *numbers)
{
    int64_t words = 0;

    *numbers = 0;
    for (size_t i = 0; i < length;) {
        bool is_number = true;
        size_t begin = i;

        for (; i < length && !is_one_of(line[i], " \t\r"); i++)
            is_number &= is_one_of(line[i], "0123456789.+-eE");
        words += i > begin;
        *numbers += i > begin && is_number && !is_one_of(line[begin], "eE");
        i += i == begin;
    }
    return words;
}

/* Whether lines have the same number of words, and behind the first line a third of them are
 * numbers: a table whose columns blanks part. */
static bool blanks_part_lines(const char *text, size_t size)
{
    const char *at = text, *line;
    int64_t first = 0, numbers;
    size_t length;
    int lines = 0;

    while (lines < TABLE_LINES && line_next(&at, text + size, &line, &length)) {
        int64_t words = count_words(line, length, &numbers);

        if (words < 2 || (lines && (words != first || 3 * numbers < words)))
            return false;
        first = words;
        lines++;
    }
    return lines > 2;
}

static bool is_table(const char *path, const char *text, size_t size)
{
    static const char *const endings[] = {".csv", ".tsv", ".tab", ".tra", ".tes", ".hol"};

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (detection_ends(path, endings[i]))
            return true;
    for (size_t i = 0; i < 4; i++)
        if (parts_lines(text, size, ",;\t|"[i]))
            return true;
    return blanks_part_lines(text, size);
}

static int read_text(const char *path, const struct dataset_mapping *mapping,
                     struct detection *detection, struct error *error)
{
    const char *text = (const char *)mapping->address;
    size_t size = mapping->bytes, prefix = size < FASTA_BYTES ? size : FASTA_BYTES;
    int r;

    if (is_table(path, text, size)) {
        detection->format = DATASET_TABLE;
        return sets_add(detection, path, error);
    }
    r = reader_check_text(mapping, error);
    if (r < 0)
        return r;
    if (memchr(text, '\0', prefix))
        return error_set(
            error, -EINVAL,
            "%s is of no format that is known: it begins with the bytes %02x %02x %02x "
            "%02x; docs/data.md lists the formats, and a command can make samples of "
            "others (`trainctl help spec data.train.command`)",
            path, (uint8_t)text[0], size > 1 ? (uint8_t)text[1] : 0,
            size > 2 ? (uint8_t)text[2] : 0, size > 3 ? (uint8_t)text[3] : 0);
    detection->format = DATASET_TEXT;
    detection->samples = (int64_t)size;
    return sets_add(detection, path, error);
}

/* ---- any file ---- */

static int read_content(const char *path, const struct dataset_mapping *mapping,
                        struct detection *detection, struct dataset *files, struct error *error)
{
    const uint8_t *bytes = mapping->address;
    size_t size = mapping->bytes;

    if (is_idx(bytes, size))
        return read_idx(path, mapping, detection, files, error);
    if (npy_is(bytes, size))
        return detection_read_npy(path, detection, error);
    if (image_is_known(bytes, size))
        return error_set(error, -EINVAL,
                         "%s is one image; name the folder that has a subfolder of images for each "
                         "class, or a table of paths and labels (image_csv in docs/data.md)",
                         path);
    if (detection_ends(path, ".bin") &&
        (size % (CIFAR_PIXELS + 1) == 0 || size % (CIFAR_PIXELS + 2) == 0))
        return read_cifar(path, size, detection, error);
    if (bytes[0] == '>')
        return read_fasta(path, mapping, detection, error);
    /* the reader of tables says what these are, and what to make of them */
    if (reader_find_encoding(bytes, size) || detection_ends(path, ".xlsx") ||
        detection_ends(path, ".parquet") || detection_ends(path, ".json")) {
        detection->format = DATASET_TABLE;
        return sets_add(detection, path, error);
    }
    return read_text(path, mapping, detection, error);
}

int detection_read_file(const char *path, struct detection *detection, struct error *error)
{
    struct dataset files = {0};
    const struct dataset_mapping *mapping;
    int r;

    if (detection_ends(path, ".npz"))
        return detection_read_archive(path, detection, error);
    r = reader_map(&files, NULL, path, &mapping, error);
    if (r == 0) {
        struct dataset_mapping first = *mapping; /* further files move it */

        r = read_content(path, &first, detection, &files, error);
    }
    reader_unmap_all(&files);
    free(files.mappings);
    return r;
}

int detection_open(const char *path, struct detection *detection, struct error *error)
{
    struct stat status;

    *detection = (struct detection){0};
    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (S_ISDIR(status.st_mode))
        return detection_read_folder(path, detection, error);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is neither a file nor a folder", path);
    return detection_read_file(path, detection, error);
}
