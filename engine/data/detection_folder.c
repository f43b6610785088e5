/* detection_folder.c: which files of a folder are the data; see detection_internal.h. */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/detection_internal.h"
#include "engine/data/image_scan.h"
#include "engine/data/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAMES_SHOWN = 6, NAMES_BYTES = 512 };

struct folder {
    const char *path;
    char *names[DETECTION_FILES_MAX]; /* owned; regular files that may hold data, sorted */
    int count;
    char *folders[DETECTION_FILES_MAX]; /* owned; subfolders, sorted */
    int folder_count;
    bool has_more; /* than there is room for */
};

static void folder_cleanup(struct folder *folder)
{
    for (int i = 0; i < folder->count; i++)
        free(folder->names[i]);
    for (int i = 0; i < folder->folder_count; i++)
        free(folder->folders[i]);
}

/* Names of files that lie beside data and are none. */
static bool is_beside(const char *name)
{
    static const char *const patterns[] = {
        ".*",   "README*", "readme*", "LICENSE*", "LICENCE*", "*.md",  "*.json",  "*.py",
        "*.sh", "*.zip",   "*.tar",   "*.tgz",    "*.html",   "*.pdf", "*.names", "*.tar.gz"};

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

static int name_compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Appends a copy of the name if there is room. */
static int name_add(char **names, int *count, const char *name)
{
    if (*count == DETECTION_FILES_MAX)
        return -E2BIG;
    names[*count] = strdup(name);
    if (!names[*count])
        return -ENOMEM;
    (*count)++;
    return 0;
}

static int folder_list(const char *path, struct folder *folder, struct error *error)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, name_compare), r = 0;

    if (count < 0)
        return error_set_errno(error, -errno, "cannot list the folder %s", path);
    folder->path = path;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        AUTO_FREE char *full = reader_path_join(path, name);
        struct stat status;

        if (r == -ENOMEM || is_beside(name) || !full || stat(full, &status) < 0)
            ;
        else if (S_ISREG(status.st_mode))
            r = name_add(folder->names, &folder->count, name);
        else if (S_ISDIR(status.st_mode))
            r = name_add(folder->folders, &folder->folder_count, name);
        folder->has_more = folder->has_more || r == -E2BIG;
        free(entries[i]);
    }
    free(entries);
    return r == -ENOMEM ? error_no_memory(error, "the files of %s", path) : 0;
}

/* ---- images ---- */

/* Whether the folder has an image in it, not in a folder below it. */
static bool has_image(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    bool found = false;

    while (directory && !found && (entry = readdir(directory)))
        found = image_scan_is_image(entry->d_name);
    if (directory)
        closedir(directory);
    return found;
}

/* Whether one of its subfolders has one. */
static bool has_classes(const struct folder *folder)
{
    for (int i = 0; i < folder->folder_count; i++) {
        AUTO_FREE char *path = reader_path_join(folder->path, folder->folders[i]);

        if (path && has_image(path))
            return true;
    }
    return false;
}

/* What the folders of a training set and of test sets are called. */
static const char *const train_folders[] = {"train", "training", NULL};
static const char *const test_folders[] = {"test",  "testing",    "test[0-9]", "val",
                                           "valid", "validation", NULL};

