/* detection_internal.h: what the files of the detection share. Internal to the folder. */
#pragma once

#include "engine/data/detection.h"

/* Looks at one file, with those that belong to it by their names. */
int detection_read_file(const char *path, struct detection *detection, struct error *error);
int detection_read_folder(const char *path, struct detection *detection, struct error *error);

/* The arrays of samples and labels in a file or an archive of NumPy. */
int detection_read_npy(const char *path, struct detection *detection, struct error *error);
int detection_read_archive(const char *path, struct detection *detection, struct error *error);
/* A folder with a folder of images for each class. `test`: another one, or NULL. */
int detection_read_images(const char *path, const char *test, struct detection *detection,
                          struct error *error);

/* Appends the path, or a copy of it. -EINVAL: there are too many. */
int detection_add(struct detection_set *set, const char *path, struct error *error);
/* Notes that a further set beside training and test is not used. */
void detection_note_unused(struct detection *detection, const char *path);
/* The path with the last `from` of its file name replaced, if a file lies there; the caller frees
 * it. NULL: there is none. */
char *detection_sibling(const char *path, const char *from, const char *to);
/* Whether the name ends so, with ".gz" behind it or not, in either case. */
bool detection_ends(const char *name, const char *ending);
