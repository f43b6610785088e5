/* worker_kept.h: keeps measurements of a device in the user's cache ($XDG_CACHE_HOME/traind, else
 * ~/.cache/traind): one JSON file for each kind of figures, device and number of threads. The file
 * begins with a description of the device, so that it is not used for another CPU, library or
 * version of the figures. */
#pragma once

#include "engine/backends/backend.h"
#include "proto/json.h"

#include <limits.h>

enum { WORKER_KEPT_BYTES_MAX = 1024 * 1024 };

/* Gets the folder of the cache and creates it. False: it cannot be created. */
bool worker_kept_folder(char path[PATH_MAX]);
/* Gets the file's path and creates its folder. False: the folder cannot be created. */
bool worker_kept_path(const char *kind, const struct backend_device_info *info,
                      char path[PATH_MAX]);
/* Makes an object that describes the device, to which the caller adds the figures. */
struct json_object *worker_kept_begin(int version, const struct backend_device_info *info);
bool worker_kept_describes(struct json_object *kept, int version,
                           const struct backend_device_info *info);
/* Reads the file; NULL: nothing is kept for the device as it is now. */
struct json_object *worker_kept_read(const char *kind, int version,
                                     const struct backend_device_info *info);
/* Writes the file and fills its `path`. An unwritable cache is no error. */
void worker_kept_write(const char *kind, const struct backend_device_info *info,
                       struct json_object *kept, char path[PATH_MAX]);
