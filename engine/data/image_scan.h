/* image_scan.h: the files of an image folder in torchvision's order (ImageFolder): a subfolder for
 * each class, sorted by name, its images by folder and name. */
#pragma once

#include "base/error.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct image_file {
    char *path; /* relative to the folder, "cat/1.png"; owned */
    int32_t label;
    int64_t bytes;
    struct timespec changed, modified; /* status (ctime) and content (mtime) */
};

struct image_scan {
    char *folder; /* its path; owned */
    char **class_names;
    int32_t class_count;
    struct image_file *files;
    int64_t count, capacity;
};

/* Lists `folder`. Names that begin with a dot, and files whose names do not end as images' do, are
 * left out as torchvision does. -EINVAL with a sentence for a class without an image, a file beside
 * the classes that is one, an image of a kind that is not read (.gif, .heic), folders nested too
 * deeply; errno of reading a folder. Released with image_scan_release() in either case. */
int image_scan_open(const char *folder, struct image_scan *scan, struct error *error);
/* Lists the images of `folder` and of the folders in it, whatever they are called, without classes:
 * by folder, then by name. */
int image_scan_open_all(const char *folder, struct image_scan *scan, struct error *error);
/* Whether the name ends as those of images that are read do. */
bool image_scan_is_image(const char *name);
/* -EINVAL with a sentence: the name ends as those of images that are not read do. */
int image_scan_check_kind(const char *path, struct error *error);
void image_scan_release(struct image_scan *scan);

/* Adds one file, of a path relative to the scan's folder or absolute. */
int image_scan_add(struct image_scan *scan, const char *path, int32_t label,
                   const struct stat *status, struct error *error);

/* Whether the status is still that of the scan. */
int image_file_is_unchanged(const struct image_file *file, const struct stat *status);

/* Adds names, classes, sizes and times of all files to the digest. */
void image_scan_digest(const struct image_scan *scan, struct sha256 *hash);
