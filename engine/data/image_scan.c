/* image_scan.c: see image_scan.h. */
#include "engine/data/image_scan.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEPTH_MAX = 32 }; /* limits how far links to a folder above are followed */

/* `readable` are the endings that this file reads, `foreign` others that torchvision and Pillow
 * read, and those of telephones' photographs: left out in silence they would be missed. */
static const char *const readable[] = {".png", ".jpg", ".jpeg", ".jfif", ".webp",
                                       ".bmp", ".tif", ".tiff", NULL};
static const char *const foreign[] = {".ppm",  ".pgm",  ".pbm", ".pnm", ".gif", ".heic",
                                      ".heif", ".avif", ".jxl", ".jp2", NULL};

static bool has_ending(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');

    for (int i = 0; dot && endings[i]; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

bool image_scan_is_image(const char *name)
{
    return has_ending(name, readable);
}

int image_scan_check_kind(const char *path, struct error *error)
{
    return has_ending(path, foreign)
               ? error_set(error, -EINVAL,
                           "%s is an image of a kind that is not read; convert it to PNG or JPEG, "
                           "or remove it",
                           path)
               : 0;
}

static int out_of_memory(struct error *error)
{
    return error_set(error, -ENOMEM, "not enough memory to list the images");
}

/* ---- one folder ---- */

struct names {
    char **list;
    size_t count, capacity;
};

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

static int names_add(struct names *names, const char *name, struct error *error)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 64;
        char **grown = reallocarray(names->list, capacity, sizeof *grown);

        if (!grown)
            return out_of_memory(error);
        names->list = grown;
        names->capacity = capacity;
    }
    names->list[names->count] = strdup(name);
    if (!names->list[names->count])
        return out_of_memory(error);
    names->count++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists all names of the folder `path` that do not begin with a dot, sorted by their bytes. */
static int names_read(const char *path, struct names *names, struct error *error)
{
    DIR *stream = opendir(path);
    struct dirent *entry;
    int r = 0;

    if (!stream)
        return error_set_errno(error, -errno, "cannot open the folder of images %s", path);
    while (r == 0 && (errno = 0, entry = readdir(stream)))
        if (entry->d_name[0] != '.')
            r = names_add(names, entry->d_name, error);
    if (r == 0 && errno)
        r = error_set_errno(error, -errno, "cannot read the folder of images %s", path);
    closedir(stream);
    if (r == 0 && names->count)
        qsort(names->list, names->count, sizeof *names->list, compare_names);
    return r;
}

/* ---- classes ---- */

int image_scan_add(struct image_scan *scan, const char *path, int32_t label,
                   const struct stat *status, struct error *error)
{
    struct image_file *file;

    if (scan->count == scan->capacity) {
        int64_t capacity = scan->capacity ? 2 * scan->capacity : 1024;

        file = reallocarray(scan->files, (size_t)capacity, sizeof *file);
        if (!file)
            return out_of_memory(error);
        scan->files = file;
        scan->capacity = capacity;
    }
    file = &scan->files[scan->count];
    *file = (struct image_file){.path = strdup(path),
                                .label = label,
                                .bytes = status->st_size,
                                .changed = status->st_ctim,
                                .modified = status->st_mtim};
    if (!file->path)
        return out_of_memory(error);
    scan->count++;
    return 0;
}

static int report_unseen(const char *path, int fault, struct error *error)
{
    struct stat status;

    if (fault == ENOENT && lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
        return error_set(
            error, -ENOENT,
            "%s is a link to a file that is not there: put it back, or remove the link", path);
    return error_set_errno(error, -fault, "cannot look at %s", path);
}

/* Adds one name of a class's folder. Folders are added to `folders`. */
static int scan_name(struct image_scan *scan, const char *path, int32_t label,
                     struct names *folders, struct error *error)
{
    AUTO_FREE char *full = NULL;
    struct stat status;

    if (asprintf(&full, "%s/%s", scan->folder, path) < 0)
        return out_of_memory(error);
    if (stat(full, &status) < 0)
        return report_unseen(full, errno, error);
    if (S_ISDIR(status.st_mode))
        return names_add(folders, path, error);
    if (image_scan_check_kind(full, error) < 0)
        return error->code;
    if (!has_ending(path, readable))
        return 0;
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file; remove it", full);
    return image_scan_add(scan, path, label, &status, error);
}

/* Adds the images of a class below `path`: first those of the folder itself, then those of its
 * subfolders. */
static int scan_folder(struct image_scan *scan, const char *path, int32_t label, int depth,
                       struct error *error)
{
    AUTO_FREE char *full = NULL;
    struct names names = {0}, folders = {0};
    int r;

    if (depth > DEPTH_MAX)
        return error_set(error, -ELOOP,
                         "%s/%s lies more than %d folders deep; is there a link to a folder above?",
                         scan->folder, path, DEPTH_MAX);
    if (asprintf(&full, "%s/%s", scan->folder, path) < 0)
        return out_of_memory(error);
    r = names_read(full, &names, error);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        AUTO_FREE char *below = NULL;

        if (asprintf(&below, "%s/%s", path, names.list[i]) < 0)
            r = out_of_memory(error);
        else
            r = scan_name(scan, below, label, &folders, error);
    }
    for (size_t i = 0; r == 0 && i < folders.count; i++)
        r = scan_folder(scan, folders.list[i], label, depth + 1, error);
    names_release(&names);
    names_release(&folders);
    return r;
}

/* The order of sorted(os.walk(...)) and sorted(names): by folder, then by name, both by their
 * bytes. */
static int compare_files(const void *a, const void *b)
{
    const struct image_file *left = a, *right = b;
    const char *left_name = strrchr(left->path, '/'), *right_name = strrchr(right->path, '/');
    size_t left_length = (size_t)(left_name - left->path);
    size_t right_length = (size_t)(right_name - right->path);
    size_t shorter = left_length < right_length ? left_length : right_length;
    int order = memcmp(left->path, right->path, shorter);

    if (order == 0)
        order = (left_length > right_length) - (left_length < right_length);
    return order ? order : strcmp(left_name, right_name);
}

static int scan_class(struct image_scan *scan, const char *name, struct error *error)
{
    int64_t before = scan->count;
    char **grown = reallocarray(scan->class_names, (size_t)scan->class_count + 1, sizeof *grown);
    int r;

    if (!grown)
        return out_of_memory(error);
    scan->class_names = grown;
    grown[scan->class_count] = strdup(name);
    if (!grown[scan->class_count])
        return out_of_memory(error);
    r = scan_folder(scan, name, scan->class_count++, 0, error);
    if (r == 0 && scan->count == before)
        return error_set(
            error, -EINVAL,
            "the class folder %s/%s has no image (.png, .jpg, .webp, .bmp, .tif); put some into it "
            "or remove it",
            scan->folder, name);
    if (r == 0)
        qsort(scan->files + before, (size_t)(scan->count - before), sizeof *scan->files,
              compare_files);
    return r;
}

int image_scan_open(const char *folder, struct image_scan *scan, struct error *error)
{
    struct names names = {0};
    int r;

    *scan = (struct image_scan){.folder = strdup(folder)};
    if (!scan->folder)
        return out_of_memory(error);
    r = names_read(folder, &names, error);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        AUTO_FREE char *full = NULL;
        struct stat status;

        if (asprintf(&full, "%s/%s", folder, names.list[i]) < 0)
            r = out_of_memory(error);
        else if (stat(full, &status) < 0)
            r = report_unseen(full, errno, error);
        else if (S_ISDIR(status.st_mode))
            r = scan_class(scan, names.list[i], error);
        else if (has_ending(names.list[i], readable) || has_ending(names.list[i], foreign))
            r = error_set(error, -EINVAL,
                          "%s lies beside the class folders and so has no class; move it into one "
                          "or remove it",
                          full);
    }
    names_release(&names);
    if (r == 0 && scan->class_count == 0)
        return error_set(error, -EINVAL,
                         "%s has no subfolders; the images of each class lie in a folder of "
                         "their own",
                         folder);
    return r;
}

