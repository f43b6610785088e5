/* worker_kept.h: what was measured of a device, kept for later in the user's cache
 * ($XDG_CACHE_HOME/traind, else ~/.cache/traind): one JSON file for each kind of figures, device
 * and number of threads. It begins with a description of the device, so that another CPU, library
 * or version of the figures does not take it for its own. */
#pragma once

#include "engine/backends/backend.h"
#include "proto/json.h"

#include <limits.h>

enum { WORKER_KEPT_BYTES_MAX = 1024 * 1024 };

/* The folder of all that is kept; it is made. False when there is no place for it. */
bool worker_kept_folder(char path[PATH_MAX]);
/* The file's path; its folder is made. False when there is no place for it. */
bool worker_kept_path(const char *kind, const struct backend_device_info *info,
                      char path[PATH_MAX]);
/* An object that describes the device, for the figures. */
struct json_object *worker_kept_begin(int version, const struct backend_device_info *info);
bool worker_kept_describes(struct json_object *kept, int version,
                           const struct backend_device_info *info);
/* NULL: nothing is kept of this device, as it is now. */
struct json_object *worker_kept_read(const char *kind, int version,
                                     const struct backend_device_info *info);
/* `path` becomes the file's. A cache that cannot be written is no error. */
void worker_kept_write(const char *kind, const struct backend_device_info *info,
                       struct json_object *kept, char path[PATH_MAX]);
