/* archive.c: see archive.h. */
#include "engine/data/archive.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zip.h>

enum { NAMES_BYTES = 256, NAMES_SHOWN = 8 };

static void archive_cleanup(zip_t **archive)
{
    if (*archive)
        zip_discard(*archive);
}

static void file_cleanup(zip_file_t **file)
{
    if (*file)
        zip_fclose(*file);
}

/* "x_train, y_train, ..." */
static const char *list_members(zip_t *archive, char text[NAMES_BYTES])
{
    zip_int64_t count = zip_get_num_entries(archive, 0);
    size_t used = 0;

    text[0] = '\0';
    for (zip_int64_t i = 0; i < count && i < NAMES_SHOWN && used + 1 < NAMES_BYTES; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        char shown[64];

        if (!name)
            continue;
        text_escape_controls(name, shown, sizeof shown);
        if (strlen(shown) > 4 && strcmp(shown + strlen(shown) - 4, ".npy") == 0)
            shown[strlen(shown) - 4] = '\0';
        used += (size_t)snprintf(text + used, NAMES_BYTES - used, "%s%s", i ? ", " : "", shown);
    }
    if (count > NAMES_SHOWN && used < NAMES_BYTES)
        snprintf(text + used, NAMES_BYTES - used, ", ...");
    return text;
}

/* The index of the array, or a negative errno. */
static zip_int64_t find_member(zip_t *archive, const char *path, const char *member,
                               struct error *error)
{
    char names[NAMES_BYTES], with_ending[4096];
    zip_int64_t index = zip_get_num_entries(archive, 0) == 1 ? 0 : -1;

    if (member) {
        index = zip_name_locate(archive, member, 0);
        if (index < 0 &&
            snprintf(with_ending, sizeof with_ending, "%s.npy", member) < (int)sizeof with_ending)
            index = zip_name_locate(archive, with_ending, 0);
        if (index < 0)
            return error_set(error, -ENOENT, "%s has no array %s; it has %s", path, member,
                             list_members(archive, names));
    } else if (index < 0) {
        return error_set(error, -EINVAL, "%s holds several arrays (%s); write %s:NAME", path,
                         list_members(archive, names), path);
    }
    return index;
}

static int unpack(zip_t *archive, zip_uint64_t index, const char *path,
                  struct dataset_mapping *mapping, struct error *error)
{
    CLEANUP(file_cleanup) zip_file_t *file = NULL;
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    zip_stat_t status;
    zip_int64_t got;
    char beyond;

    if (zip_stat_index(archive, index, 0, &status) < 0 || (status.valid & needed) != needed ||
        (status.size >> 10) > status.comp_size + 1) /* a small file must not claim all memory */
        return error_set(error, -EINVAL, "%s: the archive is damaged; write it again", path);
    if (status.size == 0)
        return error_set(error, -EINVAL, "%s: the array is empty", path);
    mapping->bytes = status.size;
    mapping->address =
        mmap(NULL, mapping->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping->address == MAP_FAILED)
        return reader_out_of_memory(path, error);
    file = zip_fopen_index(archive, index, 0);
    got = file ? zip_fread(file, mapping->address, status.size) : -1;
    /* one more read compares the checksum */
    if (got == (zip_int64_t)status.size && zip_fread(file, &beyond, 1) == 0)
        return mprotect(mapping->address, mapping->bytes, PROT_READ) < 0 ? -errno : 0;
    munmap(mapping->address, mapping->bytes);
    return error_set(error, -EINVAL, "%s: an array cannot be unpacked (%s); write the file again",
                     path, file ? zip_file_strerror(file) : zip_strerror(archive));
}

int archive_read(const char *path, const char *member, struct dataset_mapping *mapping,
                 struct error *error)
{
    CLEANUP(archive_cleanup) zip_t *archive = NULL;
    struct stat status;
    zip_int64_t index;
    int code = 0;

    /* a FIFO instead of a data file must not block the worker */
    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot open the data file %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file; name the data file itself",
                         path);
    archive = zip_open(path, ZIP_RDONLY, &code);
    if (!archive) {
        zip_error_t reason;
        int r;

        zip_error_init_with_code(&reason, code);
        r = error_set(error, -EINVAL, "%s cannot be read as an .npz file: %s", path,
                      zip_error_strerror(&reason));
        zip_error_fini(&reason);
        return r;
    }
    index = find_member(archive, path, member, error);
    return index < 0 ? (int)index : unpack(archive, (zip_uint64_t)index, path, mapping, error);
}