int image_scan_open_all(const char *folder, struct image_scan *scan, struct error *error)
{
    static const char here[] = "./";
    int r;

    *scan = (struct image_scan){.folder = strdup(folder)};
    if (!scan->folder)
        return out_of_memory(error);
    r = scan_folder(scan, ".", 0, 0, error);
    if (r < 0 || scan->count == 0)
        return r;
    qsort(scan->files, (size_t)scan->count, sizeof *scan->files, compare_files);
    for (int64_t i = 0; i < scan->count; i++) {
        char *path = scan->files[i].path;

        memmove(path, path + strlen(here), strlen(path) + 1 - strlen(here));
    }
    return 0;
}

void image_scan_release(struct image_scan *scan)
{
    for (int64_t i = 0; i < scan->count; i++)
        free(scan->files[i].path);
    for (int32_t i = 0; i < scan->class_count; i++)
        free(scan->class_names[i]);
    free(scan->files);
    free(scan->class_names);
    free(scan->folder);
    *scan = (struct image_scan){0};
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

int image_file_is_unchanged(const struct image_file *file, const struct stat *status)
{
    return status->st_size == file->bytes && same_time(status->st_mtim, file->modified) &&
           same_time(status->st_ctim, file->changed);
}

void image_scan_digest(const struct image_scan *scan, struct sha256 *hash)
{
    sha256_add(hash, &scan->class_count, sizeof scan->class_count);
    for (int32_t i = 0; i < scan->class_count; i++)
        sha256_add(hash, scan->class_names[i], strlen(scan->class_names[i]) + 1);
    for (int64_t i = 0; i < scan->count; i++) {
        const struct image_file *file = &scan->files[i];
        int64_t numbers[] = {file->label,           file->bytes,
                             file->modified.tv_sec, file->modified.tv_nsec,
                             file->changed.tv_sec,  file->changed.tv_nsec};

        sha256_add(hash, file->path, strlen(file->path) + 1);
        sha256_add(hash, numbers, sizeof numbers);
    }
}