static bool is_called(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (fnmatch(*names, name, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

/* The subfolder in which images lie, if those that have some are called as sets are, and not as
 * classes; the caller frees it. NULL: there are classes. */
static char *folder_without_classes(const struct folder *folder)
{
    AUTO_FREE char *found = NULL;

    for (int i = 0; i < folder->folder_count; i++) {
        AUTO_FREE char *path = reader_path_join(folder->path, folder->folders[i]);

        if (!path || !has_image(path))
            continue;
        if (!is_called(folder->folders[i], train_folders) &&
            !is_called(folder->folders[i], test_folders))
            return NULL;
        free(found);
        found = TAKE_POINTER(path);
    }
    return TAKE_POINTER(found);
}

/* The subfolder of this name, if classes of images are in it; the caller frees it. */
static char *folder_of_classes(const struct folder *folder, const char *name)
{
    CLEANUP(folder_cleanup) struct folder below = {0};
    struct error ignored = {0};
    AUTO_FREE char *path = NULL;

    for (int i = 0; i < folder->folder_count && !path; i++)
        if (fnmatch(name, folder->folders[i], FNM_CASEFOLD) == 0)
            path = reader_path_join(folder->path, folder->folders[i]);
    if (!path || folder_list(path, &below, &ignored) < 0 || !has_classes(&below))
        return NULL;
    return TAKE_POINTER(path);
}

static int images_without_classes(const char *path, struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s holds images without classes: put them into a subfolder for each class, "
                     "and name the folder above",
                     path);
}

/* Returns whether there are images. */
static bool images_find(const struct folder *folder, struct detection *detection, int *result,
                        struct error *error)
{
    AUTO_FREE char *train = NULL, *test = NULL, *other = NULL, *images = NULL;

    for (size_t i = 0; train_folders[i] && !train; i++)
        train = folder_of_classes(folder, train_folders[i]);
    for (size_t i = 0; train && test_folders[i] && !other; i++)
        *(test ? &other : &test) = folder_of_classes(folder, test_folders[i]);
    if (!train && !has_classes(folder))
        return false;
    images = train ? NULL : folder_without_classes(folder);
    if (images) {
        *result = images_without_classes(images, error);
        return true;
    }
    if (test)
        detection_note(detection, "%s is the test set", test);
    if (other)
        detection_note_unused(detection, other);
    *result = detection_read_images(train ? train : folder->path, test, detection, error);
    return true;
}

/* ---- files ---- */

/* The first name that matches; NULL: none does. */
static const char *name_find(const struct folder *folder, const char *pattern)
{
    for (int i = 0; i < folder->count; i++)
        if (fnmatch(pattern, folder->names[i], FNM_CASEFOLD) == 0)
            return folder->names[i];
    return NULL;
}

static int count_ending(const struct folder *folder, const char *const *endings)
{
    int count = 0;

    for (int i = 0; i < folder->count; i++)
        for (const char *const *ending = endings; *ending; ending++)
            if (detection_ends(folder->names[i], *ending)) {
                count++;
                break;
            }
    return count;
}

/* "Ecoli_prom" of "Ecoli_prom.fa.gz" */
static char *stem(const char *name)
{
    char *copy = strdup(name), *dot = copy ? strrchr(copy, '.') : NULL;

    if (dot && strcmp(dot, ".gz") == 0) {
        *dot = '\0';
        dot = strrchr(copy, '.');
    }
    if (dot && dot != copy)
        *dot = '\0';
    return copy;
}

/* A class for each file. */
static int fasta_files_read(const struct folder *folder, struct detection *detection,
                            struct error *error)
{
    int r = 0;

    for (int i = 0; i < folder->count && r == 0; i++) {
        AUTO_FREE char *path = reader_path_join(folder->path, folder->names[i]);
        struct detection file = {0};

        r = path ? detection_read_file(path, &file, error) : error_no_memory(error, "a path");
        if (r == 0 && file.format != DATASET_FASTA)
            r = error_set(error, -EINVAL, "%s is no FASTA file, but others beside it are; name one",
                          path);
        if (r == 0)
            r = detection_add(&detection->train, path, error);
        detection->samples += file.samples;
        detection->is_dna = (i == 0 || detection->is_dna) && file.is_dna;
        detection->classes[i] = stem(folder->names[i]);
        if (r == 0 && !detection->classes[i])
            r = error_no_memory(error, "the names of classes");
        detection_release(&file);
    }
    detection->format = DATASET_FASTA;
    detection->class_count = folder->count;
    detection_note(detection, "each file is a class of its own");
    return r;
}

/* Adds a file to the training set whose first one has been read. */
static int file_join(const char *path, struct detection *detection, struct error *error)
{
    int64_t record = detection->format == DATASET_CIFAR ? 3 * 32 * 32 + detection->label_bytes : 1;
    struct stat status;

    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    detection->samples += status.st_size / record;
    return detection_add(&detection->train, path, error);
}

/* Joins files of one kind to one set, beside what the first one tells. */
static int files_join(const struct folder *folder, const char *pattern, struct detection *detection,
                      struct error *error)
{
    int r = 0;

    if (folder->has_more)
        return error_set(error, -EINVAL,
                         "%s has more than %d files, as many as a specification names: join some",
                         folder->path, DETECTION_FILES_MAX);
    for (int i = 0; i < folder->count && r == 0; i++) {
        AUTO_FREE char *path = reader_path_join(folder->path, folder->names[i]);

        if (fnmatch(pattern, folder->names[i], FNM_CASEFOLD) != 0)
            continue;
        if (!path)
            return error_no_memory(error, "a path");
        r = detection->train.path_count ? file_join(path, detection, error)
                                        : detection_read_file(path, detection, error);
    }
    return r;
}

/* The first of the names, as a sentence lists them. */
static void names_list(char *const *all, int count, char names[NAMES_BYTES])
{
    size_t used = 0;

    names[0] = '\0';
    for (int i = 0; i < count && i < NAMES_SHOWN && used + 1 < NAMES_BYTES; i++) {
        char shown[80];

        text_escape_controls(all[i], shown, sizeof shown);
        used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s", i ? ", " : "", shown);
    }
    if (count > NAMES_SHOWN && used + 1 < NAMES_BYTES)
        snprintf(names + used, NAMES_BYTES - used, ", …");
}

static int nothing_known(const struct folder *folder, struct error *error)
{
    char names[NAMES_BYTES];

    if (folder->count == 0 && folder->folder_count == 0)
        return error_set(error, -EINVAL,
                         "%s holds no data: neither files nor a subfolder of images for each class",
                         folder->path);
    if (folder->count == 0) {
        names_list(folder->folders, folder->folder_count, names);
        return error_set(
            error, -EINVAL,
            "%s holds no data but folders (%s), and no image that is read lies in these (.png, "
            ".jpg, .webp, .bmp, .tif): name the folder whose subfolders have the images of a class "
            "each, and convert other images; make a table of texts and their classes",
            folder->path, names);
    }
    if (image_scan_is_image(folder->names[0]))
        return images_without_classes(folder->path, error);
    names_list(folder->names, folder->count, names);
    return error_set(error, -EINVAL,
                     "%s holds %d files, and none is called as training data are: name one of "
                     "them (%s)",
                     folder->path, folder->count, names);
}

/* The files that are read, by their names. */
static int files_find(const struct folder *folder, struct detection *detection, struct error *error)
{
    static const char *const fasta[] = {".fa", ".fasta", ".fna", ".faa", NULL};
    static const char *const texts[] = {".txt", NULL};
    static const char *const patterns[] = {
        "*train*images*", "*images*idx*", "train.bin",   "*train*.npz", "x_train.npy",
        "train.*",        "*_train.*",    "*.tra",       "*.data",      "x.npy",
        "images.npy",     "data.npy",     "features.npy"};
    const char *name = NULL;
    AUTO_FREE char *path = NULL;

    if (name_find(folder, "data_batch_*.bin"))
        return files_join(folder, "data_batch_*.bin", detection, error);
    if (folder->count > 1 && count_ending(folder, fasta) == folder->count)
        return fasta_files_read(folder, detection, error);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !name; i++)
        name = name_find(folder, patterns[i]);
    if (!name && folder->count == 1)
        name = folder->names[0];
    if (!name && folder->count > 1 && count_ending(folder, texts) == folder->count)
        return files_join(folder, "*.txt", detection, error);
    if (!name)
        return nothing_known(folder, error);
    path = reader_path_join(folder->path, name);
    return path ? detection_read_file(path, detection, error) : error_no_memory(error, "a path");
}

/* `inner`: the folder is the only content of the one that was named. */
static int folder_read(const char *path, bool inner, struct detection *detection,
                       struct error *error)
{
    CLEANUP(folder_cleanup) struct folder folder = {0};
    int r = folder_list(path, &folder, error);

    if (r < 0)
        return r;
    if (!inner && folder.count == 0 && folder.folder_count == 1 && !has_classes(&folder)) {
        AUTO_FREE char *only = reader_path_join(path, folder.folders[0]);

        return only ? folder_read(only, true, detection, error) : error_no_memory(error, "a path");
    }
    if (images_find(&folder, detection, &r, error))
        return r;
    return files_find(&folder, detection, error);
}

int detection_read_folder(const char *path, struct detection *detection, struct error *error)
{
    AUTO_FREE char *plain = strdup(path);

    if (!plain)
        return error_no_memory(error, "a path");
    for (size_t length = strlen(plain); length > 1 && plain[length - 1] == '/';)
        plain[--length] = '\0';
    return folder_read(plain, false, detection, error);
}
